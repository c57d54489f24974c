"""A fake endpoint that follows a script, and remembers every request.

    with Endpoint(answer(503), answer(200)) as endpoint:
        ...                                  something POSTs to endpoint.url, twice
        first, second = endpoint.requests

The steps of a script are taken one by one, by requests in the order in which they come; the last one stays for all
that follow.  `endpoint.on(key, step, ...)` is a script of its own for the requests with this Idempotency-Key.  A step
is one of these:

    answer(status, body, headers, close)     an answer; `close`: the connection ends after it, without a word before
    result(), tool_error(text)               of JSON-RPC: a result of the tool, one with isError
    rpc_error(code, message, data)           of JSON-RPC: an error, in HTTP 200
    events(step)                             of MCP: what the step says, as a stream of server-sent events
    redirect(location, status)
    hang                                     read, and never answered
    reset                                    read, and the connection is reset
    reset_early                              the connection is reset before the request is read
    shut                                     read, and the connection is closed in order, without an answer
    cut(body, sent)                          the head and `sent` bytes of the body, then a reset
    drip(body, every)                        byte by byte, one `every` seconds
    endless(total)                           `total` bytes that nobody needs, generated as they are read
    raw(bytes)                               these bytes, and the end of the connection
    held(event, step)                        the step, as soon as the event is set

or a function of the request that returns one.  `reset_early` has its place in the common script only: a request that is
not read has no key.
"""

import dataclasses
import json
import socket
import struct
import threading
import time

PATIENCE = 120
HEAD_MAX = 64 << 10
CHUNK = bytes(range(32, 96)) * 1024  # 64 KiB of what is no JSON


@dataclasses.dataclass
class Request:
    """What came in.  Header names are in lower case; one that came twice has its values joined by a comma."""

    number: int  # of all, from 0
    connection: int  # likewise, of the connections
    at: float  # time.monotonic() when it was whole, or when it was not read
    clock: float  # likewise time.time()
    method: str = ""
    path: str = ""
    headers: dict = dataclasses.field(default_factory=dict)
    body: bytes = b""
    read: bool = True

    @property
    def key(self):
        return self.headers.get("idempotency-key")

    @property
    def json(self):
        return json.loads(self.body)


class Gone(Exception):
    """The other side is not there any more, or we are closing."""


class Line:
    """One connection of the endpoint, as the steps see it."""

    def __init__(self, endpoint, connection, number):
        self.endpoint, self.socket, self.number = endpoint, connection, number
        self.pending = b""

    def wait(self):
        """Waits for the first byte of a request; False: there will be none."""
        if self.pending:
            return True
        try:
            if not self.endpoint.context:
                return bool(self.socket.recv(1, socket.MSG_PEEK))
            self.pending = self.socket.recv(1 << 16)  # what is read of TLS cannot be put back
            return bool(self.pending)
        except OSError:
            return False

    def more(self):
        try:
            got = self.socket.recv(1 << 16)
        except OSError:
            got = b""
        if not got:
            raise Gone
        self.pending += got

    def take(self, count):
        while len(self.pending) < count:
            self.more()
        taken, self.pending = self.pending[:count], self.pending[count:]
        return taken

    def take_line(self):
        while b"\r\n" not in self.pending:
            assert len(self.pending) < HEAD_MAX, "a line that does not end"
            self.more()
        line, _, self.pending = self.pending.partition(b"\r\n")
        return line.decode("latin-1")

    def read(self, request):
        """Reads a whole request."""
        request.method, request.path, version = self.take_line().split(" ")
        assert version == "HTTP/1.1", version
        while line := self.take_line():
            name, _, value = line.partition(":")
            name, value = name.lower(), value.strip()
            request.headers[name] = f"{request.headers[name]}, {value}" if name in request.headers else value
        if request.headers.get("expect", "").lower() == "100-continue":
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        if request.headers.get("transfer-encoding", "").lower() == "chunked":
            while size := int(self.take_line(), 16):
                request.body += self.take(size)
                assert self.take_line() == ""
            assert self.take_line() == "", "trailers"
        else:
            request.body = self.take(int(request.headers.get("content-length", "0")))

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            raise Gone

    def reset(self):
        """Ends the connection with RST."""
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
        self.socket.close()

    def until_gone(self):
        """Waits until the other side has hung up."""
        try:
            while self.socket.recv(1 << 16):
                pass
        except OSError:
            pass


# ---- steps ---------------------------------------------------------------------------------------------------------
#
# A step is called with a line and a request, and returns whether the connection may be used again.


def encode(body):
    return body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()


