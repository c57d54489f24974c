"""Two thousand idle connections and two hundred workers that wait cost little and slow nobody."""

import json
import resource
import signal

import pytest
from conftest import PATIENCE, wait_until

IDLE, WAITING = 2000, 200
MEMORY_MAX = 100_000_000
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
FOREVER = 600000


def is_sanitized(server):
    with open(f"/proc/{server.pid}/maps") as maps:
        return any("libasan" in line or "libtsan" in line for line in maps)


def resident(server):
    with open(f"/proc/{server.pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


@pytest.fixture
def many_files():
    """Lets this process have enough sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < IDLE + WAITING + 200:
        pytest.skip(f"only {hard} files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (IDLE + WAITING + 200, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def wait_for_job(server, number):
    """A connection on which a worker waits."""
    body = json.dumps({"worker_id": f"w{number}", "queues": ["q"], "wait_ms": FOREVER, "lease_ms": 3600000}).encode()
    sock = server.socket()
    sock.sendall(b"POST /api/v1/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    return sock


def answers(socks):
    """Those of `socks` that have an answer, with it: {sock: leases}; "stopping" for a 503, None for an end without one."""
    found = {}
    for sock in socks:
        sock.setblocking(False)
        try:
            said = sock.recv(65536)
            found[sock] = json.loads(said.partition(b"\r\n\r\n")[2]).get("leases", "stopping") if said else None
        except BlockingIOError:
            pass
        finally:
            sock.settimeout(PATIENCE)
    return found


def in_flight(server):
    """How many requests the server has: the workers that wait, seen by its connections."""
    for line in server.get("/metrics").text.splitlines():
        if line.startswith("lazaret_http_connections "):
            return float(line.split()[1])
    raise AssertionError("there is no lazaret_http_connections")


def test_a_crowd_costs_little_and_slows_nobody(serve, many_files):
    server = serve()
    idle = []
    for _ in range(IDLE):
        sock = server.socket()
        sock.sendall(HEALTH)
        idle.append(sock)
    for sock in idle:
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
    workers = [wait_for_job(server, number) for number in range(WAITING)]
    wait_until(lambda: in_flight(server) >= IDLE + WAITING, "all connections")
    if not is_sanitized(server):
        used = resident(server)
        print(f"{used / 1e6:.1f} MB resident with {IDLE} idle connections and {WAITING} waiting workers")
        assert used < MEMORY_MAX

    # Others are served; how fast is the bench's business.
    for number in range(50):
        assert server.get("/healthz").status == 200
        server.push(queue="other")

    # One job wakes one worker.
    server.push(queue="q", job_id="one")
    woken = {}
    wait_until(lambda: woken.update(answers(workers)) or woken, "waking one")
    server.push(queue="other")
    woken.update(answers([sock for sock in workers if sock not in woken]))
    assert [[lease["job_id"] for lease in leases] for leases in woken.values()] == [["one"]]

    # As many jobs as workers wake all of them, each with a job of its own.
    left = [sock for sock in workers if sock not in woken]
    names = [f"j{number}" for number in range(len(left))]
    body = "".join(json.dumps({"job_id": name, "action": "a", "queue": "q"}) + "\n" for name in names)
    server.post("/api/v1/jobs", body, type="application/x-ndjson").expect(200)
    got = {}
    wait_until(lambda: got.update(answers([sock for sock in left if sock not in got])) or len(got) == len(left), "waking all")
    assert sorted(lease["job_id"] for leases in got.values() for lease in leases) == sorted(names)
    assert all(len(leases) == 1 and leases[0]["attempt"] == 1 for leases in got.values())

    for sock in idle[:100]:
        sock.sendall(HEALTH)
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
    for sock in idle + workers:
        sock.close()
    wait_until(lambda: in_flight(server) < 10, "the end of the crowd")


def test_a_drain_answers_all_who_wait_and_exits_0(serve, many_files):
    server = serve()
    idle = [server.socket() for _ in range(IDLE // 4)]
    workers = [wait_for_job(server, number) for number in range(WAITING)]
    wait_until(lambda: in_flight(server) >= len(idle) + len(workers), "all connections")
    server.signal(signal.SIGTERM)
    got = {}
    wait_until(lambda: got.update(answers([sock for sock in workers if sock not in got])) or len(got) == len(workers), "answers")
    # A request that was read after the signal is refused.
    assert [] in got.values() and all(leases in ([], "stopping") for leases in got.values()), list(got.values())
    assert server.wait() == 0
    server.check()
    for sock in idle:
        assert sock.recv(1) == b""
        sock.close()
    for sock in workers:
        sock.close()
