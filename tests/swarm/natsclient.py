"""A small NATS client for the tests, over a plain socket: what Lazaret says is looked at with other eyes than libnats's.

    client = Client("127.0.0.1", 4222)
    heard = client.subscribe("swarm.>")
    client.publish("swarm.task.request", b"...", headers={"Nats-Msg-Id": "1"})
    message = heard.next()                         # a Message: subject, data, headers, reply
    client.stream_create("TASKS", ["swarm.task.>"])
    ack = client.js_publish("swarm.task.request", b"...")    # {"stream":..., "seq":...}

A method that asks returns when the answer is there, or raises: Gone when the connection is, NatsError when the server
says so.
"""

import base64
import dataclasses
import io
import json
import queue
import secrets
import select
import socket
import ssl
import threading

PATIENCE = 60


class Gone(Exception):
    """The connection is gone."""


class NatsError(Exception):
    """The server refused."""


@dataclasses.dataclass
class Message:
    subject: str
    data: bytes
    headers: dict
    reply: str = ""

    @property
    def json(self):
        return json.loads(self.data)


def parse_headers(block):
    """The headers of a message; `Status` is what stands in the first line, as in "NATS/1.0 503"."""
    first, *lines = block.decode().split("\r\n")
    headers = dict((name, value.strip()) for name, _, value in (line.partition(":") for line in lines if line))
    status = first.removeprefix("NATS/1.0").strip()
    return {**headers, "Status": status} if status else headers


class Wire(io.RawIOBase):
    """A socket that one thread reads while others write.  With TLS they must not do so at once: who has nothing to do at
    the moment waits outside of the lock."""

    def __init__(self, handle, lock):
        self.handle, self.lock = handle, lock
        handle.setblocking(False)

    def readable(self):
        return True

    def readinto(self, room):
        while True:
            try:
                with self.lock:
                    return self.handle.recv_into(room)
            except (BlockingIOError, ssl.SSLWantReadError):
                select.select([self.handle], [], [])
            except ssl.SSLWantWriteError:
                select.select([], [self.handle], [])

    def send(self, data):
        with self.lock:  # to its end: what comes between would be in the middle of it
            rest = memoryview(data)
            while rest:
                try:
                    rest = rest[self.handle.send(rest):]
                except (BlockingIOError, ssl.SSLWantWriteError):
                    select.select([], [self.handle], [], PATIENCE)
                except ssl.SSLWantReadError:
                    select.select([self.handle], [], [], PATIENCE)


class Subscription:
    """What comes on a subject, in order."""

    def __init__(self, client, sid):
        self.client, self.sid, self.queue = client, sid, queue.Queue()

    def next(self, timeout=PATIENCE):
        try:
            message = self.queue.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError("no message came") from None
        if message is None:
            self.queue.put(None)
            raise Gone
        return message

    def pending(self):
        """Those that are here already."""
        messages = []
        while True:
            try:
                messages.append(self.next(0))
            except (TimeoutError, Gone):
                return messages

    def close(self):
        self.client.unsubscribe(self.sid)


