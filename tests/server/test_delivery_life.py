"""Deliveries through the life of a server: restarts, a drain, a pause, dead hosts, a disk that is full."""

import errno
import json
import signal
import subprocess
import threading

import pytest
from conftest import wait_until
from office import Office, receipt

from endpoint import SCALED, DeadHost, Endpoint, answer, held

PATIENT = {**SCALED, "max_attempts": 1000, "backoff_strategy": "fixed", "initial_delay_seconds": 0.05}


@pytest.fixture
def endpoint():
    with Endpoint() as made:
        yield made


# ---- restarts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hard", [False, True], ids=["SIGTERM", "SIGKILL"])
def test_receipts_whose_endpoint_is_down_are_delivered_after_a_restart(serve, endpoint, hard):
    office = Office(serve, endpoint, policy=PATIENT)
    endpoint.down()
    jobs = [office.deliver(receipt(f"lease-{n}")) for n in range(20)]
    wait_until(lambda: all(office.job(job_id)["attempts"] for job_id in jobs), "an attempt at each")
    office.server.restart(hard)
    assert not any(office.job(job_id)["state"] in ("done", "dead") for job_id in jobs)
    endpoint.up()
    for job_id in jobs:
        office.delivered(job_id)
    assert sorted(request.key for request in endpoint.requests) == sorted(f"lease-{n}:complete" for n in range(20))


def test_a_call_that_a_kill_cut_off_is_made_again_with_the_same_key(serve, endpoint):
    gate = threading.Event()
    endpoint.script(*[held(gate, answer(200))] * 20, answer(200))
    office = Office(serve, endpoint)
    jobs = [office.deliver(receipt(f"lease-{n}")) for n in range(20)]
    endpoint.wait_for(20)
    office.server.kill()
    gate.set()
    office.server.start()
    for job_id in jobs:
        office.delivered(job_id)
    assert sorted(request.key for request in endpoint.requests) == sorted(f"lease-{n}:complete" for n in range(20) for _ in range(2))


def test_what_was_delivered_is_not_sent_again_after_a_kill(serve, endpoint):
    office = Office(serve, endpoint)
    for n in range(20):
        office.delivered(office.deliver(receipt(f"lease-{n}")))
    office.server.restart(hard=True)
    office.delivered(office.deliver(receipt("another")))
    assert len(endpoint.requests) == 21


# ---- the end ---------------------------------------------------------------------------------------------------------


def refused(server):
    try:
        server.socket().close()
        return False
    except ConnectionRefusedError:
        return True


def test_a_delivery_under_way_is_finished_before_the_server_ends(serve, endpoint):
    gate = threading.Event()
    endpoint.script(held(gate, answer(200)))
    office = Office(serve, endpoint)
    job_id = office.deliver(receipt())
    endpoint.wait_for(1)
    office.server.signal(signal.SIGTERM)
    wait_until(lambda: refused(office.server), "the drain")
    assert office.server.running
    gate.set()
    assert office.server.wait() == 0
    office.server.start()
    assert office.job(job_id)["state"] == "done" and len(endpoint.requests) == 1


def test_a_delivery_that_does_not_end_holds_a_drain_up_no_longer_than_it_may(serve, endpoint):
    gate = threading.Event()
    endpoint.script(held(gate, answer(200)), answer(200))
    office = Office(serve, endpoint, http={"drain_seconds": 0.5})
    job_id = office.deliver(receipt())
    endpoint.wait_for(1)
    office.server.stop()
    office.server.start()
    office.delivered(job_id)
    assert [request.key for request in endpoint.requests] == ["abc-123:complete"] * 2


def test_nothing_new_is_begun_in_a_drain(serve, endpoint):
    gate = threading.Event()
    endpoint.script(held(gate, answer(200)))
    office = Office(serve, endpoint, {"single": {"url": endpoint.url, "parallel": 1}})
    jobs = [office.deliver(receipt(f"lease-{n}"), "single") for n in range(3)]
    endpoint.wait_for(1)
    office.server.signal(signal.SIGTERM)
    wait_until(lambda: refused(office.server), "the drain")
    gate.set()
    assert office.server.wait() == 0
    called = len(endpoint.requests)
    office.server.start()
    for job_id in jobs:
        office.delivered(job_id)
    assert called <= 3 and sorted(request.key for request in endpoint.requests) == [f"lease-{n}:complete" for n in range(3)]


