"""The example of a cluster does what it prints: its commands are run word for word."""

import os
import pathlib
import re
import signal
import subprocess
import threading

import pytest
from station import PATIENCE, PROGRAM, ROOT, wait_until

RUN = str(ROOT / "examples/cluster/run")
PAYLOAD = '{"task_id":"t-1","prompt":"Summarize the minutes"}'


class Example:
    """The example while it runs; `lines` is what it has printed."""

    def __init__(self, *flags):
        env = {**os.environ, "LAZARET_BIN": str(pathlib.Path(PROGRAM).resolve())}
        self.process = subprocess.Popen([RUN, *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
        self.lines = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        wait_until(lambda: "Ctrl-C ends everything." in self.lines or self.process.poll() is not None, "the example is ready")
        assert self.process.poll() is None, "\n".join(self.lines)
        self.commands = [line.strip() for line in self.lines if line.startswith("    ")]

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def type(self, command):
        """Runs a command as somebody would in another terminal; what it says."""
        done = subprocess.run(["bash", "-c", f"{self.commands[0]}\n{command}"], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def pids(self):
        """Of everything that the example has started."""
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True).stdout
        return [int(pid) for pid in children.split()]

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        code = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        return code


@pytest.fixture
def example():
    started = []

    def start(*flags):
        started.append(Example(*flags))
        return started[-1]

    yield start
    for each in started:
        each.end()


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("flags", [(), ("--servers", "3", "--nats-nodes", "3")], ids=["two_servers", "three_of_each"])
def test_the_walk_through_of_the_example_works_word_for_word(example, flags):
    cluster = example(*flags)
    _, publish, listing, table, retry, show, push, work, kill, status, verify = cluster.commands
    dlq_id = re.search(r"--dlq-id (\S+)", publish)[1]
    directory = pathlib.Path(re.search(r"^logs\s+(\S+)", "\n".join(cluster.lines), re.M)[1])
    assert cluster.type(publish).strip() == dlq_id
    wait_until(lambda: dlq_id in cluster.type(listing), "the first server lists the letter")
    assert re.search(rf"{dlq_id}\s+\|\s+agent_crashed\s+\|\s+f", cluster.type(table))
    assert "retried" in cluster.type(retry)
    wait_until(lambda: f"arrived on swarm.task.request: {PAYLOAD}" in cluster.lines, "the payload arrives")
    assert re.search(r"state\s+recovered", cluster.type(show))
    assert "created" in cluster.type(push)
    assert "1 job: 1 done" in cluster.type(work)
    cluster.type(kill)
    assert "2 done" in cluster.type(status)
    assert "verified" in cluster.type(verify)
    pids = cluster.pids()
    assert cluster.end() == 0 and len(pids) >= 3
    wait_until(lambda: not any(map(alive, pids)), "everything has ended")
    assert not directory.exists()
