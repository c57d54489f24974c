"""The real program as a server on a free port, and a client for it: what the tests of the server and of the swarm share.

A conftest.py imports `serve` (and `check_program`, as its pytest_sessionstart) from here:

    def test_something(serve):
        server = serve("--some-flag", "value", env={"X": "1"}, config="listen: ...")
        answer = server.post("/api/v1/jobs", {"action": "a"})
        assert answer.status == 201 and answer.json["created"]

Every server that is still running at the end of its test gets SIGTERM, must exit with 0, and must not have said anything
of a sanitizer on its standard error.
"""

import dataclasses
import http.client
import json
import os
import pathlib
import queue
import re
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("LAZARET_BUILD", "build"))
PROGRAM = os.environ.get("LAZARET_BIN") or str(BUILD / "lazaret")

PATIENCE = 120  # seconds after which something that should have happened is taken for lost
SANITIZER = re.compile(r"(Address|Leak|Thread|UndefinedBehavior|Memory)Sanitizer|runtime error:|lazaret: bug at")

# Jobs that die of their first failure, or are run twice, a millisecond apart; and failures for them.
ONCE = {"max_attempts": 1}
TWICE = {"max_attempts": 2, "backoff_strategy": "fixed", "initial_delay_seconds": 0.001, "jitter": False}
TIMEOUT = {"class": "timeout", "error_type": "Timeout", "message": "gateway timed out after 30 s"}
DENIED = {"class": "permission_denied", "message": "user 7 may not write"}


def check_program(session):
    if not os.access(PROGRAM, os.X_OK):
        pytest.exit(f"{PROGRAM} is not there: build it, or set LAZARET_BIN", 4)


def wait_until(condition, what="the condition", patience=PATIENCE):
    """Asks again and again until `condition()` is true, and returns what it said."""
    deadline = time.monotonic() + patience
    while True:
        said = condition()
        if said:
            return said
        assert time.monotonic() < deadline, f"{what} did not come true"
        time.sleep(0.005)


@dataclasses.dataclass
class Answer:
    """What came back: `headers` is an http.client.HTTPMessage, so names match in any case."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def cursor(self):
        return self.headers.get("X-Next-Cursor")

    def expect(self, status):
        assert self.status == status, (self.status, self.body[:2000])
        return self.json


def environment(home, extra=None):
    """The environment of the program: nothing of the caller's but PATH and the sanitizers' options."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "USER": "ada", "LC_ALL": "C.UTF-8", "TERM": "xterm"}
    env.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
    env.update({k: str(v) for k, v in (extra or {}).items()})
    return env


