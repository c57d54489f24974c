"""What the tests of the command line share: the program, a data directory, and letters in it."""

import json
import os
import pathlib
import subprocess

import pexpect
import pytest

BUILD = pathlib.Path(os.environ.get("LAZARET_BUILD", "build"))
PROGRAM = os.environ.get("LAZARET_BIN") or str(BUILD / "lazaret")
SEED = os.environ.get("LAZARET_SEED_BIN") or str(
    next((p for p in BUILD.glob("**/seed_letters") if p.is_file()), BUILD / "tests/seed_letters"))

# A job that dies of its first failure, and one that is run twice, a millisecond apart.
ONCE = {"max_attempts": 1}
TWICE = {"max_attempts": 2, "backoff_strategy": "fixed", "initial_delay_seconds": 0.001, "jitter": False}
TIMEOUT = {"class": "timeout", "error_type": "Timeout", "message": "gateway timed out after 30 s"}
DENIED = {"class": "permission_denied", "message": "user 7 may not write"}


def pytest_addoption(parser):
    parser.addoption("--accept", action="store_true",
                     help="write what the program prints into the .ok files")


def pytest_sessionstart(session):
    for path in [PROGRAM, SEED]:
        if not os.access(path, os.X_OK):
            pytest.exit(f"{path} is not there: build it, or set LAZARET_BIN and LAZARET_SEED_BIN", 4)


class Lazaret:
    """The program on one data directory."""

    def __init__(self, data):
        self.data = data
        self.env = {"PATH": os.environ["PATH"], "HOME": str(data), "USER": "ada", "LC_ALL": "C.UTF-8",
                    "LAZARET_DATA": str(data), "TERM": "xterm"}
        self.env.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})

    def run(self, *args, input=None, env=None, cwd=None, text=True):
        """Runs the program without a terminal; the result has stdout, stderr and returncode."""
        if isinstance(input, (dict, list)):
            input = json.dumps(input)
        extra = {"input": input} if input is not None else {"stdin": subprocess.DEVNULL}
        return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=text, cwd=cwd,
                              env={**self.env, **(env or {})}, timeout=120, **extra)

    def ok(self, *args, **kw):
        """Runs it, expects 0 and silence on standard error, and returns standard output."""
        done = self.run(*args, **kw)
        assert (done.returncode, done.stderr) == (0, ""), (args, done)
        return done.stdout

    def json(self, *args, **kw):
        return json.loads(self.ok(*args, "-o", "json", **kw))

    def fails(self, code, *args, **kw):
        """Runs it, expects this exit code, and returns standard error."""
        done = self.run(*args, **kw)
        assert done.returncode == code, (args, done)
        return done.stderr

    def terminal(self, *args, rows=60, columns=120, env=None, color=False):
        """Starts it on a terminal."""
        args = [*map(str, args)] + ([] if color else ["--no-color"])
        return pexpect.spawn(PROGRAM, args, env={**self.env, **(env or {})}, dimensions=(rows, columns),
                             timeout=60, encoding="utf-8")

    def on_terminal(self, *args, **kw):
        """Runs it on a terminal to its end; returns what was shown."""
        child = self.terminal(*args, **kw)
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0, child.before
        return child.before.replace("\r\n", "\n")

    def seed(self, *steps):
        """Runs seed_letters with ("push", envelope), ("fail", failure), ("complete",), ("hold",)."""
        args = []
        for name, *value in steps:
            args += [f"--{name}", *(v if isinstance(v, str) else json.dumps(v) for v in value)]
        done = subprocess.run([SEED, "--data", str(self.data), *args], capture_output=True, text=True,
                              env=self.env, timeout=120, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def dead(self, failure=None, **envelope):
        """Makes one dead letter and returns its id."""
        envelope = {"action": "send_invoice", "retry_policy": ONCE, **envelope}
        return self.seed(("push", envelope), ("fail", failure or TIMEOUT))[-1].split()[1]


@pytest.fixture
def lz(tmp_path):
    return Lazaret(tmp_path / "data")