class Client:
    """`login` is what CONNECT says of who it is, or a function that makes that of the server's INFO; `context` is of TLS."""

    def __init__(self, host, port, *, login=None, context=None, timeout=PATIENCE):
        self.socket = socket.create_connection((host, port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.lock = threading.Lock()  # of the socket
        self.books = threading.Lock()  # of the subscriptions
        self.subscriptions, self.pongs, self.last_sid = {}, queue.Queue(), 0
        self.errors = []
        self.info = json.loads(self._line_bytewise().removeprefix("INFO "))
        if context:
            self.socket = context.wrap_socket(self.socket, server_hostname=host)
        self.stream = io.BufferedReader(Wire(self.socket, self.lock))
        hello = {"verbose": False, "pedantic": True, "lang": "python", "version": "1", "protocol": 1, "headers": True,
                 "no_responders": True, "name": "lazaret-tests"}
        hello.update(login(self.info) if callable(login) else login or {})
        self._send(f"CONNECT {json.dumps(hello)}\r\n".encode())
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.flush(timeout)
        self.inbox = f"_INBOX.{secrets.token_hex(8)}"
        self.replies = self.subscribe(self.inbox + ".*")
        self.asking = threading.Lock()

    def _line_bytewise(self):
        """The first line: what follows may be TLS, so nothing more may be read."""
        line = b""
        while not line.endswith(b"\r\n"):
            got = self.socket.recv(1)
            if not got:
                raise Gone
            line += got
        return line.decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.reader.join(PATIENCE)
        self.socket.close()

    # ---- the protocol ------------------------------------------------------------------------

    def _send(self, data):
        try:
            self.stream.raw.send(data)
        except OSError as problem:
            raise Gone from problem

    def _read(self):
        try:
            while line := self.stream.readline():
                self._take(line.rstrip(b"\r\n").decode())
        except (OSError, ValueError, ssl.SSLError):
            pass
        self.pongs.put(False)
        with self.books:
            subscriptions = list(self.subscriptions.values())
        for subscription in subscriptions:
            subscription.queue.put(None)

    def _take(self, line):
        verb, *words = line.split(" ")
        if verb == "PING":
            self._send(b"PONG\r\n")
        elif verb == "PONG":
            self.pongs.put(True)
        elif verb == "-ERR":
            self.errors.append(line)
        elif verb in ("MSG", "HMSG"):
            self._take_message(verb == "HMSG", words)

    def _take_message(self, with_headers, words):
        subject, sid, *reply = words[:-2] if with_headers else words[:-1]
        size = int(words[-1])
        head = int(words[-2]) if with_headers else 0
        body = self.stream.read(size)
        self.stream.read(2)
        headers = parse_headers(body[:head]) if head else {}
        with self.books:
            subscription = self.subscriptions.get(sid)
        if subscription:
            subscription.queue.put(Message(subject, body[head:], headers, reply[0] if reply else ""))

    def flush(self, timeout=PATIENCE):
        """Returns when the server has taken everything that was sent."""
        self._send(b"PING\r\n")
        try:
            alive = self.pongs.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError("the server does not answer") from None
        if not alive:
            raise NatsError(self.errors[-1]) if self.errors else Gone

    def publish(self, subject, data=b"", *, headers=None, reply=""):
        where = f"{subject} {reply} " if reply else f"{subject} "
        if not headers:
            self._send(f"PUB {where}{len(data)}\r\n".encode() + data + b"\r\n")
            return
        head = b"NATS/1.0\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode() + b"\r\n"
        self._send(f"HPUB {where}{len(head)} {len(head) + len(data)}\r\n".encode() + head + data + b"\r\n")

    def subscribe(self, subject):
        with self.books:
            self.last_sid += 1
            subscription = self.subscriptions[str(self.last_sid)] = Subscription(self, str(self.last_sid))
        self._send(f"SUB {subject} {subscription.sid}\r\n".encode())
        self.flush()
        return subscription

    def unsubscribe(self, sid):
        self._send(f"UNSUB {sid}\r\n".encode())
        with self.books:
            self.subscriptions.pop(sid, None)

    def request(self, subject, data=b"", *, headers=None, timeout=PATIENCE):
        with self.asking:
            reply = f"{self.inbox}.{secrets.token_hex(8)}"
            self.publish(subject, data, headers=headers, reply=reply)
            while True:  # an answer to an earlier question may have come late
                answer = self.replies.next(timeout)
                if answer.subject == reply:
                    break
        if answer.headers.get("Status", "").startswith("503"):
            raise NatsError(f"nobody answers on {subject}")
        return answer

    # ---- JetStream ---------------------------------------------------------------------------

    def api(self, what, body=None, timeout=PATIENCE):
        """Asks JetStream; its answer as a dict."""
        answer = self.request(f"$JS.API.{what}", json.dumps(body).encode() if body is not None else b"", timeout=timeout).json
        if "error" in answer:
            raise NatsError(answer["error"])
        return answer

    def js_publish(self, subject, data=b"", *, headers=None, timeout=PATIENCE):
        """Publishes to a stream, and returns its acknowledgement."""
        answer = self.request(subject, data, headers=headers, timeout=timeout).json
        if "error" in answer:
            raise NatsError(answer["error"])
        return answer

    def js_publish_all(self, messages, timeout=PATIENCE):
        """Publishes (subject, data) pairs, and waits for all acknowledgements; returns them."""
        inbox = f"_INBOX.{secrets.token_hex(8)}"
        acks = self.subscribe(inbox)
        for subject, data in messages:
            self.publish(subject, data, reply=inbox)
        answers = [acks.next(timeout) for _ in messages]
        acks.close()
        if any(answer.headers.get("Status", "").startswith("503") for answer in answers):
            raise NatsError("no stream takes it")
        answers = [answer.json for answer in answers]
        wrong = [answer for answer in answers if "error" in answer]
        if wrong:
            raise NatsError(wrong[0])
        return answers

    def stream_create(self, name, subjects, **more):
        config = {"name": name, "subjects": subjects, "retention": "limits", "storage": "file", "discard": "old", "num_replicas": 1,
                  "duplicate_window": 120_000_000_000, **more}
        return self.api(f"STREAM.CREATE.{name}", config)

    def stream_info(self, name):
        return self.api(f"STREAM.INFO.{name}")

    def stream_names(self):
        return self.api("STREAM.NAMES").get("streams") or []

    def consumer_info(self, stream, consumer):
        return self.api(f"CONSUMER.INFO.{stream}.{consumer}")

    def stream_message(self, stream, seq):
        stored = self.api(f"STREAM.MSG.GET.{stream}", {"seq": seq})["message"]
        headers = parse_headers(base64.b64decode(stored["hdrs"])) if "hdrs" in stored else {}
        return Message(stored["subject"], base64.b64decode(stored.get("data", "")), headers)

    def stream_messages(self, stream):
        """Everything that is in a stream, in order."""
        state = self.stream_info(stream)["state"]
        gone = set(self.api(f"STREAM.INFO.{stream}", {"deleted_details": True})["state"].get("deleted") or [])
        if not state["messages"]:
            return []
        return [self.stream_message(stream, seq) for seq in range(state["first_seq"], state["last_seq"] + 1) if seq not in gone]
