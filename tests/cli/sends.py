"""What the tests of `send` and `dlq recover` share: a fake endpoint, a directory with a quick policy, and receipts in files.

`posted` is run three times: with a directory that the command owns, beside a server that owns it, and with --server.
"""

import json
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
from conftest import MODE, PROGRAM, Lazaret

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from endpoint import SCALED, Endpoint, receipt

PATIENCE = 120


def until(condition, what="it did not come to that"):
    """Waits for a condition, and returns what it became."""
    limit = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < limit, what
        time.sleep(0.01)
    return value


class Post:
    """The program on one directory, whose policy `receipts` is the seed's, a hundred times faster, and an endpoint."""

    def __init__(self, folder, endpoint, mode):
        self.folder, self.endpoint = folder, endpoint
        self.lz = Lazaret(folder / "data", mode)
        self.lz.ok("policy", "set", "receipts", "-", input=SCALED)

    @property
    def file(self):
        """The mirror of the receipts that are dead."""
        return self.folder / "data/dlq/receipts.json"

    def entries(self, file=None):
        """What stands in it, or in another, when it is there."""
        file = file or self.file
        return json.loads(file.read_text()) if file.exists() else []

    def write(self, body, name="receipt.json"):
        path = self.folder / name
        path.write_text(body if isinstance(body, str) else json.dumps(body))
        return path

    def send(self, body=None, *args, **kw):
        """Sends a receipt from a file to the endpoint."""
        return self.lz.run("send", "--to", self.endpoint.url, "--receipt", self.write(receipt() if body is None else body), *args, **kw)

    def dies(self, body, *args):
        """Sends a receipt that is dead-lettered, and returns its letter's id."""
        done = self.send(body, *args)
        assert done.returncode == 1, done
        return dead_lettered(done)

    @property
    def queue(self):
        """The file that is recovered: the mirror, or one of our own when the mirror is somewhere else."""
        return self.folder / "exported.json" if self.lz.mode == "server" else self.file

    def recovery(self, *args):
        """The arguments of a recovery."""
        mine = ["--file", self.queue] if self.lz.mode == "server" and "--file" not in args else []
        return ["dlq", "recover", "--to", self.endpoint.url, *mine, *args]

    def recover(self, *args, **kw):
        return self.lz.run(*self.recovery(*args), **kw)

    def begin(self, *args):
        """Starts a command in the background."""
        return subprocess.Popen([PROGRAM, *map(str, args)], env=self.lz.env, stdin=subprocess.DEVNULL, text=True, bufsize=1,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end_server(self):
        """Ends the server, when there is one, and returns what it has said on standard error."""
        server, self.lz.server = self.lz.server, None
        if not server:
            return ""
        self.lz.base.pop("LAZARET_URL", None)
        self.lz.base["LAZARET_DATA"] = str(self.lz.data)
        server.process.send_signal(signal.SIGTERM)
        _, err = server.process.communicate(timeout=PATIENCE)
        assert server.process.returncode == 0 and "Sanitizer" not in err and "runtime error" not in err, err
        return err

    def letters(self, *args):
        return self.lz.json("dlq", "list", *args)


def dead_lettered(done):
    """The id that stands on standard output."""
    found = re.fullmatch(r"dead-lettered (\S+)\n", done.stdout)
    assert found, done
    return found.group(1)


def check(done):
    assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr
    return done


@pytest.fixture
def endpoint():
    with Endpoint() as made:
        yield made


@pytest.fixture
def post(tmp_path, endpoint):
    """In the mode that all commands are tested in."""
    return Post(tmp_path, endpoint, MODE)


@pytest.fixture(params=["own", "socket", "server"])
def posted(request, tmp_path, endpoint):
    return Post(tmp_path, endpoint, request.param)
