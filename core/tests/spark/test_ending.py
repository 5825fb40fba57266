"""SIGTERM, as Spark sends it: in the middle of a call, between two, or while a stop is at work."""

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys, threading, time
from penstock.spark.ending import Ending

lock = threading.RLock()

def say(word):
    # Not print: a signal handler may run while it holds the lock of stdout, which "stopped" needs.
    os.write(1, word.encode() + b"\\n")

def stop():
    # As the receivers do: another thread must get the lock that the interrupted call held.
    other = threading.Thread(target=lambda: lock.acquire() and say("stopped"))
    other.start()
    other.join(10)

ending = Ending(stop)
say("ready")
if sys.argv[1] == "stopping":
    # As Spark's own loop does when its socket is closed. The signal is held back until it is here:
    # one that came before `signal.pause()` would leave that waiting for ever.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    ending.stopping()
    say("stopping")
    while signal.SIGTERM not in signal.sigpending():
        time.sleep(0.01)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    stop()
elif sys.argv[1] == "inside":
    with ending.call(), lock:
        say("inside")
        time.sleep(60)
else:
    say("idle")
    time.sleep(60)
"""


@pytest.mark.parametrize("where", ["inside", "idle", "stopping"])
def test_stop_is_called_with_no_lock_held_and_the_process_ends(where):
    command = [sys.executable, "-c", PROGRAM, where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            assert process.stdout.readline() == f"{where}\n"
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (out, process.returncode) == ("stopped\n", 0)


CLOSED = """
import sys
from penstock.spark.ending import Ending

sys.argv[0] = sys.argv[1]
Ending(lambda: None).stopping()
raise {"reset": ConnectionResetError, "broken": BrokenPipeError, "bug": ValueError}[sys.argv[2]]
"""


@pytest.mark.parametrize(
    ("program", "error", "said"),
    [
        ("/lib/python_streaming_source_runner.py", "reset", False),
        ("/lib/python_streaming_source_runner.py", "broken", False),
        ("/lib/python_streaming_source_runner.py", "bug", True),
        ("/home/notebook.py", "reset", True),
    ],
)
def test_sparks_own_end_over_a_closed_socket_is_quiet(program, error, said):
    command = [sys.executable, "-c", CLOSED, program, error]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert ("Traceback" in done.stderr) == said
