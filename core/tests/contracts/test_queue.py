from penstock.contracts.queue import cautious


def test_messages_that_were_delivered_often_are_taken_in_ever_smaller_numbers():
    assert [cautious(10_000, before) for before in range(9)] == [
        *[10_000] * 3,
        1000,
        100,
        10,
        *[1] * 3,
    ]
    assert [cautious(1, before) for before in (0, 3, 9)] == [1, 1, 1]
