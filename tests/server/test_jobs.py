"""Jobs and workers over HTTP (INTERFACES 5.2)."""

import concurrent.futures
import json
import urllib.parse

import pytest
from conftest import ONCE, TIMEOUT, TWICE, wait_until

JOBS = "/api/v1/jobs"
LEASES = "/api/v1/leases"
FOREVER = 600000  # the longest wait_ms: what waits this long and answers was woken


def ndjson(*documents):
    return "".join(json.dumps(document) + "\n" for document in documents)


def state(server, job_id):
    return server.get(f"{JOBS}/{job_id}").expect(200)["state"]


@pytest.fixture
def background():
    """Runs calls beside the test."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        yield pool.submit


# ---- push ----------------------------------------------------------------------------------------


def test_a_job_is_pushed_with_201(server):
    answer = server.post(JOBS, {"action": "send"})
    assert answer.status == 201 and list(answer.json) == ["job_id", "state", "created"]
    assert (answer.json["state"], answer.json["created"]) == ("pending", True)
    job = server.get(f"{JOBS}/{answer.json['job_id']}").expect(200)
    assert (job["state"], job["queue"], job["priority"], job["attempt"], job["envelope"]) == ("pending", "default", 4, 0, {"action": "send"})


def test_the_same_bytes_again_are_200_and_other_bytes_409(server):
    first = server.post(JOBS, '{"job_id":"j1","action":"send"}')
    again = server.post(JOBS, '{"job_id":"j1","action":"send"}')
    other = server.post(JOBS, '{"job_id":"j1", "action":"send"}')
    assert (first.status, first.json["created"]) == (201, True)
    assert (again.status, again.json) == (200, {"job_id": "j1", "state": "pending", "created": False})
    assert other.expect(409)["code"] == "conflict" and '"j1" is known with another envelope' in other.json["error"]
    assert len(server.get(JOBS).expect(200)) == 1


@pytest.mark.parametrize("key", ["idempotency_key", "retry_key"])
def test_a_live_job_with_the_same_key_answers_for_it(server, key):
    first = server.post(JOBS, {"action": "send", key: "k"}).expect(201)
    assert server.post(JOBS, {"action": "other", key: "k"}).expect(200) == {**first, "created": False}
    [lease] = server.lease()
    assert server.post(JOBS, {"action": "send", key: "k"}).expect(200)["state"] == "running"
    server.complete(lease)
    assert server.post(JOBS, {"action": "send", key: "k"}).expect(201)["job_id"] != first["job_id"]


def test_a_key_can_be_kept_for_good(server):
    envelope = {"action": "send", "idempotency_key": "k", "constraints": {"unique_forever": True}}
    first = server.post(JOBS, envelope).expect(201)
    server.complete(server.lease()[0])
    assert server.post(JOBS, envelope).expect(200) == {"job_id": first["job_id"], "state": "done", "created": False}


def test_an_array_is_answered_one_by_one_in_order(server):
    answer = server.post(JOBS, [{"job_id": "a", "action": "x"}, {"job_id": "b"}, {"job_id": "a", "action": "x"}, 7, {"job_id": "a", "action": "y"}])
    results = answer.expect(200)["results"]
    assert results[0] == {"job_id": "a", "state": "pending", "created": True}
    assert results[1]["code"] == "invalid" and results[1]["error"].startswith("action: ")
    assert results[2] == {"job_id": "a", "state": "pending", "created": False}
    assert results[3]["code"] == "invalid"
    assert results[4]["code"] == "conflict" and results[4]["error"].startswith("job_id: ")
    assert [job["job_id"] for job in server.get(JOBS).expect(200)] == ["a"]


def test_ndjson_is_answered_line_by_line_and_blank_lines_are_none(server):
    body = '{"job_id":"a","action":"x"}\n\n  \r\n{"job_id":"b","action":"x"}\r\n{"broken\n{"job_id":"c","action":"x"}'
    results = server.post(JOBS, body, type="application/x-ndjson").expect(200)["results"]
    assert [entry.get("job_id", entry.get("code")) for entry in results] == ["a", "b", "invalid", "c"]
    assert server.post(JOBS, "", type="application/x-ndjson").expect(200) == {"results": []}
    assert server.post(JOBS, "[]").expect(200) == {"results": []}


def test_ten_thousand_at_once_are_taken_and_one_more_is_not(server):
    lines = [{"job_id": f"j{n}", "action": "x"} for n in range(10001)]
    assert server.post(JOBS, ndjson(*lines), type="application/x-ndjson").expect(413)["code"] == "too_large"
    assert server.get(JOBS).json == []
    results = server.post(JOBS, ndjson(*lines[1:]), type="application/x-ndjson").expect(200)["results"]
    assert [entry["job_id"] for entry in results] == [line["job_id"] for line in lines[1:]]
    assert server.get("/api/v1/status").json["live"] == 10000


@pytest.mark.parametrize("body,begins", [("", "the body is empty"), ("{", ""), ("[{]", "the body is not JSON"), ("[1,2", "the body is not JSON"),
                                         ('"text"', ""), ("{}", "action: "), ('{"action":"a","priority":10}', "priority: "),
                                         ('{"action":"a","queue":""}', "queue: "), ('{"action":"a","action":"b"}', "action: stands twice"),
                                         ('{"action":"a","retry_policy":"nothing"}', "retry_policy: "), ('{"action":"\xff"}', "")])
def test_a_bad_envelope_is_400_and_named(server, body, begins):
    problem = server.post(JOBS, body.encode("latin-1")).expect(400)
    assert problem["code"] == "invalid" and problem["error"].startswith(begins)


def test_an_envelope_over_a_mebibyte_is_413(server):
    assert server.post(JOBS, {"action": "a", "inputs": {"text": "x" * (1 << 20)}}).expect(413)["code"] == "too_large"
    server.post(JOBS, {"action": "a", "inputs": {"text": "x" * ((1 << 20) - 100)}}).expect(201)


def test_the_worker_gets_the_envelope_byte_for_byte(server):
    body = '{ "action":"a",\t"inputs":{"n":1.50,"s":"\\u00e9\\/","big":12345678901234567890}, "unknown" : [1 ,2]}'
    server.post(JOBS, body).expect(201)
    answer = server.post(LEASES, {"worker_id": "w1"})
    assert f'"job":{body}}}'.encode() in answer.body


def test_what_was_acknowledged_is_there_after_a_kill(server):
    acknowledged = [server.push() for _ in range(20)]
    server.restart(hard=True)
    assert sorted(job["job_id"] for job in server.get(JOBS).json) == sorted(acknowledged)
    assert server.get("/api/v1/audit/verify").expect(200)["ok"]


# ---- look ----------------------------------------------------------------------------------------


def test_jobs_are_listed_by_state_and_queue_in_pages(server):
    pushed = [server.push(queue="a" if n % 2 else "b") for n in range(10)]
    server.push(queue="c", run_at="2100-01-01T00:00:00Z")
    assert len(server.get(JOBS + "?state=pending").json) == 10
    assert {job["job_id"] for job in server.get(JOBS + "?queue=a").json} == set(pushed[1::2])
    [later] = server.get(JOBS + "?state=scheduled").json
    assert later["next_run_at"].startswith("2100-01-01T00:00:00")
    seen, cursor = [], ""
    while cursor is not None:
        page = server.get(f"{JOBS}?state=pending&limit=3&cursor={cursor}")
        seen += [job["job_id"] for job in page.expect(200)]
        cursor = page.cursor
    assert sorted(seen) == sorted(pushed) and len(seen) == 10
    for query in ["state=nothing", "limit=0", "limit=1001", "stat=done"]:
        server.get(f"{JOBS}?{query}").expect(400)


def test_a_job_that_is_not_there_is_404(server):
    assert server.get(JOBS + "/nothing").expect(404) == {"error": 'no job "nothing"', "code": "not_found"}
    assert server.post(JOBS + "/nothing/cancel").expect(404) == {"error": 'no job "nothing"', "code": "not_found"}


def test_an_id_may_hold_any_text(server):
    name = "a/b c?d=%2F&é\n"
    server.push(job_id=name)
    assert server.get(f"{JOBS}/{urllib.parse.quote(name, safe='')}").expect(200)["job_id"] == name


def test_a_job_shows_its_attempts_decisions_and_next_run(server):
    job_id = server.push(retry_policy={"max_attempts": 2, "backoff_strategy": "fixed", "initial_delay_seconds": 3600, "jitter": False})
    said = server.fail(server.lease()[0])
    assert (said["state"], said["dlq_id"]) == ("scheduled", None)
    job = server.get(f"{JOBS}/{job_id}").expect(200)
    assert (job["state"], job["attempt"], job["max_attempts"], job["policy"], job["next_run_at"]) == ("scheduled", 1, 2, "inline", said["next_retry_at"])
    [attempt] = job["attempts"]
    assert (attempt["attempt_number"], attempt["error_message"], attempt["class"]) == (1, TIMEOUT["message"], "timeout")
    assert (attempt["decision"]["action"], attempt["decision"]["rule"], attempt["decision"]["delay_seconds"]) == ("retry", "retry_permitted", 3600)


# ---- leases --------------------------------------------------------------------------------------


def test_a_lease_has_what_a_worker_needs(server):
    job_id = server.push(queue="q", inputs={"n": 1}, retry_policy="dispatch")
    answer = server.post(LEASES, {"worker_id": "w1", "queues": ["q"], "lease_ms": 60000}).expect(200)
    [lease] = answer["leases"]
    assert list(lease) == ["lease_id", "job_id", "attempt", "match", "expires_at", "queue", "job"]
    assert (lease["job_id"], lease["attempt"], lease["match"], lease["queue"], lease["job"]["inputs"]) == (job_id, 1, "best", "q", {"n": 1})
    job = server.get(f"{JOBS}/{job_id}").json
    assert (job["state"], job["worker"], job["lease_expires_at"], job["started"]) == ("running", "w1", lease["expires_at"], False)
    assert server.lease("q") == []


def test_the_urgent_comes_first_then_the_oldest(server):
    for name, priority in [("a", 4), ("b", 0), ("c", 9), ("d", 4)]:
        server.push(job_id=name, priority=priority)
    assert [lease["job_id"] for lease in server.lease(count=9)] == ["c", "a", "d", "b"]


def test_only_who_can_do_it_gets_it(server):
    server.push(job_id="plain")
    server.push(job_id="gpu", required_capabilities=["gpu", "linux"])
    assert [lease["job_id"] for lease in server.lease(count=9, capabilities=["gpu"])] == ["plain"]
    assert [lease["job_id"] for lease in server.lease(count=9, capabilities=["linux", "gpu", "more"])] == ["gpu"]


@pytest.mark.parametrize("body", [{}, {"worker_id": ""}, {"worker_id": "w", "count": 0}, {"worker_id": "w", "count": 1001}, {"worker_id": "w", "wait_ms": -1},
                                  {"worker_id": "w", "wait_ms": 600001}, {"worker_id": "w", "lease_ms": 0}, {"worker_id": "w", "queues": "q"},
                                  {"worker_id": "w", "queues": [1]}, [], "x"])
def test_a_bad_lease_request_is_400(server, body):
    server.push()
    assert server.post(LEASES, body).expect(400)["code"] == "invalid"
    assert server.get(JOBS + "?state=pending").json


def test_a_wait_that_is_over_has_no_leases(server):
    assert server.lease("q", wait_ms=1) == []


def test_a_push_wakes_a_worker_that_waits(server, background):
    waits = [background(server.lease, "q", worker=f"w{n}", wait_ms=FOREVER) for n in range(3)]
    other = background(server.lease, "elsewhere", wait_ms=FOREVER)
    pushed = {server.push(queue="q") for _ in range(3)}
    assert {lease["job_id"] for wait in waits for lease in wait.result(60)} == pushed
    assert not other.done()
    server.push(queue="elsewhere")
    assert other.result(60)


def test_a_retry_wakes_a_worker_that_waits(server, background):
    server.push(queue="q", retry_policy=TWICE)
    [lease] = server.lease("q")
    wait = background(server.lease, "q", wait_ms=FOREVER)
    assert server.fail(lease)["state"] == "scheduled"
    [again] = wait.result(60)
    assert (again["job_id"], again["attempt"]) == (lease["job_id"], 2)


def test_a_worker_that_hangs_up_takes_nothing_with_it(server):
    for _ in range(5):
        gone = server.connection()
        gone.request("POST", LEASES, json.dumps({"worker_id": "gone", "queues": ["q"], "wait_ms": FOREVER}), {"Content-Type": "application/json"})
        gone.close()
    job_id = server.push(queue="q")
    [lease] = server.lease("q", wait_ms=FOREVER)
    assert (lease["job_id"], lease["attempt"]) == (job_id, 1)
    assert server.complete(lease)["state"] == "done"


def test_a_heartbeat_extends_and_marks_the_job_as_started(server):
    server.push()
    [lease] = server.lease(lease_ms=60000)
    body = {"worker_id": "w1", "lease_ids": [lease["lease_id"], "nothing"], "lease_ms": 3600000}
    assert server.post(LEASES + "/heartbeat", body).expect(200) == {"extended": [lease["lease_id"]], "lost": ["nothing"], "cancelled": []}
    job = server.get(f"{JOBS}/{lease['job_id']}").json
    assert job["started"] and job["lease_expires_at"] > lease["expires_at"]
    server.post(LEASES + "/heartbeat", {"worker_id": "w1"}).expect(400)
    server.post(LEASES + "/heartbeat", {"lease_ids": []}).expect(400)


def test_a_lease_that_is_given_back_counts_as_no_attempt(server):
    server.push()
    [lease] = server.lease()
    assert server.post(LEASES + "/release", {"lease_ids": [lease["lease_id"], "nothing"]}).expect(200) == {
        "released": [lease["lease_id"]], "lost": ["nothing"]}
    [again] = server.lease()
    assert (again["attempt"], again["lease_id"] != lease["lease_id"]) == (1, True)


def test_a_worker_that_says_nothing_loses_its_lease(server):
    job_id = server.push(retry_policy=ONCE)
    [lease] = server.lease(lease_ms=1)
    wait_until(lambda: state(server, job_id) == "dead", "the end of the lease")
    lost = server.complete(lease)
    assert (lost["lease_id"], lost["code"]) == (lease["lease_id"], "lease_lost")
    assert state(server, job_id) == "dead"
    assert server.post(LEASES + "/heartbeat", {"worker_id": "w1", "lease_ids": [lease["lease_id"]]}).expect(200)["lost"] == [lease["lease_id"]]
    [letter] = server.get("/api/v1/dlq").json
    assert (letter["reason"], letter["failure_history"][0]["class"]) == ("timeout_assigned", "timeout")


def test_a_worker_that_falls_silent_has_crashed(server):
    job_id = server.push(retry_policy=ONCE)
    [lease] = server.lease(lease_ms=60000)
    server.post(LEASES + "/heartbeat", {"worker_id": "w1", "lease_ids": [lease["lease_id"]], "lease_ms": 1}).expect(200)
    wait_until(lambda: state(server, job_id) == "dead", "the end of the lease")
    [letter] = server.get("/api/v1/dlq").json
    assert (letter["reason"], letter["failure_history"][0]["class"]) == ("agent_crashed", "crashed")


# ---- results -------------------------------------------------------------------------------------


def test_a_result_ends_the_job_and_is_kept(server):
    job_id = server.push()
    [lease] = server.lease()
    said = server.complete(lease, result={"sent": 1}, summary="sent it", artifact_pointers=["s3://a"])
    assert said == {"lease_id": lease["lease_id"], "job_id": job_id, "state": "done", "next_retry_at": None, "dlq_id": None}
    job = server.get(f"{JOBS}/{job_id}").json
    assert job["result"] == {"sent": 1, "summary": "sent it", "artifact_pointers": ["s3://a"]} and job["ended_at"]


def test_a_result_is_taken_once(server):
    job_id = server.push()
    [lease] = server.lease()
    assert server.complete(lease)["state"] == "done"
    assert server.fail(lease)["code"] == "lease_lost"
    assert state(server, job_id) == "done"


def test_many_results_are_answered_one_by_one(server):
    for name in "abc":
        server.push(job_id=name, retry_policy=ONCE)
    a, b, c = server.lease(count=3)
    body = ndjson({"lease_id": a["lease_id"], "status": "complete"}, {"lease_id": b["lease_id"], "status": "failed", "failure": TIMEOUT},
                  {"lease_id": c["lease_id"], "status": "failed"}, {"lease_id": "x", "status": "complete"}, {"lease_id": "y", "status": "maybe"})
    results = server.post("/api/v1/results", body, type="application/x-ndjson").expect(200)["results"]
    assert [entry.get("state", entry.get("code")) for entry in results] == ["done", "dead", "invalid", "lease_lost", "invalid"]
    assert results[1]["dlq_id"] and results[2]["error"].startswith("failure: ")
    assert state(server, "c") == "running"


@pytest.mark.parametrize("result,begins", [({"status": "complete"}, "lease_id: "), ({"lease_id": "x"}, "status: "), ({"lease_id": "x", "status": "failed"}, "failure: "),
                                           ({"lease_id": "x", "status": "failed", "failure": {}}, "failure.message: "),
                                           ({"lease_id": "x", "status": "failed", "failure": {"message": "m", "class": "odd"}}, "failure.class: "),
                                           ({"lease_id": "x", "status": "complete", "summary": 7}, "summary: ")])
def test_a_single_bad_result_is_400_and_named(server, result, begins):
    problem = server.post("/api/v1/results", result).expect(400)
    assert problem["code"] == "invalid" and problem["error"].startswith(begins)


def test_a_structural_failure_is_quarantined_at_once(server):
    server.push(retry_policy="governed")
    said = server.fail(server.lease()[0], {"class": "policy_violation", "message": "not allowed"})
    letter = server.get(f"/api/v1/dlq/{said['dlq_id']}").json
    assert (said["state"], letter["manual_review_required"], letter["recoverable"]) == ("dead", True, False)


# ---- cancel and pause ----------------------------------------------------------------------------


def test_a_waiting_job_is_cancelled_at_once(server):
    job_id = server.push()
    assert server.post(f"{JOBS}/{job_id}/cancel").expect(200) == {"job_id": job_id, "state": "cancelled", "cancel_requested": False}
    assert server.lease() == []
    problem = server.post(f"{JOBS}/{job_id}/cancel").expect(409)
    assert problem["code"] == "conflict" and "only live jobs can be cancelled" in problem["error"]


def test_a_running_job_is_told_at_its_next_heartbeat(server):
    job_id = server.push()
    [lease] = server.lease()
    assert server.post(f"{JOBS}/{job_id}/cancel", {"actor": "ada"}).expect(200) == {"job_id": job_id, "state": "running", "cancel_requested": True}
    beat = server.post(LEASES + "/heartbeat", {"worker_id": "w1", "lease_ids": [lease["lease_id"]]}).expect(200)
    assert beat["cancelled"] == [lease["lease_id"]]
    assert server.fail(lease)["state"] == "cancelled"


def test_a_paused_queue_gives_nothing_until_it_is_resumed(server, background):
    assert server.post("/api/v1/queues/q/pause").expect(200) == {"status": "paused", "queue": "q"}
    job_id = server.push(queue="q")
    server.push(queue="r", job_id="other")
    assert [lease["job_id"] for lease in server.lease(count=9)] == ["other"]
    [queue] = [queue for queue in server.get("/api/v1/queues").expect(200) if queue["name"] == "q"]
    assert (queue["paused"], queue["depth"]["pending"]) == (True, 1)
    wait = background(server.lease, "q", wait_ms=FOREVER)
    assert server.post("/api/v1/queues/q/resume").expect(200) == {"status": "resumed", "queue": "q"}
    assert [lease["job_id"] for lease in wait.result(60)] == [job_id]


def test_a_pause_survives_a_restart(server):
    server.post("/api/v1/queues/q/pause").expect(200)
    server.push(queue="q")
    server.restart()
    assert server.lease("q") == []


# ---- the server ends -----------------------------------------------------------------------------


def test_a_worker_that_waits_is_answered_when_the_server_ends(server, background):
    wait = background(server.post, "/api/v1/leases", {"worker_id": "w1", "queues": ["q"], "wait_ms": FOREVER})
    answered = background(lambda: server.get("/healthz").status)
    assert answered.result(60) == 200
    server.stop()
    try:
        answer = wait.result(60)
        assert answer.status == 503 or answer.expect(200) == {"leases": []}
    except (ConnectionError, OSError):
        pass  # it had not come in yet
