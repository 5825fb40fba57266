import os
import signal
import subprocess
import sys

from penstock.conformance.processes import alive
from penstock.conformance.waiting import until

SCRIPT = """
import time
from tests.brokers.server import Server

class Sleeping(Server):
    name = "sleeping"
    def prepare(self): ...
    def launch(self):
        self.spawn(["sleep", "600"])
    def ready(self):
        return True

print(Sleeping().start().pids[0], flush=True)
time.sleep(600)
"""


def test_a_server_ends_with_the_test_process_even_if_that_is_killed():
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True
    ) as test:
        server = int(test.stdout.readline())
        assert alive(server)
        os.kill(test.pid, signal.SIGKILL)
        until(lambda: not alive(server), within=10, why="the server has ended")
