"""What a map runner asks of the engine: interrupted attempts, held retries, and what is left of a run."""

import urllib.parse

import pytest
from conftest import ONCE, TIMEOUT

DLQ = "/api/v1/dlq"
INTERRUPTED = "/api/v1/leases/interrupted"


def item(server, run="r1", **envelope):
    return server.push(run_id=run, required_capabilities=[f"run:{run}"], **envelope)


def take(server, run="r1", worker="w1", count=1):
    return server.lease(worker=worker, count=count, capabilities=[f"run:{run}"])


def left(server, run="r1"):
    run = server.get("/api/v1/runs/" + urllib.parse.quote(run, safe="")).expect(200)
    return {name: value for name, value in run.items() if value and name != "run_id"}


def letters(server, **query):
    return [(letter["job_id"], letter["state"]) for letter in server.get(DLQ + "?sort=oldest&" + urllib.parse.urlencode(query)).expect(200)]


# ---- interrupted ---------------------------------------------------------------------------------


def test_a_worker_that_was_cut_off_says_so_for_all_its_leases(server):
    for number in range(3):
        server.push(job_id=f"j{number}", retry_policy=ONCE)
    server.push(job_id="theirs", retry_policy=ONCE)
    ours = server.lease(count=3, worker="us")
    [theirs] = server.lease(worker="them")
    server.post("/api/v1/leases/heartbeat", {"worker_id": "us", "lease_ids": [ours[0]["lease_id"]]}).expect(200)
    assert server.post(INTERRUPTED, {"worker_id": "us"}).expect(200) == {"interrupted": 3}
    assert server.post(INTERRUPTED, {"worker_id": "us"}).expect(200) == {"interrupted": 0}
    said = {}
    for number in range(3):
        job = server.get(f"/api/v1/jobs/j{number}").expect(200)
        [attempt] = job["attempts"]
        assert (attempt["interrupted"], attempt["class"], attempt["error_type"], attempt["agent_id"]) == (True, "crashed", "Unknown", "us")
        assert (attempt["decision"]["action"], attempt["decision"]["rule"], attempt["decision"]["delay_seconds"]) == ("retry", "interrupted", 0)
        said[job["job_id"]] = attempt["error_message"]
    assert said == {"j0": "the runner was cut off while the job was running",
                    "j1": "the runner was cut off when it had taken the job: the command may have begun",
                    "j2": "the runner was cut off when it had taken the job: the command may have begun"}
    assert server.report({"lease_id": ours[0]["lease_id"], "status": "complete"})[0]["code"] == "lease_lost"
    assert server.complete(theirs)["state"] == "done"
    again = server.lease(count=3, wait_ms=60000)
    assert [lease["attempt"] for lease in again] == [2, 2, 2]
    assert server.get("/api/v1/audit/verify").expect(200)["ok"]


def test_more_leases_than_one_command_looks_at_are_all_ended(server):
    server.post("/api/v1/jobs", [{"action": "a", "queue": "q"} for _ in range(2300)]).expect(200)
    for worker, count in [("us", 100), ("them", 1000), ("them", 1000), ("us", 200)]:
        assert len(server.lease("q", worker=worker, count=count)) == count
    assert server.post(INTERRUPTED, {"worker_id": "us", "message": "the power failed"}).expect(200) == {"interrupted": 300}
    assert left_running(server) == 2000
    assert server.post(INTERRUPTED, {"worker_id": "nobody"}).expect(200) == {"interrupted": 0}


def left_running(server):
    return server.get("/api/v1/queues").expect(200)[0]["depth"]["running"]


@pytest.mark.parametrize("body,wrong", [({}, "worker_id: is required"), ({"worker_id": ""}, "worker_id: is required"),
                                        ({"worker_id": "w", "lease_ids": []}, "lease_ids"), ({"worker_id": "w", "message": 1}, "message:")])
def test_what_a_worker_says_of_its_end_is_checked(server, body, wrong):
    assert wrong in server.post(INTERRUPTED, body).expect(400)["error"]


