import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.conformance import processes
from penstock.conformance.waiting import until

FAMILY = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", '''
import subprocess, sys
grandchild = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(grandchild.pid, flush=True)
grandchild.wait()
'''], stdout=subprocess.PIPE, text=True)
print(child.pid, child.stdout.readline().strip(), flush=True)
child.wait()
"""


@pytest.fixture
def family():
    with subprocess.Popen(
        [sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, text=True
    ) as root:
        child, grandchild = map(int, root.stdout.readline().split())
        yield [root.pid, child, grandchild]
        processes.slay(root.pid, child, grandchild)


def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_tree_holds_all_descendants_parents_first(family):
    assert processes.tree(family[0]) == family


def test_slaying_ends_the_whole_tree_even_in_other_sessions(family):
    assert sorted(processes.slay(family[0])) == sorted(family)
    assert not any(processes.alive(pid) for pid in family)


def test_slaying_the_dead_does_nothing(family):
    processes.slay(family[0])
    assert processes.slay(family[0]) == []


def test_what_is_held_stands_still_and_goes_on_when_thawed(family):
    assert sorted(processes.hold(family[0])) == sorted(family)
    until(lambda: all(state(pid) == "T" for pid in family), within=5, why="all stand still")
    processes.thaw(family[0])
    until(lambda: all(state(pid) != "T" for pid in family), within=5, why="all go on")


def test_this_process_is_alive_and_knows_its_parent():
    assert processes.alive(os.getpid())
    assert processes.parent(os.getpid()) == os.getppid()
