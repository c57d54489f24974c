"""Clients that are slow, and limits on how many there may be.

Limits are small here, so that breaking one shows soon; a test that something is *not* cut off lasts longer than the limit.
"""

import json
import socket
import threading
import time

import pytest
from conftest import PATIENCE, wait_until

LIMITS = {"http": {"head_seconds": 1, "body_grace_seconds": 1, "bytes_per_second_min": 1000, "idle_seconds": 30}}
HEAD = b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Dripper(threading.Thread):
    """Sends `data` byte by byte, `every` seconds apart, until all is sent or the server has had enough."""

    def __init__(self, server, data, before=b"", every=0.1):
        super().__init__(daemon=True)
        self.sock = server.socket()
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data, self.before, self.every = data, before, every
        self.began, self.sent, self.cut = time.monotonic(), 0, None
        self.start()

    def run(self):
        try:
            self.sock.sendall(self.before)
            self.sock.settimeout(self.every)
            for at in range(len(self.data)):
                self.sock.send(self.data[at:at + 1])
                self.sent += 1
                try:
                    if self.sock.recv(65536) == b"":
                        raise ConnectionResetError
                except TimeoutError:
                    continue
        except (ConnectionResetError, BrokenPipeError):
            self.cut = time.monotonic() - self.began


def read(sock, count=1):
    """Reads `count` answers and returns their statuses."""
    data, statuses = b"", []
    while len(statuses) < count:
        got = sock.recv(65536)
        assert got, (statuses, data)
        data += got
        while b"\r\n\r\n" in data:
            head, _, rest = data.partition(b"\r\n\r\n")
            size = int(next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")).split(b":")[1])
            if len(rest) < size:
                break
            statuses.append(int(head[9:12]))
            data = rest[size:]
    return statuses


def is_ended(sock):
    """Says whether the other side has ended the connection."""
    sock.setblocking(False)
    try:
        return sock.recv(65536) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
    finally:
        sock.settimeout(PATIENCE)


@pytest.mark.parametrize("before,data", [
    pytest.param(b"", HEAD + b"X-A: " + b"b" * 10000, id="head"),
    pytest.param(HEALTH, HEAD + b"X-A: " + b"b" * 10000, id="head of a second request"),
    pytest.param(HEAD + b"Content-Length: 10000\r\n\r\n", b"x" * 10000, id="body"),
    pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"2710\r\n" + b"x" * 10000, id="chunked body"),
    pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 10000, id="chunks of one byte"),
    pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", b"0" * 10000, id="chunk size"),
    pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X" * 10000, id="trailer"),
    pytest.param(b"", b"\r\n" * 10000, id="empty lines"),
])
def test_a_byte_now_and_then_is_cut_off_and_others_are_served_meanwhile(serve, before, data):
    server = serve(config=LIMITS)
    slow = [Dripper(server, data, before) for _ in range(5)]
    while any(dripper.is_alive() for dripper in slow):
        assert server.get("/healthz").status == 200
        server.push()
        assert all(time.monotonic() - dripper.began < PATIENCE for dripper in slow), "it was not cut off"
    assert all(dripper.cut for dripper in slow)
    assert all(dripper.sent < len(data) // 10 for dripper in slow)


def test_a_big_answer_that_nobody_reads_is_cut_off(serve):
    server = serve(config={"http": {**LIMITS["http"], "bytes_per_second_min": 20_000_000}})
    for number in range(12):
        server.push(job_id=f"j{number}", inputs={"text": "x" * 900_000})
    sock = server.socket()
    body = b'{"worker_id":"w","count":100,"lease_ms":3600000}'
    sock.sendall(b"POST /api/v1/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert server.get("/healthz").status == 200
    wait_until(lambda: gone_from(server, sock), "the end of the connection", patience=20)
    assert [lease["attempt"] for lease in server.lease("default", count=100, wait_ms=20000)] == [1] * 12
    sock.close()


def gone_from(server, sock):
    """Says whether the server has let go of a connection: the kernel's table has none that is established."""
    port = sock.getsockname()[1]
    with open("/proc/net/tcp") as table:
        for line in table.readlines()[1:]:
            local, remote, state = line.split()[1:4]
            if int(local.split(":")[1], 16) == server.port and int(remote.split(":")[1], 16) == port:
                return state != "01"
    return True


def test_idle_connections_are_kept_longer_than_a_head_or_a_body_may_take(serve):
    server = serve(config=LIMITS)
    fresh, used = server.socket(), server.socket()
    used.sendall(HEALTH)
    assert read(used) == [200]
    slow = Dripper(server, HEAD + b"X-A: " + b"b" * 10000)
    slow.join(PATIENCE)  # this lasts as long as a limit does
    again = Dripper(server, HEAD + b"X-A: " + b"b" * 10000)
    again.join(PATIENCE)
    assert slow.cut and again.cut
    for sock in [fresh, used]:
        sock.sendall(HEALTH + HEALTH)
        assert read(sock, 2) == [200, 200]
        sock.close()


def test_an_idle_connection_ends_after_its_time(serve):
    server = serve(config={"http": {"idle_seconds": 1}})
    sock = server.socket()
    sock.sendall(HEALTH)
    assert read(sock) == [200]
    assert sock.recv(1) == b""
    sock.close()


def test_a_slow_upload_that_is_fast_enough_is_not_cut_off(serve):
    """Four seconds for 40 kB, in 200 pieces: ten times the least rate, and four times as long as the grace."""
    server = serve(config=LIMITS)
    body = json.dumps({"job_id": "slow", "action": "a", "inputs": {"text": "x" * 40000}}).encode()
    sock = server.socket()
    sock.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body))
    for at in range(0, len(body), 200):
        sock.sendall(body[at:at + 200])
        time.sleep(0.02)  # the slowness is what is tested
    assert read(sock) == [201]
    sock.close()
    assert server.get("/api/v1/jobs/slow").json["envelope"]["inputs"]["text"] == "x" * 40000


