"""Workers that go away: no job is lost, none is held for nobody, and no attempt is counted that nobody made.

Leases here last an hour, so that a job that is held for nobody shows: nobody else gets it.
"""

import json
import os
import random
import socket
import struct
import threading

import pytest
from conftest import PATIENCE, wait_until

SEED = int(os.environ.get("LAZARET_SEED", "20260214"))
ROUNDS = int(os.environ.get("LAZARET_ROUNDS", "300"))
HOUR = 3600 * 1000
FOREVER = 600000  # the longest wait_ms
MOMENT = 30000  # what waits this long in vain waits for a job that is held for nobody


def ask(server, queue, wait_ms=FOREVER, count=1, worker="gone"):
    """Opens a connection and asks for a lease on it; the answer is not read."""
    body = json.dumps({"worker_id": worker, "queues": [queue], "wait_ms": wait_ms, "lease_ms": HOUR, "count": count}).encode()
    sock = server.socket()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(b"POST /api/v1/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    return sock


def leave(sock):
    sock.close()


def leave_with_a_reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def leave_by_half(sock):
    sock.shutdown(socket.SHUT_WR)


WAYS = [leave, leave_with_a_reset, leave_by_half]


def metric(server, name):
    for line in server.get("/metrics").text.splitlines():
        if line.split("{")[0].split(" ")[0] == name:
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"there is no {name}")


def connections(server):
    return metric(server, "lazaret_http_connections")


def waiting(server, base, count):
    """Waits until `count` connections more than `base` are open."""
    wait_until(lambda: connections(server) >= base + count, f"{count} connections")


def read_to_the_end(sock):
    said = b""
    while got := sock.recv(65536):
        said += got
    return said


def take(server, queue, count=1):
    """A worker that stays: takes `count` jobs and completes them; each must be its first attempt."""
    leases = []
    while len(leases) < count:
        got = server.lease(queue, worker="stays", wait_ms=MOMENT, lease_ms=HOUR, count=count - len(leases))
        assert got, f"{count - len(leases)} jobs of {queue} are held for nobody"
        leases += got
    assert [lease["attempt"] for lease in leases] == [1] * count
    for lease in leases:
        assert server.complete(lease)["state"] == "done"
    return [lease["job_id"] for lease in leases]


@pytest.mark.parametrize("way", WAYS)
def test_the_wait_of_a_worker_that_left_ends(server, way):
    before = connections(server)
    socks = [ask(server, "q") for _ in range(20)]
    waiting(server, before, 20)
    for sock in socks:
        way(sock)
    wait_until(lambda: connections(server) <= before, "the end of the waits")
    server.push(queue="q", job_id="a")
    assert take(server, "q") == ["a"]
    for sock in socks:
        sock.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_job_that_comes_just_after_a_worker_left_goes_to_the_next_with_attempt_1(server, way):
    for number in range(30):
        sock = ask(server, "q")
        # The answer to another request shows that the server has had time for this one; not that it waits.
        server.get("/healthz")
        way(sock)
        server.push(queue="q", job_id=f"j{number}")
        assert take(server, "q") == [f"j{number}"]
        sock.close()
    assert metric(server, "lazaret_lease_expired_total") == 0


def test_a_worker_behind_one_that_left_is_woken(server):
    before = connections(server)
    first = ask(server, "q")
    waiting(server, before, 1)
    got = []
    second = threading.Thread(target=lambda: got.extend(take(server, "q")))
    second.start()
    waiting(server, before, 2)
    leave(first)
    server.push(queue="q", job_id="a")
    second.join(PATIENCE)
    assert got == ["a"]


def test_many_jobs_that_were_leased_for_nobody_come_back_at_once(server):
    """An answer that is larger than the buffers of both sides cannot be delivered to who does not read it."""
    text = "x" * 900_000
    names = [f"j{number}" for number in range(20)]
    for name in names:
        server.push(queue="q", job_id=name, inputs={"text": text})
    sock = ask(server, "q", wait_ms=0, count=20)
    wait_until(lambda: server.get("/api/v1/queues").json[0]["depth"]["running"] == 20, "the lease")
    leave_with_a_reset(sock)
    assert sorted(take(server, "q", 20)) == sorted(names)
    assert metric(server, "lazaret_lease_expired_total") == 0


def test_a_push_of_a_client_that_half_closes_is_done_once(server):
    """libmicrohttpd may end such a connection without the answer: the client is in doubt, and asks again."""
    for number in range(50):
        body = json.dumps({"job_id": f"h{number}", "action": "a"}).encode()
        with server.socket() as sock:
            sock.sendall(b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            sock.shutdown(socket.SHUT_WR)
            said = read_to_the_end(sock)
        assert said == b"" or said.startswith(b"HTTP/1.1 201"), (number, said)
        assert server.post("/api/v1/jobs", body).status in ([200] if said else [200, 201])
    assert server.get("/api/v1/status").json["live"] == 50


def pause(rng):
    """A moment of a random length, below what a sleep can do."""
    for _ in range(rng.choice([0, 0, 10, 300, 3000, 30000])):
        pass


def push(server, name, connection):
    assert server.post("/api/v1/jobs", {"job_id": name, "action": "a", "queue": "q"}, connection=connection).status == 201


@pytest.mark.parametrize("way", [leave, leave_with_a_reset])
def test_no_job_goes_to_a_worker_that_has_left(server, way):
    """Workers come and leave at random moments, while no job is there: the job that comes then goes to one that stays."""
    rng = random.Random(f"{SEED}:{way.__name__}")
    print(f"seed {SEED}")
    connection = server.connection()
    for number in range(ROUNDS):
        socks = [ask(server, "q", wait_ms=rng.choice([0, 1, 5, FOREVER])) for _ in range(rng.choice([1, 1, 1, 4]))]
        pause(rng)
        for sock in socks:
            way(sock)
        push(server, f"j{number}", connection)
        assert take(server, "q") == [f"j{number}"]
    assert metric(server, "lazaret_lease_expired_total") == 0


def test_a_worker_has_the_job_or_another_gets_it(server):
    """Workers half-close at random moments, before or after a job arrives.  Who hears the answer does the job; when
    nobody hears it, the job goes to the one that stays."""
    rng = random.Random(SEED)
    print(f"seed {SEED}")
    connection = server.connection()
    heard = 0
    for number in range(ROUNDS):
        sock = ask(server, "q")
        steps = [lambda: sock.shutdown(socket.SHUT_WR), lambda: push(server, f"j{number}", connection)]
        if rng.random() < 0.7:
            steps.reverse()
        for step in steps:
            pause(rng)
            step()
        said = read_to_the_end(sock)
        sock.close()
        leases = json.loads(said.partition(b"\r\n\r\n")[2])["leases"] if said else []
        if leases:
            heard += 1
            assert [lease["attempt"] for lease in leases] == [1] and server.complete(leases[0])["state"] == "done"
        else:
            assert take(server, "q") == [f"j{number}"]
    print(f"{heard} of {ROUNDS} heard the answer")
    assert metric(server, "lazaret_lease_expired_total") == 0
