"""Dispatched jobs over HTTP: the swarm's story, with its times shortened."""

import concurrent.futures
import contextlib

from conftest import TIMEOUT, wait_until

WORKERS = "/api/v1/workers"
HINTS = [{"match": "best"}, {"match": "rescore"}, {"match": "broadened", "min_match": 0.7}]
STORY = {"max_attempts": 3, "schedule_seconds": [0.05, 0.05], "jitter": False, "hints": HINTS}
HURRIED = {**STORY, "assignment_timeout_seconds": 0.2}
FOREVER = 600000  # milliseconds that a worker waits, unless a job ends it


def worker(server, name):
    [found] = [entry for entry in server.get(WORKERS).json if entry["worker_id"] == name] or [{"waiting": 0}]
    return found


@contextlib.contextmanager
def waiting(server, **workers):
    """Has workers (name: capabilities) wait for a job each, and gives their answers as futures; `pool` ends them all."""
    def ask(name, capabilities):
        return server.lease("work", worker=name, capabilities=capabilities, wait_ms=FOREVER, lease_ms=3600000)

    with concurrent.futures.ThreadPoolExecutor(len(workers)) as pool:
        futures = {}
        try:
            for name, capabilities in workers.items():
                futures[name] = pool.submit(ask, name, capabilities)
                wait_until(lambda name=name: worker(server, name)["waiting"] == 1, f"the wait of {name}")
            yield futures
        finally:
            for future in futures.values():
                while not future.done():  # somebody else who waits may take it
                    server.push(queue="work", action="go home")
                    concurrent.futures.wait([future], timeout=1)


def job_of(server, job_id):
    return server.get(f"/api/v1/jobs/{job_id}").json


def letter_of(server, job_id):
    wait_until(lambda: job_of(server, job_id)["state"] == "dead", "the end of the job")
    return server.get(f"/api/v1/dlq/{job_of(server, job_id)['dlq_id']}").json


def test_a_task_that_nobody_can_do_is_unassignable_until_somebody_comes(server):
    needs = ["research", "competitor-analysis"]
    server.lease("work", worker="half", capabilities=["research"])
    job_id = server.push(queue="work", required_capabilities=needs, retry_policy=HURRIED, original_subject="swarm.task.request", source="dispatch")
    letter = letter_of(server, job_id)
    assert (letter["reason"], letter["source"], letter["original_subject"]) == ("no_capable_agent", "dispatch", "swarm.task.request")
    assert letter["reason_detail"] == "No live worker has 70 % of [research, competitor-analysis]; the best has 1 of 2"
    assert (letter["retry_count"], letter["max_retries"], letter["recoverable"]) == (3, 3, True)
    assert [(entry["attempt"], entry["agent"]) for entry in letter["retry_history"]] == [(1, ""), (2, ""), (3, "")]
    history = letter["failure_history"]
    assert [entry["reason"] for entry in history] == ["no_capable_agent"] * 3
    assert history[0]["error_message"] == "No live worker has [research, competitor-analysis]; the best has 1 of 2"
    assert [entry["decision"].get("delay_seconds") for entry in history] == [0.05, 0.05, None]
    assert [entry["class"] for entry in history] == ["unavailable"] * 3
    with waiting(server, whole=needs) as futures:
        assert server.post(f"/api/v1/dlq/{letter['dlq_id']}/retry", {"note": "there is one now"}).expect(200)["status"] == "retried"
        [lease] = futures["whole"].result()
    assert (lease["job_id"], lease["attempt"], lease["match"]) == (job_id, 4, "best")
    assert server.complete(lease)["state"] == "done"
    assert server.get(f"/api/v1/dlq/{letter['dlq_id']}").json["state"] == "recovered"


def test_the_best_worker_gets_it_and_then_another_one(server):
    with waiting(server, part=["a"], spare=["a", "b", "c"], right=["a", "b"]) as futures:
        job_id = server.push(queue="work", required_capabilities=["a", "b"], retry_policy=STORY)
        [lease] = futures["right"].result()
        assert (lease["job_id"], lease["match"]) == (job_id, "best")
        with waiting(server, **{"right": ["a", "b"]}) as again:
            assert server.fail(lease, TIMEOUT)["state"] == "scheduled"
            [lease] = futures["spare"].result()
            assert (lease["job_id"], lease["match"], lease["attempt"]) == (job_id, "rescore", 2)
            assert server.complete(lease)["state"] == "done"
            assert not again["right"].done() and not futures["part"].done()


