"""Servers over one database are one quarantine: what is done at one holds at the other."""

import concurrent.futures
import statistics
import threading
import time

import pytest
from letters import DLQ
from station import DENIED, TIMEOUT, wait_until


@pytest.fixture
def pair(database, serve):
    """Two servers, without NATS."""
    return [serve("--store", database.url) for _ in range(2)]


def test_a_job_pushed_at_one_wakes_a_worker_that_waits_at_the_other(pair):
    """The way of a notification takes milliseconds; a poll once a second would take half a second in the middle."""
    here, there = pair
    times = []
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        for _ in range(20):
            waiting = pool.submit(lambda: (there.lease("q", wait_ms=20000), time.monotonic()))
            wait_until(lambda: [each for each in there.get("/api/v1/workers").expect(200) if each["worker_id"] == "w1" and each["waiting"]], "the worker waits")
            begin = time.monotonic()
            here.push(queue="q")
            [lease], end = waiting.result(60)
            times.append(end - begin)
            there.complete(lease)
    assert statistics.median(times) < 0.2, sorted(times)


def test_two_servers_can_start_at_once_on_an_empty_database(database, serve):
    servers = [serve("--store", database.url, start=False) for _ in range(3)]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda server: server.start(), servers))
    for number, server in enumerate(servers):
        server.push(queue="q", job_id=f"j{number}")
    assert sorted(lease["job_id"] for lease in servers[0].lease("q", count=10)) == ["j0", "j1", "j2"]


@pytest.mark.parametrize("key", ["idempotency_key", "retry_key"])
def test_a_key_that_is_pushed_at_both_at_once_starts_one_job(pair, key):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for round in range(10):
            envelope = {"action": "a", "queue": f"q{round}", key: f"k{round}"}
            said = [answer.json for answer in pool.map(lambda number: pair[number % 2].post("/api/v1/jobs", envelope), range(8))]
            assert sum(entry["created"] for entry in said) == 1, said
            assert len({entry["job_id"] for entry in said}) == 1, said
    assert len(pair[0].lease(count=100)) == 10


def test_a_job_is_leased_by_one_of_many_workers_at_both(pair):
    pair[0].post("/api/v1/jobs", [{"action": "a", "queue": "q", "job_id": f"j{number}"} for number in range(300)]).expect(200)
    taken, lock = [], threading.Lock()

    def work(server):
        while leases := server.lease("q", worker=f"w{threading.get_ident()}", count=7):
            with lock:
                taken.extend(lease["job_id"] for lease in leases)
            server.report(*({"lease_id": lease["lease_id"], "status": "complete"} for lease in leases))

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(work, pair * 3))
    assert sorted(taken) == sorted(f"j{number}" for number in range(300))


def test_the_highest_priority_comes_first_wherever_it_was_pushed(pair):
    for number, priority in enumerate([1, 9, 4, 9, 0, 5]):
        pair[number % 2].push(queue="q", job_id=f"j{number}", priority=priority)
    assert [pair[number % 2].lease("q")[0]["job_id"] for number in range(6)] == ["j1", "j3", "j5", "j2", "j0", "j4"]


def test_a_queue_that_is_paused_at_one_is_paused_at_the_other(pair):
    here, there = pair
    here.push(queue="q")
    here.post("/api/v1/queues/q/pause").expect(200)
    assert there.lease("q") == []
    [queue] = [each for each in there.get("/api/v1/queues").expect(200) if each["name"] == "q"]
    assert queue["paused"]
    there.post("/api/v1/queues/q/resume").expect(200)
    assert len(here.lease("q")) == 1


def test_a_policy_that_is_set_at_one_holds_at_the_other(pair):
    here, there = pair
    here.put("/api/v1/policies/quick", {"max_attempts": 1}).expect(200)
    there.push(queue="q", retry_policy="quick")
    [lease] = there.lease("q")
    assert there.fail(lease)["state"] == "dead"
    here.put("/api/v1/policies/quick", {"max_attempts": 2, "initial_delay_seconds": 0.001, "jitter": False}).expect(200)
    there.push(queue="q", retry_policy="quick")
    [lease] = there.lease("q")
    assert there.fail(lease)["state"] in ("scheduled", "pending")