def head(status, headers):
    return f"HTTP/1.1 {status} Something\r\n".encode() + "".join(f"{k}: {v}\r\n" for k, v in headers.items()).encode() + b"\r\n"


def answer(status=200, body=b"", headers=None, type="application/json", close=False):
    body = encode(body)

    def play(line, request):
        fields = {"Content-Length": len(body), **({"Content-Type": type} if body else {}), **(headers or {})}
        line.send(head(status, fields) + body)
        return not close

    play.body = lambda request: body
    return play


def rpc(make, status=200, headers=None):
    """An answer of JSON-RPC; `make` says what stands in it beside `jsonrpc` and `id`."""

    def body(request):
        return encode({"jsonrpc": "2.0", "id": request.json.get("id"), **make})

    def play(line, request):
        return answer(status, body(request), headers)(line, request)

    play.body = body
    return play


def result(text="ok", **more):
    return rpc({"result": {"content": [{"type": "text", "text": text}], **more}})


def tool_error(text="the tool has failed", **more):
    return result(text, isError=True, **more)


def rpc_error(code, message="no", data=None, status=200, headers=None):
    return rpc({"error": {"code": code, "message": message, **({"data": data} if data is not None else {})}}, status, headers)


def events(step, before=()):
    """What a step answers, as the last event of a stream; `before` are events that stand before it."""

    def play(line, request):
        lines = ["event: message\ndata: " + encode(event).decode() for event in (*before, step.body(request))]
        return answer(200, "\n\n".join(lines) + "\n\n", type="text/event-stream")(line, request)

    return play


def redirect(location, status=302):
    return answer(status, headers={"Location": location})


def raw(data):
    def play(line, request):
        line.send(data)
        return False

    return play


def hang(line, request):
    line.until_gone()
    return False


def reset(line, request):
    line.reset()
    return False


def reset_early(line, request):
    line.reset()
    return False


reset_early.early = True


def shut(line, request):
    return False


def cut(body=b'{"jsonrpc":"2.0","result":{"content":[]}}', sent=10, status=200):
    def play(line, request):
        line.send(head(status, {"Content-Type": "application/json", "Content-Length": len(body)}) + body[:sent])
        line.endpoint.pause(0.02)  # what was sent should arrive before the reset throws it away
        line.reset()
        return False

    return play


def drip(body=b" " * 100000, every=0.02, status=200):
    def play(line, request):
        line.send(head(status, {"Content-Type": "application/json", "Content-Length": len(body)}))
        for byte in body:
            line.endpoint.pause(every)
            line.send(bytes([byte]))
        return True

    return play


def endless(total=1 << 30, status=200):
    def play(line, request):
        line.send(head(status, {"Content-Type": "application/json", "Content-Length": total}))
        for _ in range(0, total, len(CHUNK)):
            line.send(CHUNK)
            line.endpoint.sent += len(CHUNK)
        return False

    return play


def held(event, step):
    def play(line, request):
        while not event.wait(0.01):
            line.endpoint.pause(0)
        return choose(step, request)(line, request)

    return play


def choose(step, request):
    """A step, or what a function of the request says it is."""
    while getattr(step, "__code__", None) and step.__code__.co_argcount == 1:
        step = step(request)
    return step


# ---- the endpoint --------------------------------------------------------------------------------------------------