def test_a_task_that_no_capable_worker_may_see_is_denied(server):
    server.post(WORKERS, {"worker_id": "clerk", "capabilities": ["pay"], "scopes": ["office"], "permissions": ["read"]}).expect(200)
    job_id = server.push(queue="work", required_capabilities=["pay"], retry_policy=HURRIED, scope_lock="treasury")
    letter = letter_of(server, job_id)
    assert (letter["reason"], letter["retry_count"], letter["manual_review_required"]) == ("policy_denied", 1, True)
    assert letter["reason_detail"] == '1 live worker could do it, and none covers the scope "treasury"'
    job_id = server.push(queue="work", required_capabilities=["pay"], retry_policy=HURRIED, permissions=["read", "write"])
    assert letter_of(server, job_id)["reason_detail"] == "1 live worker could do it, and none covers the permissions [read, write]"
    job_id = server.push(queue="work", required_capabilities=["pay"], retry_policy=STORY, scope_lock="office", permissions=["read"])
    assert [lease["job_id"] for lease in server.lease("work", worker="clerk")] == [job_id]


def test_a_task_whose_worker_does_not_come_had_nobody_available(server):
    server.post(WORKERS, {"worker_id": "asleep", "queues": ["work"], "capabilities": ["a", "b"], "ttl_ms": 600000}).expect(200)
    letter = letter_of(server, server.push(queue="work", required_capabilities=["a"], retry_policy=HURRIED))
    assert (letter["reason"], letter["retry_count"]) == ("all_agents_unavailable", 3)
    assert letter["reason_detail"] == "1 live worker could do it, and none came for it within 0.2 seconds"


def test_a_task_that_was_never_begun_or_never_finished_or_whose_worker_died_says_so(server):
    once = {"max_attempts": 1, "hints": HINTS}
    never_begun = server.push(queue="work", retry_policy=once)
    server.lease("work", lease_ms=1)
    assert letter_of(server, never_begun)["reason"] == "timeout_assigned"
    never_finished = server.push(queue="work", retry_policy=once, constraints={"max_runtime_seconds": 0.05})
    server.lease("work", lease_ms=60000)
    assert letter_of(server, never_finished)["reason"] == "timeout_in_progress"
    lost = server.push(queue="work", retry_policy=once)
    [lease] = server.lease("work", lease_ms=60000)
    server.post("/api/v1/leases/heartbeat", {"worker_id": "w1", "lease_ids": [lease["lease_id"]], "lease_ms": 1}).expect(200)
    assert letter_of(server, lost)["reason"] == "agent_crashed"


def test_a_task_that_is_not_retry_eligible_skips_to_the_quarantine(server):
    server.push(queue="work", retry_policy="dispatch", retry_eligible=False)
    [lease] = server.lease("work")
    said = server.fail(lease, TIMEOUT)
    letter = server.get(f"/api/v1/dlq/{said['dlq_id']}").json
    assert (said["state"], letter["reason"], letter["recoverable"]) == ("dead", "not_retryable", False)
    assert letter["failure_history"][0]["decision"]["rule"] == "not_retry_eligible"


def test_workers_are_listed_by_what_they_are_and_do(server):
    def names(query=""):
        """Those that are there beside the server's own, which delivers."""
        return [entry["worker_id"] for entry in server.get(WORKERS + query).expect(200) if entry["worker_id"] != "deliveries"]

    assert names() == []
    said = server.post(WORKERS, {"worker_id": "a", "capabilities": ["x", "y"], "ttl_ms": 1}).expect(200)
    assert (said["worker_id"], said["capabilities"], said["live"], said["ttl_ms"]) == ("a", ["x", "y"], True, 1)
    server.push(queue="work")
    server.lease("work", worker="b")
    wait_until(lambda: not worker(server, "a")["live"], "the end of its ttl")
    assert names() == ["b", "a"]
    assert names("?live=true") == ["b"]
    assert names("?live=false") == ["a"]
    assert len(server.get(WORKERS + "?limit=1").json) == 1
    assert (worker(server, "b")["running"], worker(server, "b")["queues"]) == (1, ["work"])
    assert server.post(WORKERS, {"capabilities": []}).expect(400)["error"] == "worker_id: is required"
