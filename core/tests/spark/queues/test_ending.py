"""SIGTERM, as Spark sends it: in the middle of a call or between two."""

import signal
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import os, signal, sys, threading, time
from penstock.spark.queues.ending import Ending

lock = threading.RLock()

def stop():
    # As the receivers do: another thread must get the lock that the interrupted call held.
    other = threading.Thread(target=lambda: lock.acquire() and print("stopped", flush=True))
    other.start()
    other.join(10)

ending = Ending(stop)
print("ready", flush=True)
if sys.argv[1] == "inside":
    with ending.call(), lock:
        print("inside", flush=True)
        time.sleep(60)
else:
    print("idle", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("where", ["inside", "idle"])
def test_stop_is_called_with_no_lock_held_and_the_process_ends(where):
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), where], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    assert process.stdout.readline() == f"{where}\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert (out, process.returncode) == ("stopped\n", 0)