def test_a_paused_queue_makes_no_calls(serve, endpoint):
    office = Office(serve, endpoint)
    office.server.post("/api/v1/queues/deliveries/pause").expect(200)
    jobs = [office.deliver(receipt(f"lease-{n}")) for n in range(3)]
    for _ in range(100):  # the server has had its time
        assert {office.job(job_id)["state"] for job_id in jobs} == {"pending"}
    assert not endpoint.requests
    office.server.post("/api/v1/queues/deliveries/resume").expect(200)
    for job_id in jobs:
        office.delivered(job_id)


def test_a_delivery_that_is_cancelled_is_not_made(serve, endpoint):
    office = Office(serve, endpoint, policy={**SCALED, "initial_delay_seconds": 3600, "max_delay_seconds": 3600})
    endpoint.script(answer(503))
    job_id = office.deliver(receipt())
    wait_until(lambda: office.job(job_id)["state"] == "scheduled", "the retry")
    office.server.post(f"/api/v1/jobs/{job_id}/cancel").expect(200)
    assert office.ended(job_id)["state"] == "cancelled" and len(endpoint.requests) == 1


# ---- many hosts ------------------------------------------------------------------------------------------------------


def test_a_dead_host_does_not_hold_up_the_others(serve, endpoint):
    with DeadHost() as dead:
        office = Office(serve, endpoint, {"dead": {"url": dead.url, "connect_seconds": 100, "request_seconds": 100}},
                        http={"drain_seconds": 0.2})
        stuck = [office.deliver(receipt(f"stuck-{n}"), "dead") for n in range(100)]
        well = [office.deliver(receipt(f"well-{n}")) for n in range(100)]
        for job_id in well:
            office.delivered(job_id)
        assert len(endpoint.requests) == 100
        assert not any(office.job(job_id)["attempts"] for job_id in stuck), "the dead host was given up before the others were done"
        office.server.stop()


def test_a_host_is_not_called_more_often_at_once_than_it_may(serve, endpoint):
    gate, lock, now = threading.Event(), threading.Lock(), [0, 0]

    def count(line, request):
        with lock:
            now[0] += 1
            now[1] = max(now)
        assert gate.wait(60)
        with lock:
            now[0] -= 1
        return answer(200)(line, request)

    endpoint.script(count)
    office = Office(serve, endpoint, {"narrow": {"url": endpoint.url, "parallel": 3}})
    jobs = [office.deliver(receipt(f"lease-{n}"), "narrow") for n in range(12)]
    endpoint.wait_for(3)
    office.server.get("/healthz").expect(200)
    gate.set()
    for job_id in jobs:
        office.delivered(job_id)
    assert now == [0, 3]


def test_connections_are_used_again(serve, endpoint):
    office = Office(serve, endpoint)
    for n in range(10):
        office.delivered(office.deliver(receipt(f"lease-{n}")))
    assert len(endpoint.requests) == 10 and endpoint.connections == 1


# ---- a disk that is full ---------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 8 MiB; it is gone after the test, whatever is still open on it."""
    place = tmp_path / "disk"
    place.mkdir()
    try:
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "lazaret-test", str(place)], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if made.returncode:
        pytest.skip(f"cannot mount a small file system: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(path):
    """Writes until there is no room for another byte."""
    with open(path, "wb", buffering=0) as ballast:
        for size in (1 << 16, 4096, 1):
            try:
                while True:
                    ballast.write(bytes(size))
            except OSError as problem:
                assert problem.errno == errno.ENOSPC


@pytest.mark.parametrize("hard", [False, True], ids=["space comes back", "killed while it is full"])
def test_a_disk_that_is_full_while_receipts_die_loses_none(serve, endpoint, small_disk, hard):
    gate = threading.Event()
    data, ballast = small_disk / "data", small_disk / "ballast"
    office = Office(serve, endpoint, data=data)
    count = 30
    for n in range(count):
        endpoint.on(f"lease-{n}:complete", held(gate, answer(400 if n % 3 else 200)))
    jobs = [office.deliver(receipt(f"lease-{n}", summary="s" * 2000)) for n in range(count)]
    endpoint.wait_for(count)
    fill(ballast)
    gate.set()
    wait_until(lambda: office.order(receipt("late")).status in (500, 503, 507), "the server notices")
    if hard:
        office.server.kill()
    ballast.unlink()
    if hard:
        office.server.start()
    found = {job_id: office.ended(job_id)["state"] for job_id in jobs}
    assert list(found.values()) == ["dead" if n % 3 else "done" for n in range(count)]
    letters = {letter["job_id"]: letter for letter in office.letters()}
    assert all((job_id in letters) == (state == "dead") for job_id, state in found.items())
    mirror = data / "dlq/receipts.json"
    wait_until(lambda: mirror.exists() and len(json.loads(mirror.read_text())) == sum(n % 3 > 0 for n in range(count)), "the file has them all")
