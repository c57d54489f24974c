"""What the tests of map runs share: a folder with items and commands, runs in it, and what became of each item."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
from conftest import MODE, PROGRAM

PATIENCE = 60
# Policies that make a test wait for nothing: runs in all, and 20 ms between them.
QUICK = {"max_attempts": 3, "backoff_strategy": "fixed", "initial_delay_seconds": 0.02, "jitter": False}


def until(condition, what="it did not come to that"):
    """Waits for a condition, and returns what it became."""
    limit = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < limit, what
        time.sleep(0.01)
    return value


def sh(script, *args):
    """A command that is a shell script: $1 is the item, or what is given."""
    return ["--", "sh", "-c", script, "sh", *(args or ["{}"])]


def alive(pid):
    """Whether a process is there and has not ended: a zombie is not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def signals(ignored):
    """What a process begins with, whatever we were begun with ourselves."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)


class Run:
    """A run that goes on in the background."""

    def __init__(self, maps, args, input=subprocess.DEVNULL, env=None, ignored=(), command=("map",)):
        self.out, self.err = maps.folder / f"out.{len(maps.runs)}", maps.folder / f"err.{len(maps.runs)}"
        with open(self.out, "w") as out, open(self.err, "w") as err:
            self.process = subprocess.Popen([PROGRAM, *command, "-o", "json", *map(str, args)], cwd=maps.folder, stdin=input,
                                            stdout=out, stderr=err, env={**maps.lz.env, **(env or {})}, preexec_fn=lambda: signals(ignored))

    def signal(self, number=signal.SIGINT):
        self.process.send_signal(number)

    def events(self):
        """What it has told so far; the last line may be on its way."""
        lines = [json.loads(line) for line in self.out.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in lines if "event" in line]

    def end(self, code=0):
        """Waits for its end and returns its events."""
        assert self.process.wait(PATIENCE) == code, (self.process.returncode, self.out.read_text(), self.err.read_text())
        check(self.err.read_text())
        return self.events()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)


def check(stderr):
    assert "Sanitizer" not in stderr and "runtime error" not in stderr, stderr


class Maps:
    """Runs on one data directory, from one folder.  Commands can write to $LOG, a file that log() reads."""

    def __init__(self, lz, folder):
        self.lz, self.folder, self.runs, self.pids = lz, folder, [], []
        folder.mkdir()
        self.lz.base["LOG"] = str(folder / "log")

    # ---- what it is run on --------------------------------------------------------------------------------------

    def write(self, name, text, mode=0o644):
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        return path

    def lines(self, *items):
        return self.write("items.txt", "".join(f"{item}\n" for item in items))

    def json(self, value):
        return self.write("items.json", json.dumps(value))

    def policy(self, name="quick", **changes):
        self.lz.ok("policy", "set", name, "-", input={**QUICK, **changes})
        return name

    # ---- running ------------------------------------------------------------------------------------------------

    def run(self, *args, **kw):
        """Runs `lazaret map` to its end, whatever that is."""
        done = self.lz.run("map", *args, cwd=self.folder, **kw)
        check(done.stderr if isinstance(done.stderr, str) else done.stderr.decode())
        return done

    def map(self, *args, code=0, **kw):
        """Runs it with -o json and returns its events, of which the last is the summary."""
        done = self.run("-o", "json", *args, **kw)
        assert done.returncode == code, done
        return [json.loads(line) for line in done.stdout.splitlines()]

    def refused(self, *args, code=2, **kw):
        """Runs what must be refused, and nothing changed by it; returns what it said."""
        before = self.snapshot()
        done = self.run(*args, **kw)
        assert done.returncode == code and done.stdout == "", done
        assert self.snapshot() == before, "it changed something"
        return done.stderr

    def snapshot(self):
        """Every file there is, and what is in it; of the store, what is in the store."""
        files = [*self.lz.data.glob("**"), *self.lz.data.rglob("*"), *self.folder.rglob("*")]
        store = (self.lz.data / "lazaret.db").exists() and (self.states(), self.lz.json("dlq", "list", "--state", "all"))
        return store, {str(path): path.is_file() and path.read_bytes() for path in files if not path.name.startswith("lazaret.")}

    def start(self, *args, **kw):
        run = Run(self, args, **kw)
        self.runs.append(run)
        return run

    def retry(self, *args, code=0):
        """dlq retry, with -o json; returns the events of the runs that followed."""
        done = self.lz.run("dlq", "retry", "--yes", "-o", "json", *args, cwd=self.folder)
        check(done.stderr)
        assert done.returncode == code, done
        said = [json.loads(line) for line in done.stdout.splitlines()]
        return [line for line in said if "event" in line]  # the answer itself comes before them

    # ---- what became of it --------------------------------------------------------------------------------------

    def letters(self, **query):
        """The letters, of any state, by their item: a text itself, else its id."""
        flags = [word for name, value in query.items() for word in (f"--{name.replace('_', '-')}", value)]
        found = self.lz.json("dlq", "list", "--limit", "1000", *([] if "state" in query else ["--state", "all"]), *flags)
        return {l["item_data"] if isinstance(l["item_data"], str) else l["item_id"]: l for l in found}

    def letter(self, **query):
        """The only letter."""
        (letter,) = self.letters(**query).values()
        return letter

    def failure(self, *args, command, item="x", code=0):
        """Runs a command on one item, once; returns the last failure of its letter."""
        self.map("--input", self.lines(item), "--retry", "1", *args, *command, code=code)
        return self.letter()["failure_history"][-1]

    def states(self):
        return self.lz.json("status")["states"]

    def log(self):
        path = self.folder / "log"
        return path.read_text(errors="surrogateescape").splitlines() if path.exists() else []

    def logged(self, line):
        return until(lambda: line in self.log(), f"{line!r} is not in the log")

    def end(self):
        for run in self.runs:
            run.kill()
        for pid in self.pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def count(events, what):
    return sum(event["event"] == what for event in events)


@pytest.fixture
def maps(lz, tmp_path):
    if MODE == "server":
        pytest.skip("map works on a data directory")
    made = Maps(lz, tmp_path / "folder")
    yield made
    made.end()
