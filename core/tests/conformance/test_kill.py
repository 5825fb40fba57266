"""The kill harness, on drivers that are small process trees of plain Python."""

import subprocess
import sys
import textwrap

import pytest

from penstock.conformance import processes
from penstock.conformance.kill import Driver, DriverFailed, Strike
from penstock.conformance.waiting import NotInTime, until


@pytest.fixture
def drive(tmp_path):
    drivers = []

    def make(text, *strikes):
        script = tmp_path / f"driver{len(drivers)}.py"
        script.write_text("import os, subprocess, sys, time\n" + textwrap.dedent(text))
        driver = Driver([script], folder=tmp_path / f"run{len(drivers)}", strikes=strikes)
        drivers.append(driver)
        return driver

    yield make
    for driver in drivers:
        if driver.lives:
            driver.kill()


# Counts to ten, durably, and reaches a point at each number.
COUNTING = """
from pathlib import Path
from penstock.contracts.points import reached
done = Path(__file__).with_suffix(".done")
for number in range(len(done.read_text()) if done.exists() else 0, 10):
    with done.open("a") as file:
        file.write(".")
    reached("step", number=number)
"""

# The point is reached in a child of a child, as in a stream reader below the JVM.
NESTED = """
helper = subprocess.Popen(["sleep", "600"], start_new_session=True)
print("helper", helper.pid, flush=True)
inner = "from penstock.contracts.points import reached; reached('deep'); print('went on')"
outer = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {inner!r}]).returncode)"
code = subprocess.run([sys.executable, "-c", outer]).returncode
print("child ended with", code, flush=True)
helper.kill()
helper.wait()
"""


def test_an_unharmed_driver_lives_once(drive):
    driver = drive(COUNTING).finish(within=20)
    assert driver.lives == 1
    assert driver.times("step") == 10


def test_a_driver_is_killed_at_the_very_point_and_started_again(drive):
    driver = drive(COUNTING, "step@3").finish(within=20)
    assert driver.lives == 2
    assert driver.times("step") == 10
    [strike] = driver.struck()
    assert strike["facts"] == {"number": "2"}


def test_each_strike_comes_once_over_all_lives(drive):
    driver = drive(COUNTING, "step@3", "step@4", "step@9").finish(within=20)
    assert driver.lives == 4
    assert [entry["facts"]["number"] for entry in driver.struck()] == ["2", "3", "8"]


def test_a_strike_from_a_grandchild_takes_the_whole_tree(drive):
    driver = drive(NESTED, "deep@1").finish(within=20)
    log = driver.log.read_text()
    assert driver.lives == 2
    first, second = (life.splitlines() for life in log.split("--- life ")[1:])
    assert "went on" not in first
    assert not any("child ended" in line for line in first)
    assert "went on" in second
    helper = int(next(line for line in first if line.startswith("helper")).split()[1])
    assert not processes.alive(helper)


def test_a_worker_strike_spares_the_driver(drive):
    driver = drive(NESTED, "deep@1:worker").finish(within=20)
    assert driver.lives == 1
    assert "went on" not in driver.log.read_text()
    assert "child ended with 247" in driver.log.read_text()


def test_a_frozen_driver_stands_until_thawed(drive):
    driver = drive(COUNTING, "step@5:freeze").start()
    until(driver.struck, within=20, why="the driver reached its point")
    with pytest.raises(NotInTime):
        driver.wait(within=0.3)
    assert driver.times("step") == 5
    driver.thaw()
    assert driver.wait(within=20) == 0
    assert driver.times("step") == 10


def test_freezing_and_killing_from_outside(drive):
    driver = drive("print('up', flush=True)\ntime.sleep(600)").start()
    until(lambda: "up" in driver.log_tail(), within=20, why="the driver is up")
    assert driver.freeze() == [driver.pid]
    driver.kill()
    assert not driver.running
    assert driver.pids() == []


def test_a_driver_that_fails_by_itself_is_not_started_again(drive):
    driver = drive("sys.exit('no such file')")
    with pytest.raises(DriverFailed, match=r"ended with 1 unstruck\n(.*\n)*no such file"):
        driver.finish(within=20)
    assert driver.lives == 1


def test_a_strike_that_never_comes_is_a_failure_not_a_pass(drive):
    with pytest.raises(DriverFailed, match=r"never struck: step@11:tree; .*'step': 10"):
        drive(COUNTING, "step@11").finish(within=20)


def test_a_driver_that_hangs_is_ended_and_its_log_shown(drive):
    driver = drive("print('stuck', flush=True)\ntime.sleep(600)")
    with pytest.raises(NotInTime, match="stuck"):
        driver.finish(within=2)
    assert not driver.running


def test_children_that_outlive_their_driver_are_ended(drive):
    driver = drive("print(subprocess.Popen(['sleep', '600']).pid)").finish(within=20)
    assert not processes.alive(int(driver.log.read_text().splitlines()[-1]))


@pytest.mark.parametrize("text", ["", "a@0", "a@x", "a@1:sword", "a b"])
def test_what_is_no_strike_is_refused(text):
    with pytest.raises(ValueError, match="is no strike"):
        Strike.parse(text)


def test_count_and_kind_may_be_left_out():
    assert Strike.parse("mid-write") == Strike("mid-write", 1, "tree")
    assert Strike.parse("mid-write:worker") == Strike("mid-write", 1, "worker")


def test_a_driver_does_not_outlive_the_tests_that_started_it(tmp_path):
    starter = tmp_path / "starter.py"
    starter.write_text(
        textwrap.dedent(
            """
            import sys, time
            from pathlib import Path
            from penstock.conformance.kill import Driver

            here = Path(__file__).parent
            (here / "sleeper.py").write_text("import time; time.sleep(600)")
            driver = Driver([here / "sleeper.py"], folder=here / "run").start()
            print(driver.pid, flush=True)
            time.sleep(600)
            """
        )
    )
    tests = subprocess.Popen([sys.executable, str(starter)], stdout=subprocess.PIPE, text=True)
    pid = int(tests.stdout.readline())
    assert processes.alive(pid)
    tests.kill()
    tests.communicate()
    until(lambda: not processes.alive(pid), within=10, why="the driver is gone too")


READY = """
from penstock.conformance.kill import stand_by
print("ready", flush=True)
stand_by()
"""


def test_the_next_life_stands_by_and_touches_nothing_before_its_time(drive, tmp_path):
    driver = drive(READY + COUNTING)
    driver = Driver(driver.command, folder=tmp_path / "ready", strikes=["step@3"], standby=True)
    driver.start()
    driver.wait(20)
    until(lambda: driver.log.read_text().count("ready") == 2, within=20, why="the next is ready")
    assert driver.times("step") == 3
    driver.finish(within=20)
    assert (driver.lives, driver.times("step")) == (2, 10)
    assert driver.log.read_text().count("ready") == 2


def test_what_stands_by_ends_with_the_driver(drive, tmp_path):
    driver = drive(READY + "time.sleep(600)")
    driver = Driver(driver.command, folder=tmp_path / "ready", strikes=["never"], standby=True)
    driver.start()
    until(lambda: driver.log.read_text().count("ready") == 2, within=20, why="both are ready")
    waiting = driver._next.pid
    driver.end()
    assert not driver.running
    assert not processes.alive(waiting)
