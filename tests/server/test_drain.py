"""SIGTERM: what was accepted is answered, what is new is refused, and the exit code is 0.

A request counts as accepted when its head was read.  "Expect: 100-continue" is how a client sees that: the server has said
"100 Continue", and waits for the body.
"""

import json
import signal
import threading

import pytest
from conftest import ONCE, wait_until


class Accepted:
    """A request whose head the server has read, and whose body is still to come."""

    def __init__(self, server, method, path, body):
        self.body = json.dumps(body).encode()
        self.socket = server.socket()
        self.socket.sendall(f"{method} {path} HTTP/1.1\r\nHost: {server.host}\r\nContent-Type: application/json\r\n"
                            f"Content-Length: {len(self.body)}\r\nExpect: 100-continue\r\n\r\n".encode())
        self.file = self.socket.makefile("rb")
        assert self.file.readline().split()[1] == b"100"
        assert self.file.readline() == b"\r\n"

    def send(self, part=slice(None)):
        self.socket.sendall(self.body[part])

    def answer(self):
        """(status, headers, JSON) of the answer; the connection must end after it."""
        status = int(self.file.readline().split()[1])
        headers = {}
        for line in iter(self.file.readline, b"\r\n"):
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        body = self.file.read(int(headers["content-length"]))
        assert self.file.read() == b""
        self.socket.close()
        return status, headers, json.loads(body)


def refused(server):
    """Whether somebody who comes now is turned away."""
    try:
        server.socket().close()
        return False
    except ConnectionRefusedError:
        return True


def test_a_request_whose_body_comes_after_the_signal_is_carried_out(serve):
    server = serve()
    push = Accepted(server, "POST", "/api/v1/jobs", {"action": "a", "job_id": "late"})
    push.send(slice(0, 5))
    server.signal(signal.SIGTERM)
    wait_until(lambda: refused(server), "a refusal")
    assert server.running
    push.send(slice(5, None))
    status, headers, body = push.answer()
    assert (status, body["job_id"], body["created"]) == (201, "late", True)
    assert headers["connection"].lower() == "close"
    assert server.wait() == 0
    server.start()
    assert server.get("/api/v1/jobs/late").expect(200)["job_id"] == "late"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_long_poll_ends_without_a_job(serve, number):
    server = serve()
    polls = [Accepted(server, "POST", "/api/v1/leases",
                      {"worker_id": f"w{i}", "queues": ["default"], "wait_ms": 60000}) for i in range(20)]
    for poll in polls:
        poll.send()
    # Half of them have surely begun to wait; the others may come to it while the drain begins.
    late = Accepted(server, "POST", "/api/v1/leases", {"worker_id": "late", "queues": [], "wait_ms": 60000})
    for i in range(5):
        server.get("/api/v1/queues").expect(200)
    server.signal(number)
    late.send()
    for poll in [*polls, late]:
        status, _, body = poll.answer()
        assert (status, body) == (200, {"leases": []})
    assert server.wait() == 0


def test_a_lease_that_was_handed_out_at_the_last_moment_is_not_lost(serve):
    server = serve()
    poll = Accepted(server, "POST", "/api/v1/leases", {"worker_id": "w", "queues": ["default"], "wait_ms": 60000})
    push = Accepted(server, "POST", "/api/v1/jobs", {"action": "a", "job_id": "one"})
    poll.send()
    server.signal(signal.SIGTERM)
    push.send()
    assert push.answer()[0] == 201
    leases = poll.answer()[2]["leases"]
    assert server.wait() == 0
    server.start()
    state = server.get("/api/v1/jobs/one").expect(200)["state"]
    assert state == ("running" if leases else "pending")


class Pusher(threading.Thread):
    """Pushes jobs over one connection, each with an id of its own, until the server goes away."""

    def __init__(self, server, name):
        super().__init__(daemon=True)
        self.server, self.prefix = server, name
        self.sent, self.acknowledged, self.odd = [], [], []
        self.begun = threading.Event()

    def run(self):
        connection = self.server.connection()
        try:
            while True:
                self.sent.append(f"{self.prefix}-{len(self.sent)}")
                answer = self.server.post("/api/v1/jobs", {"action": "a", "job_id": self.sent[-1]}, connection=connection)
                if answer.status == 201:
                    self.acknowledged.append(self.sent[-1])
                    if len(self.acknowledged) == 20:
                        self.begun.set()
                elif answer.status != 503:
                    self.odd.append(answer)
                if answer.headers.get("Connection", "").lower() == "close":
                    connection.close()
        except ConnectionError:
            pass  # Turned away, or the connection ended where the next request would have begun.
        except Exception as problem:
            self.odd.append(problem)
        finally:
            connection.close()


def test_under_load_exactly_what_was_acknowledged_is_there_afterwards(serve):
    server = serve()
    pushers = [Pusher(server, f"p{i}") for i in range(8)]
    for pusher in pushers:
        pusher.start()
    for pusher in pushers:
        assert pusher.begun.wait(120)
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    for pusher in pushers:
        pusher.join()
        assert pusher.odd == []
    server.start()
    connection = server.connection()
    [queue] = server.get("/api/v1/queues", connection=connection).expect(200)
    assert queue["depth"]["pending"] == sum(len(pusher.acknowledged) for pusher in pushers)
    for pusher in pushers:
        for job_id in pusher.sent[-50:]:
            wanted = 200 if job_id in pusher.acknowledged else 404
            assert server.get(f"/api/v1/jobs/{job_id}", connection=connection).status == wanted, job_id
    connection.close()


def test_an_event_stream_ends_whole(serve):
    server = serve()
    connection = server.connection()
    connection.request("GET", "/api/v1/events")
    stream = connection.getresponse()
    assert stream.status == 200
    job = server.push()
    read = b""
    while job.encode() not in read:
        read += stream.read1(4096)
    server.signal(signal.SIGTERM)
    stream.read()  # A stream that broke off would raise IncompleteRead here.
    connection.close()
    assert server.wait() == 0


def test_idle_connections_do_not_keep_the_server(serve):
    server = serve()
    idle = [server.socket() for _ in range(30)]
    kept = server.connection()
    server.get("/healthz", connection=kept).expect(200)
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    for one in idle:
        assert one.recv(1) == b""
        one.close()
    kept.close()


def test_a_request_that_does_not_come_to_its_end_is_given_up(serve):
    server = serve(config={"http": {"drain_seconds": 0.2}})
    stuck = Accepted(server, "POST", "/api/v1/jobs", {"action": "a", "job_id": "stuck"})
    stuck.send(slice(0, 5))
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    stuck.socket.close()
    server.start()
    assert server.get("/api/v1/jobs/stuck").status == 404


def test_a_letter_that_is_being_retried_is_retried_once(serve):
    server = serve()
    dlq_id = server.dead(retry_policy=ONCE)
    retry = Accepted(server, "POST", f"/api/v1/dlq/{dlq_id}/retry", {"note": "again"})
    server.signal(signal.SIGTERM)
    retry.send()
    status, _, body = retry.answer()
    assert (status, body["status"]) == (200, "retried")
    assert server.wait() == 0
    server.start()
    assert server.post(f"/api/v1/dlq/{dlq_id}/retry", {}).status == 409
