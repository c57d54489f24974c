"""What the tests of the command line share: the program, a data directory, and letters in it.

LAZARET_TEST_MODE chooses who carries requests out.  The tests, and what they expect, are the same:

    own      each command owns the directory (the default)
    socket   `lazaret serve` owns it, and commands that are given it go through its socket
    server   commands are given the server's URL
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading

import pexpect
import pytest

BUILD = pathlib.Path(os.environ.get("LAZARET_BUILD", "build"))
PROGRAM = os.environ.get("LAZARET_BIN") or str(BUILD / "lazaret")
SEED = os.environ.get("LAZARET_SEED_BIN") or str(
    next((p for p in BUILD.glob("**/seed_letters") if p.is_file()), BUILD / "tests/seed_letters"))

MODE = os.environ.get("LAZARET_TEST_MODE", "own")
# For what a command does to a directory itself, and for what does not depend on who carries requests out.
own_only = pytest.mark.skipif(MODE != "own", reason="about a directory that commands own")

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


class Server:
    """`lazaret serve` on a directory."""

    def __init__(self, data, env, *args):
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--data", str(data), "--listen", "127.0.0.1:0", *map(str, args)], env=env, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pid = self.process.pid
        ready = self.process.stdout.readline()
        assert ready.startswith("lazaret: ready on http://"), (ready, self.process.communicate(timeout=60))
        self.url = ready.split()[-1]

    def stop(self):
        """Ends it as a service manager would, and expects 0 and silence."""
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=60)
        assert (self.process.returncode, err) == (0, ""), (out, err)

    def kill(self):
        if self.process.returncode is None:
            self.process.kill()
            self.process.communicate(timeout=60)


class Lazaret:
    """The program on one data directory."""

    made = []  # of the test that runs: their servers are ended after it

    def __init__(self, data, mode=MODE):
        Lazaret.made.append(self)
        self.data = data
        self.mode = mode
        self.server = None
        self.lock = threading.Lock()  # a test may run commands from several threads
        self.base = {"PATH": os.environ["PATH"], "HOME": str(data), "USER": "ada", "LC_ALL": "C.UTF-8",
                     "LAZARET_DATA": str(data), "TERM": "xterm"}
        self.base.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})

    @property
    def env(self):
        """The environment of a command.  In the modes with a server it is running from here on."""
        with self.lock:
            if self.mode != "own" and not self.server:
                self.server = Server(self.data, self.base)
                if self.mode == "server":
                    self.base.pop("LAZARET_DATA")
                    self.base["LAZARET_URL"] = self.server.url
        return self.base

    def offline(self):
        """Ends the server, if there is one, and returns the directory: to do something to its files."""
        if self.server:
            server, self.server = self.server, None
            self.base.pop("LAZARET_URL", None)
            self.base["LAZARET_DATA"] = str(self.data)
            server.stop()
        return self.data

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

    def seeder(self):
        """What makes letters, as the beginning of a command: the library, or a worker of the server."""
        if self.mode == "own":
            return [os.path.abspath(SEED), "--data", str(self.data)]
        assert self.env
        return [sys.executable, str(pathlib.Path(__file__).parent / "seed_http.py"), "--data", str(self.data)]

    def seed(self, *steps):
        """Carries out ("push", envelope), ("fail", failure), ("complete",), ("hold",)."""
        args = []
        for name, *value in steps:
            args += [f"--{name}", *(v if isinstance(v, str) else json.dumps(v) for v in value)]
        done = subprocess.run([*self.seeder(), *args], capture_output=True, text=True, env=self.env, timeout=120,
                              stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def dead(self, failure=None, **envelope):
        """Makes one dead letter and returns its id."""
        envelope = {"action": "send_invoice", "retry_policy": ONCE, **envelope}
        return self.seed(("push", envelope), ("fail", failure or TIMEOUT))[-1].split()[1]


@pytest.fixture(autouse=True)
def no_server_is_left():
    yield
    while Lazaret.made:
        Lazaret.made.pop().offline()


@pytest.fixture
def lz(tmp_path):
    return Lazaret(tmp_path / "data")


@pytest.fixture
def serve(lz):
    """Starts servers on the directory; those that a test leaves are killed."""
    made = []

    def start(*args):
        made.append(Server(lz.data, lz.env, *args))
        return made[-1]

    yield start
    for server in made:
        server.kill()