def test_only_the_tenth_interrupted_result_in_a_row_counts(server):
    server.push(job_id="j", retry_policy=ONCE)
    cut_off = {"message": "stopped", "interrupted": True}
    for number in range(1, 10):
        [lease] = server.lease(wait_ms=60000)
        assert lease["attempt"] == number
        assert server.fail(lease, cut_off)["state"] == "scheduled"
    [lease] = server.lease(wait_ms=60000)
    assert server.fail(lease, cut_off)["state"] == "dead"
    [letter] = server.get(DLQ).expect(200)
    assert (letter["reason"], letter["retry_count"], letter["max_retries"]) == ("agent_crashed", 10, 1)
    assert [attempt["decision"]["rule"] for attempt in letter["failure_history"]] == 9 * ["interrupted"] + ["attempts_exhausted"]


def test_a_simulation_knows_interruptions(server):
    failures = [{"message": "m", "interrupted": True}, {"message": "m", "interrupted": True}, {"message": "m"}]
    said = server.post("/api/v1/policies/simulate", {"policy": ONCE, "failures": failures}).expect(200)
    assert [(step["attempt"], step["rule"]) for step in said] == [(1, "interrupted"), (2, "interrupted"), (3, "attempts_exhausted")]
    said = server.post("/api/v1/policies/simulate", {"policy": ONCE, "repeat": True, "failures": failures[:1]}).expect(200)
    assert [step["rule"] for step in said] == 9 * ["interrupted"] + ["attempts_exhausted"]


# ---- held retries --------------------------------------------------------------------------------


def test_a_held_letter_stays_open_until_its_job_is_done(server):
    letter = server.dead(job_id="j")
    assert server.post(f"{DLQ}/{letter}/retry", {"hold": True, "actor": "bob"}).expect(200) == {"status": "retried", "dlq_id": letter}
    held = server.get(f"{DLQ}/{letter}").expect(200)
    assert (held["state"], held["recovered"], held["recovered_by"], "recovered_at" in held) == ("recovering", False, "bob", False)
    assert server.post(f"{DLQ}/{letter}/retry", {}).expect(409)["error"] == "it is being replayed"
    assert letters(server, recovered="false") == [("j", "recovering")] == letters(server, state="open")
    stats = server.get(f"{DLQ}/stats").expect(200)
    assert (stats["unrecovered"], stats["recoverable"], stats["by_state"]["recovering"]) == (1, 0, 1)
    assert server.get(f"{DLQ}/analyze").expect(200)["total"] == 1
    [group] = server.get(f"{DLQ}/groups").expect(200)
    assert group["count"] == 1
    [lease] = server.lease()
    server.complete(lease)
    done = server.get(f"{DLQ}/{letter}").expect(200)
    assert (done["state"], done["recovered"], done["recovered_by"]) == ("recovered", True, "bob") and done["recovered_at"]
    assert letters(server, state="open") == [] and server.get(f"{DLQ}/groups").expect(200) == []
    events = server.get(f"/api/v1/audit?dlq_id={letter}").expect(200)
    assert (events[-1]["what"], events[-1]["why"]) == ("completed", {"attempt": 2, "dlq_id": letter, "letter": "recovered", "by": "bob"})
    assert events[-3]["why"]["hold"] is True
    assert server.get("/api/v1/audit/verify").expect(200)["ok"]


def test_a_held_letter_survives_a_kill_and_is_settled_after_it(server):
    done, dies, ends = [server.dead(job_id=name) for name in ("done", "dies", "ends")]
    said = server.post(f"{DLQ}/retry", {"ids": [done, dies, ends], "hold": True}).expect(200)
    assert said["retried"] == 3
    server.restart(hard=True)
    assert letters(server, state="recovering") == [("done", "recovering"), ("dies", "recovering"), ("ends", "recovering")]
    first, second, third = server.lease(count=3)
    assert [lease["job_id"] for lease in (first, second, third)] == ["done", "dies", "ends"]
    server.complete(first)
    server.fail(second)
    assert server.post("/api/v1/jobs/ends/cancel", {"actor": "eve"}).expect(200)["cancel_requested"]
    server.fail(third)
    assert letters(server) == [("done", "recovered"), ("ends", "discarded"), ("dies", "dead")]
    assert server.get(f"{DLQ}/{ends}").expect(200)["recovered_by"] == "eve"
    assert "cancelled" in server.post(f"{DLQ}/{ends}/restore", {}).expect(409)["error"]


def test_a_group_is_held_too(server):
    letters_made = [server.dead() for _ in range(3)]
    fingerprint = server.get(f"{DLQ}/{letters_made[0]}").expect(200)["fingerprint"]
    assert server.post(f"{DLQ}/groups/{fingerprint}/retry", {"hold": True}).expect(200)["retried"] == 3
    assert server.get(f"{DLQ}/groups/{fingerprint}").expect(200)["count"] == 3
    for lease in server.lease(count=3):
        server.complete(lease)
    assert server.get(f"{DLQ}/groups/{fingerprint}").expect(200)["count"] == 0