def test_a_lease_of_one_is_reported_and_extended_at_the_other(pair):
    here, there = pair
    here.push(queue="q")
    [lease] = here.lease("q", worker="w")
    extended = there.post("/api/v1/leases/heartbeat", {"worker_id": "w", "lease_ids": [lease["lease_id"]]}).expect(200)
    assert extended["extended"] == [lease["lease_id"]]
    assert there.complete(lease)["state"] == "done"
    assert here.report({"lease_id": lease["lease_id"], "status": "complete"})[0]["code"] == "lease_lost"


def test_a_letter_of_one_is_reviewed_at_the_other(pair):
    here, there = pair
    first, second = here.dead(), here.dead(DENIED, queue="other")
    assert [each["dlq_id"] for each in there.get(DLQ).expect(200)] == [second, first]
    assert there.post(f"{DLQ}/{first}/retry").expect(200)["status"] == "retried"
    assert here.post(f"{DLQ}/{first}/retry").status == 409
    assert there.post(f"{DLQ}/{second}/discard").expect(200)["status"] == "discarded"
    assert here.get(f"{DLQ}/{second}").expect(200)["state"] == "discarded"
    [lease] = here.lease("default")
    assert here.complete(lease)["state"] == "done"
    assert there.get(f"{DLQ}/{first}").expect(200)["state"] == "recovered"


def test_the_events_of_both_are_one_chain(pair):
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda number: pair[number % 2].dead(queue=f"q{number}"), range(40)))
    heads = [server.get("/api/v1/audit/head").expect(200) for server in pair]
    assert heads[0] == heads[1]
    events = pair[0].get("/api/v1/audit?limit=1000").expect(200)
    assert [event["seq"] for event in events] == list(range(1, heads[0]["seq"] + 1))
    for server in pair:
        verified = server.cli("audit", "verify")
        assert verified.returncode == 0, (verified.stdout, verified.stderr)


def test_the_leases_of_a_server_that_was_killed_expire_at_the_other(pair):
    here, there = pair
    for number in range(5):
        here.push(queue="q", retry_policy={"max_attempts": 5, "initial_delay_seconds": 0.001, "jitter": False})
    leases = here.lease("q", count=5, lease_ms=1000)
    here.kill()
    again = {}
    while len(again) < 5:
        again.update((lease["job_id"], lease) for lease in there.lease("q", worker="other", count=5, wait_ms=20000))
    assert set(again) == {lease["job_id"] for lease in leases}
    assert {lease["attempt"] for lease in again.values()} == {2}
    assert {entry["code"] for entry in there.report(*({"lease_id": lease["lease_id"], "status": "complete"} for lease in leases))} == {"lease_lost"}
    assert {entry["state"] for entry in there.report(*({"lease_id": lease["lease_id"], "status": "complete"} for lease in again.values()))} == {"done"}


def test_a_job_that_is_scheduled_by_one_becomes_ready_at_the_other(pair):
    here, there = pair
    here.push(queue="q", retry_policy={"max_attempts": 3, "backoff_strategy": "fixed", "initial_delay_seconds": 0.3, "jitter": False})
    [lease] = here.lease("q")
    assert here.fail(lease)["state"] == "scheduled"
    here.kill()
    [again] = there.lease("q", wait_ms=20000)
    assert (again["job_id"], again["attempt"]) == (lease["job_id"], 2)


def test_statistics_are_the_same_at_both(pair):
    for number in range(6):
        pair[number % 2].dead([TIMEOUT, DENIED][number % 3 == 0], queue=f"q{number % 2}")
    stats = [server.get(DLQ + "/stats").expect(200) for server in pair]
    assert stats[0] == stats[1] and stats[0]["total"] == 6
    groups = [server.get(DLQ + "/groups").expect(200) for server in pair]
    assert groups[0] == groups[1] and sum(group["count"] for group in groups[0]) == 6


def test_behind_a_pooler_in_transaction_mode_it_all_works_too(database, pgbouncer, serve):
    here, there = [serve("--store", database.through(pgbouncer), "--postgres-pooled") for _ in range(2)]
    dlq_id = here.dead()
    assert there.post(f"{DLQ}/{dlq_id}/retry").expect(200)["status"] == "retried"
    [lease] = here.lease("default")
    assert there.complete(lease)["state"] == "done"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: there.lease("q", wait_ms=20000))
        here.push(queue="q")
        assert len(waiting.result(60)) == 1
    assert there.cli("audit", "verify").returncode == 0