class Server:
    """The program as a server on one data directory.

    `token` (or None) is sent with every request unless a request says otherwise.  `context` is the ssl.SSLContext of an
    https server; without one its certificate is not looked at.
    """

    def __init__(self, data, args=(), config=None, env=None, token=None, listen="127.0.0.1:0", context=None, pass_fds=()):
        self.data = pathlib.Path(data)
        self.token = token
        self.context = context
        self.listen = listen
        self.args = [str(arg) for arg in args]
        self.pass_fds = pass_fds
        if config is not None:
            self.config = self.data.parent / (self.data.name + "-config.yml")
            self.config.write_text(config if isinstance(config, str) else json.dumps(config))
            self.args += ["--config", str(self.config)]
        self.env = environment(self.data.parent, env)
        self.errors = self.data.parent / (self.data.name + "-stderr")
        self.process = self.url = None
        self.output = []  # the lines of standard output so far

    # ---- the process -------------------------------------------------------------------------

    def start(self):
        """Starts it and returns when it says that it is ready."""
        listen = ["--listen", self.listen] if self.listen else []
        with open(self.errors, "ab") as errors:
            self.process = subprocess.Popen(
                [PROGRAM, "serve", "--data", str(self.data), *listen, *self.args], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=errors, env=self.env, text=True, pass_fds=self.pass_fds)
        self.output, lines = [], queue.Queue()
        threading.Thread(target=self._read, args=(self.process, self.output, lines), daemon=True).start()
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                line = lines.get(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                self.kill()
                pytest.fail(f"the server is not ready: {self.output} {self.stderr}")
            if line is None:
                code, self.process = self.process.wait(), None
                pytest.fail(f"the server ended with {code}: {self.stderr}")
            ready = re.fullmatch(r"lazaret: ready on (https?://\S+)", line)
            if ready:
                self.url = ready.group(1)
                return self

    @staticmethod
    def _read(process, output, lines):
        for line in process.stdout:
            output.append(line.rstrip("\n"))
            lines.put(output[-1])
        process.stdout.close()
        lines.put(None)

    @property
    def pid(self):
        return self.process.pid

    @property
    def port(self):
        return urllib.parse.urlsplit(self.url).port

    @property
    def host(self):
        return urllib.parse.urlsplit(self.url).hostname

    @property
    def socket_path(self):
        return str(self.data / "lazaret.sock")

    @property
    def stderr(self):
        return self.errors.read_text(errors="replace") if self.errors.exists() else ""

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        """Waits for its end and returns the exit code."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait()
            pytest.fail(f"the server does not end: {self.stderr}")

    def stop(self):
        """SIGTERM: it drains and exits 0."""
        if not self.running and self.process.returncode == 0:
            return
        if self.running:
            self.signal(signal.SIGTERM)
        code = self.wait()
        assert code == 0, f"the server ended with {code}: {self.stderr}"
        self.check()

    def kill(self):
        """SIGKILL: no time to do anything."""
        self.process.kill()
        self.process.wait()

    def restart(self, hard=False):
        """Ends it and starts it again on the same directory; the port may be another one."""
        if self.running:
            self.kill() if hard else self.stop()
        return self.start()

    def check(self):
        """Fails when a sanitizer had something to say."""
        found = SANITIZER.search(self.stderr)
        assert not found, self.stderr

    def finish(self):
        """The end of a test: what runs is stopped; a server that was killed is left alone."""
        if self.process is None:
            return
        if self.running:
            self.stop()
        assert self.process.returncode in (0, -signal.SIGKILL), f"{self.process.returncode}: {self.stderr}"
        self.check()

    def cli(self, *args, input=None, env=None):
        """Runs another command of the program on the same directory."""
        extra = {"input": input} if input is not None else {"stdin": subprocess.DEVNULL}
        return subprocess.run([PROGRAM, *map(str, args), "--data", str(self.data)], capture_output=True, text=True,
                              env={**self.env, **(env or {})}, timeout=PATIENCE, **extra)

    def make_token(self, name, role, *args):
        """Makes a token; from the first one on the server wants one with every request."""
        made = self.cli("token", "create", name, "--role", role, "-o", "json", *args)
        assert made.returncode == 0, made.stderr
        return json.loads(made.stdout)["token"]

    # ---- the client --------------------------------------------------------------------------

    def connection(self, timeout=PATIENCE):
        """An http.client connection, for requests that share one."""
        if self.url.startswith("https:"):
            context = self.context
            if context is None:
                context = ssl.create_default_context()
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            return http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=context)
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def local(self, timeout=PATIENCE):
        """The same over the socket of the data directory."""
        connection = http.client.HTTPConnection("localhost", timeout=timeout)
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(timeout)
        connection.sock.connect(self.socket_path)
        return connection

    def socket(self, timeout=PATIENCE):
        """A bare TCP connection, for what is no HTTP."""
        return socket.create_connection((self.host, self.port), timeout=timeout)

    def request(self, method, path, body=None, *, headers=None, token="default", type=None, timeout=PATIENCE,
                connection=None):
        """Sends one request.  A dict or list is sent as JSON, str and bytes as they are.  `type` is the content type:
        JSON when there is a body and nothing else is said; "" sends none."""
        fields = {}
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        if type is None and body is not None:
            type = "application/json"
        if type:
            fields["Content-Type"] = type
        token = self.token if token == "default" else token
        if token:
            fields["Authorization"] = f"Bearer {token}"
        fields.update(headers or {})
        own = connection is None
        connection = connection or self.connection(timeout)
        try:
            connection.request(method, path, body=body, headers=fields)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            if own:
                connection.close()

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def post(self, path, body=None, **kw):
        return self.request("POST", path, body, **kw)

    def put(self, path, body=None, **kw):
        return self.request("PUT", path, body, **kw)

    # ---- what tests do often -----------------------------------------------------------------

    def push(self, **envelope):
        """Pushes a job and returns its id."""
        answer = self.post("/api/v1/jobs", {"action": "send_invoice", **envelope})
        assert answer.status in (200, 201), answer
        return answer.json["job_id"]

    def lease(self, *queues, worker="w1", **more):
        """Takes what is ready, up to `count`; returns the leases."""
        return self.post("/api/v1/leases", {"worker_id": worker, "queues": list(queues), **more}).expect(200)["leases"]

    def report(self, *results):
        """Reports results and returns what became of each."""
        return self.post("/api/v1/results", list(results)).expect(200)["results"]

    def fail(self, lease, failure=TIMEOUT):
        return self.report({"lease_id": lease["lease_id"], "status": "failed", "failure": failure})[0]

    def complete(self, lease, **result):
        return self.report({"lease_id": lease["lease_id"], "status": "complete", **result})[0]

    def dead(self, failure=TIMEOUT, **envelope):
        """Makes one dead letter, on a queue where nothing else waits, and returns its id."""
        envelope = {"retry_policy": ONCE, "queue": "default", **envelope}
        self.push(**envelope)
        [lease] = self.lease(envelope["queue"])
        return self.fail(lease, failure)["dlq_id"]


@pytest.fixture
def serve(tmp_path):
    """Starts servers: serve(*args, data=, config=, env=, token=, listen=, start=True)."""
    servers = []

    def make(*args, data=None, start=True, **kw):
        server = Server(data or tmp_path / f"data{len(servers) or ''}", args, **kw)
        servers.append(server)
        return server.start() if start else server

    yield make
    problems = []
    for server in servers:
        try:
            server.finish()
        except AssertionError as problem:
            problems.append(str(problem))
        finally:
            if server.running:
                server.kill()
    assert not problems, "\n".join(problems)