class Endpoint:
    """Listens on a free port of `host`; all requests are answered by the script."""

    def __init__(self, *script, host="127.0.0.1", context=None):
        self.lock = threading.Condition()
        self.closing = threading.Event()
        self.requests = []
        self.sent = 0  # bytes of endless answers
        self.problems = []
        self.common = list(script) or [answer(200)]
        self.scripts = {}
        self.context = context  # of TLS
        self.lines, self.threads, self.connections = set(), [], 0
        self.host, self.port, self.listener = host, 0, None
        self.up()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def url(self):
        return f"{'https' if self.context else 'http'}://{self.host}:{self.port}/receipts"

    @property
    def address(self):
        """Host and port, as an allow-list has them."""
        return f"{self.host}:{self.port}"

    def on(self, key, *steps):
        with self.lock:
            self.scripts[key] = list(steps)

    def script(self, *steps):
        """Another common script from here on."""
        with self.lock:
            self.common = list(steps)

    def of(self, key):
        """The requests with this key."""
        with self.lock:
            return [request for request in self.requests if request.key == key]

    def bodies(self):
        with self.lock:
            return [request.json for request in self.requests]

    def wait_for(self, count, key=None):
        """Waits for so many requests, and returns them."""
        deadline = time.monotonic() + PATIENCE
        with self.lock:
            while True:
                found = [request for request in self.requests if key is None or request.key == key]
                if len(found) >= count:
                    return found
                assert self.lock.wait(deadline - time.monotonic()), f"only {len(found)} of {count} requests came"

    # ---- its life ------------------------------------------------------------------------------------------------

    def up(self):
        """Listens, on the port that it had when it had one."""
        self.listener = socket.create_server((self.host, self.port), backlog=1024)
        self.port = self.listener.getsockname()[1]
        thread = threading.Thread(target=self.listen, args=(self.listener,), daemon=True)
        self.threads.append(thread)
        thread.start()

    def down(self):
        """Nobody is there any more: connections are refused."""
        listener, self.listener = self.listener, None
        if listener:
            try:
                listener.shutdown(socket.SHUT_RDWR)  # it wakes accept()
            except OSError:
                pass
            listener.close()

    def drop(self):
        """Ends the connections that are open."""
        with self.lock:
            lines = list(self.lines)
        for line in lines:
            try:
                line.socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.closing.set()
        self.down()
        self.drop()
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a thread of the endpoint hangs"
        assert not self.problems, self.problems

    def pause(self, seconds):
        if self.closing.wait(seconds):
            raise Gone

    # ---- its threads ---------------------------------------------------------------------------------------------

    def listen(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                line = Line(self, connection, self.connections)
                self.connections += 1
                self.lines.add(line)
                self.threads = [thread for thread in self.threads if thread.is_alive()]
                thread = threading.Thread(target=self.serve, args=(line,), daemon=True)
                self.threads.append(thread)
                thread.start()

    def serve(self, line):
        try:
            if self.context:
                line.socket = self.context.wrap_socket(line.socket, server_side=True)
            while not self.closing.is_set() and line.wait() and self.converse(line):
                pass
        except Gone:
            pass
        except OSError as problem:  # of TLS: who comes does not trust us
            if not self.context:
                self.problems.append(repr(problem))
        except Exception as problem:
            self.problems.append(repr(problem))
        finally:
            with self.lock:
                self.lines.discard(line)
            line.socket.close()

    def converse(self, line):
        """One request and its answer; False: the connection is not to be used again."""
        with self.lock:
            early = getattr(self.common[0], "early", False)
            step = self.next(self.common) if early else None
        request = Request(0, line.number, 0, 0, read=not early)
        if not early:
            line.read(request)
        with self.lock:
            request.at, request.clock, request.number = time.monotonic(), time.time(), len(self.requests)
            self.requests.append(request)
            if not early:
                step = self.next(self.scripts.get(request.key) or self.common)
            self.lock.notify_all()
        return choose(step, request)(line, request)

    @staticmethod
    def next(script):
        return script.pop(0) if len(script) > 1 else script[0]


class DeadHost:
    """An address where connections are neither accepted nor refused: they only take time."""

    def __init__(self):
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(0)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/receipts"
        self.address = f"127.0.0.1:{self.port}"
        self.fillers = []
        for _ in range(64):  # until its line is full
            filler = socket.socket()
            filler.settimeout(0.2)
            self.fillers.append(filler)
            try:
                filler.connect(("127.0.0.1", self.port))
            except OSError:
                return
        self.close()
        raise OSError("the line of a listener does not fill up here")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for each in (*self.fillers, self.listener):
            each.close()


def free_port():
    """A port where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# ---- receipts, and who sends them -----------------------------------------------------------------------------------

# The seed's policy, a hundred times faster.
SCALED = {"max_attempts": 5, "backoff_strategy": "exponential", "initial_delay_seconds": 0.02, "multiplier": 2,
          "max_delay_seconds": 36, "jitter": False}
DELAYS = [0.02, 0.04, 0.08, 0.16]


def receipt(lease="abc-123", status="complete", **more):
    """The seed's receipt."""
    return {"lease_id": lease, "task_id": "task-456", "worker_id": "cognigate-0", "status": status,
            "timestamp": "2024-01-15T10:30:00Z", "summary": "Task completed successfully",
            "artifact_pointers": ["s3://bucket/results.json"], **more}


def configuration(targets=None, allow=None, **more):
    """A configuration file with targets and an allow-list."""
    made = dict(more)
    if targets:
        made["targets"] = {name: target if isinstance(target, dict) else {"url": target} for name, target in targets.items()}
    if allow is not None:
        made["deliveries"] = {"allow": allow}
    return made


def gaps(requests):
    return [after.at - before.at for before, after in zip(requests, requests[1:])]


def check_gaps(requests, delays):
    """Each gap is at least the delay: a millisecond less is a matter of two clocks."""
    found = gaps(requests)
    assert len(found) == len(delays), (found, delays)
    assert all(gap >= delay - 0.001 for gap, delay in zip(found, delays)), (found, delays)