def test_hold_goes_with_retries_only(server):
    letter = server.dead()
    for path in (f"{letter}/discard", f"{letter}/rollback", f"{letter}/escalate", "discard", "retry-all"):
        assert "hold" in server.post(f"{DLQ}/{path}", {"hold": True}).expect(400)["error"], path
    assert "hold" in server.post(f"{DLQ}/{letter}/retry", {"hold": "yes"}).expect(400)["error"]
    assert server.post(f"{DLQ}/{letter}/retry", {"hold": False}).expect(200)
    assert server.get(f"{DLQ}/{letter}").expect(200)["state"] == "recovered"


def test_the_items_of_a_run_come_back_in_their_order(server):
    count = 1200
    server.post("/api/v1/jobs", [{"action": "a", "job_id": f"{n:04}", "run_id": "r1", "required_capabilities": ["run:r1"], "retry_policy": ONCE}
                                 for n in range(count)]).expect(200)
    leases = take(server, count=1000) + take(server, count=200)
    for lease in sorted(leases, key=lambda lease: lease["job_id"][::-1]):  # they die in a muddle
        server.fail(lease)
    server.push(job_id="later", run_id="r1", required_capabilities=["run:r1"])
    assert server.post(f"{DLQ}/retry", {"job_id": "r1", "hold": True}).expect(200)["retried"] == count
    order = [lease["job_id"] for lease in take(server, count=1000) + take(server, count=1000)]
    assert order == [f"{n:04}" for n in range(count)] + ["later"]


# ---- runs ----------------------------------------------------------------------------------------


def test_what_is_left_of_a_run_is_counted(server):
    assert server.get("/api/v1/runs/r1").expect(200) == {
        "run_id": "r1", "pending": 0, "scheduled": 0, "running": 0, "next_due": None, "dead": 0, "recovering": 0}
    for _ in range(4):
        item(server, retry_policy=ONCE)
    item(server, run="r2")
    server.push(run_id="r1")  # not the runner's
    item(server, run_at="2030-01-01T00:00:00Z")
    item(server, run_at="2031-01-01T00:00:00Z")
    assert left(server) == {"pending": 4, "scheduled": 2, "next_due": "2030-01-01T00:00:00Z"}
    first, second = take(server, count=2)
    assert left(server) == {"pending": 2, "running": 2, "scheduled": 2, "next_due": "2030-01-01T00:00:00Z"}
    server.fail(first)
    server.complete(second)
    assert left(server)["dead"] == 1
    server.post(f"{DLQ}/retry", {"job_id": "r1", "hold": True}).expect(200)
    server.restart()
    assert left(server) == {"pending": 3, "scheduled": 2, "next_due": "2030-01-01T00:00:00Z", "dead": 1, "recovering": 1}
    [lease] = take(server)
    assert lease["job_id"] == first["job_id"]
    server.complete(lease)
    assert left(server) == {"pending": 2, "scheduled": 2, "next_due": "2030-01-01T00:00:00Z"}


@pytest.mark.parametrize("run", ["a b/c", "..", "\"quoted\" ü", "x" * 190])
def test_a_run_may_have_any_name(server, run):
    item(server, run=run)
    assert left(server, run) == {"pending": 1}


# ---- artifacts -----------------------------------------------------------------------------------


def test_worktree_artifacts_are_about_a_worktree_and_the_history_has_all(server):
    artifacts = {"exit_code": 1, "stdout": "out", "stderr": "err"}
    plain = server.dead({**TIMEOUT, "artifacts": artifacts})
    shown = server.get(f"{DLQ}/{plain}").expect(200)
    assert shown["worktree_artifacts"] is None and shown["failure_history"][0]["artifacts"] == artifacts
    tree = {"worktree_path": "/w/1", "branch_name": "lazaret/1", "uncommitted_changes": None, "error_logs": "l\n"}
    kept = server.dead({**TIMEOUT, "artifacts": {**artifacts, **tree}})
    shown = server.get(f"{DLQ}/{kept}").expect(200)
    assert shown["worktree_artifacts"] == tree and shown["failure_history"][0]["artifacts"] == {**artifacts, **tree}