def test_a_long_poll_is_not_cut_off(serve):
    server = serve(config=LIMITS)
    assert server.lease("q", wait_ms=3000) == []


def test_connections_of_one_address_have_a_limit_and_recover(serve):
    server = serve(config={"http": {"connections_per_address": 8}})
    socks = [server.socket() for _ in range(8)]
    for sock in socks:
        sock.sendall(HEALTH)
        assert read(sock) == [200]
    more = server.socket()
    try:
        more.sendall(HEALTH)
        assert more.recv(1) == b""
    except ConnectionResetError:
        pass
    assert server.local().request("GET", "/healthz") is None  # the socket of the directory has its own count
    socks.pop().close()

    def served():
        try:
            return server.get("/healthz").status == 200
        except (ConnectionError, OSError):
            return False

    wait_until(served, "a free place")
    for sock in socks:
        sock.sendall(HEALTH)
        assert read(sock) == [200]
        sock.close()
    wait_until(served)


def test_all_connections_have_a_limit_and_recover(serve):
    server = serve(config={"http": {"connections_max": 20, "threads": 2}})
    socks, served = [], 0
    for _ in range(60):
        sock = server.socket(timeout=5)
        socks.append(sock)
    for sock in socks:
        try:
            sock.sendall(HEALTH)
        except OSError:
            continue

    def count():
        return sum(1 for sock in socks if answered(sock))

    wait_until(lambda: count() >= 10, "being served")
    served = count()
    assert served <= 22  # each of the two network threads rounds its share up
    for sock in socks:
        sock.close()

    def works():
        try:
            return server.get("/healthz", timeout=5).status == 200
        except OSError:
            return False

    for _ in range(30):
        wait_until(works, "a free place")


def answered(sock):
    """Says whether an answer lies there, without taking it."""
    sock.setblocking(False)
    try:
        return sock.recv(8, socket.MSG_PEEK).startswith(b"HTTP/1.1")
    except OSError:
        return False
    finally:
        sock.settimeout(5)
