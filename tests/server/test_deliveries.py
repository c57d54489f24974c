"""Deliveries from outside: a real server, a scripted endpoint, and what became of each receipt.

Time is scaled: the policy is the seed's, a hundred times faster.  Only that a call does not come too early is looked at.
"""

import datetime
import email.utils
import threading

import pytest
from conftest import PATIENCE, wait_until
from office import Office, facts, receipt
from test_metrics import Scrape

from endpoint import (DELAYS, SCALED, DeadHost, Endpoint, answer, check_gaps, cut, drip, endless, events, free_port, hang,
                      held, raw, redirect, reset, reset_early, result, rpc_error, shut, tool_error)

SHORT = {"request_seconds": 0.5}  # for calls that get no answer


@pytest.fixture
def endpoint():
    with Endpoint() as made:
        yield made


@pytest.fixture
def office(serve, endpoint):
    """Targets: `hook` and `mcp` are the endpoint; `short` and `short-mcp` too, but they do not wait long."""
    return Office(serve, endpoint, {
        "mcp": {"url": endpoint.url, "kind": "mcp"}, "short": {"url": endpoint.url, **SHORT},
        "short-mcp": {"url": endpoint.url, "kind": "mcp", **SHORT}})


# ---- what an answer means --------------------------------------------------------------------------------------------
#
# Each row: the step, and what a failed attempt is recorded as: class, HTTP status, side effects.  No such record: delivered.

UNREAD = ("network", 0, "unknown")  # the request had left, nothing came back
SLOW = ("timeout", 0, "unknown")

PLAIN = {
    "200": (answer(200, {"ok": True}), None),
    "200 without a body": (answer(200), None),
    "200 with what is no JSON": (answer(200, "fine", type="text/plain"), None),
    "200 with an error of JSON-RPC: the endpoint expected a call": (rpc_error("TASK_NOT_FOUND"), ("client_error", 200, "unsaid")),
    "201": (answer(201, {}), None),
    "202": (answer(202), None),
    "204": (answer(204), None),
    "200 and a connection that ends": (answer(200, {}, close=True), None),
    "200 and a gigabyte": (endless(), None),
    "300": (answer(300), ("client_error", 300, "unsaid")),
    "301": (redirect("http://127.0.0.1:9/", 301), ("client_error", 301, "unsaid")),
    "302": (redirect("/elsewhere"), ("client_error", 302, "unsaid")),
    "303": (redirect("/elsewhere", 303), ("client_error", 303, "unsaid")),
    "307": (redirect("/elsewhere", 307), ("client_error", 307, "unsaid")),
    "308": (redirect("/elsewhere", 308), ("client_error", 308, "unsaid")),
    "304": (answer(304), ("client_error", 304, "unsaid")),
    "400": (answer(400, {"error": "no"}), ("invalid_input", 400, "unsaid")),
    "401": (answer(401), ("permission_denied", 401, "unsaid")),
    "402": (answer(402), ("client_error", 402, "unsaid")),
    "403": (answer(403), ("permission_denied", 403, "unsaid")),
    "404": (answer(404), ("client_error", 404, "unsaid")),
    "405": (answer(405), ("client_error", 405, "unsaid")),
    "409": (answer(409), ("client_error", 409, "unsaid")),
    "410": (answer(410), ("client_error", 410, "unsaid")),
    "413": (answer(413), ("client_error", 413, "unsaid")),
    "422": (answer(422), ("invalid_input", 422, "unsaid")),
    "408": (answer(408), ("timeout", 408, "unsaid")),
    "429": (answer(429), ("rate_limited", 429, "unsaid")),
    "429 that says 0": (answer(429, headers={"Retry-After": "0"}), ("rate_limited", 429, "unsaid")),
    "429 that says nonsense": (answer(429, headers={"Retry-After": "soon"}), ("rate_limited", 429, "unsaid")),
    "500": (answer(500, "oops", type="text/plain"), ("server_error", 500, "unsaid")),
    "501": (answer(501), ("server_error", 501, "unsaid")),
    "502": (answer(502), ("unavailable", 502, "unsaid")),
    "503": (answer(503), ("unavailable", 503, "unsaid")),
    "504": (answer(504), ("timeout", 504, "unsaid")),
    "599": (answer(599), ("server_error", 599, "unsaid")),
    "500 and a gigabyte": (endless(status=500), ("server_error", 500, "unsaid")),
    "a reset": (reset, UNREAD),
    "a connection that is closed": (shut, UNREAD),
    "a reset in the middle of the answer": (cut(), ("network", 200, "unknown")),
    "200 in the words of HTTP/1.0": (raw(b"HTTP/1.0 200 OK\r\n\r\nfine"), None),
    "a hint, and then 204": (raw(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"), None),
    "500 with bytes that are no text": (answer(500, b"\xff\xfe\x00\x1b[31m"), ("server_error", 500, "unsaid")),
    "chunks that are none": (raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n"), ("network", 200, "unknown")),
    "a head without an end": (raw(b"HTTP/1.1 200 OK\r\n" + b"X: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n" * 20000), ("network", 200, "unknown")),
    "what is no HTTP": (raw(b"SSH-2.0-OpenSSH_9.2\r\n"), UNREAD),
}
RPC = {
    "result": (result(), None),
    "result in a stream": (events(result()), None),
    "result in a stream, after other events": (events(result(), before=['{"jsonrpc":"2.0","method":"notifications/progress"}']), None),
    "a result that stands alone under another id": (answer(200, {"jsonrpc": "2.0", "id": "1", "result": {}}), None),
    "a result of another call in a stream": (events(answer(200, {"jsonrpc": "2.0", "id": "another", "result": {}})), ("server_error", 200, "unknown")),
    "a batch with the result": (lambda request: answer(200, [{"jsonrpc": "2.0", "id": request.json["id"], "result": {}}]), None),
    "a null for a result": (lambda request: answer(200, {"jsonrpc": "2.0", "id": request.json["id"], "result": None}), ("server_error", 200, "unknown")),
    "RATE_LIMIT_EXCEEDED": (rpc_error("RATE_LIMIT_EXCEEDED"), ("rate_limited", 200, "unsaid")),
    "QUOTA_EXCEEDED": (rpc_error("QUOTA_EXCEEDED"), ("rate_limited", 200, "unsaid")),
    "TASK_NOT_FOUND": (rpc_error("TASK_NOT_FOUND"), ("client_error", 200, "unsaid")),
    "INVALID_STATE_TRANSITION": (rpc_error("INVALID_STATE_TRANSITION"), ("client_error", 200, "unsaid")),
    "LEASE_EXPIRED": (rpc_error("LEASE_EXPIRED"), ("client_error", 200, "unsaid")),
    "LEASE_INVALID": (rpc_error("LEASE_INVALID"), ("client_error", 200, "unsaid")),
    "UNAUTHORIZED": (rpc_error("UNAUTHORIZED"), ("permission_denied", 200, "unsaid")),
    "-32600": (rpc_error(-32600), ("invalid_input", 200, "unsaid")),
    "-32601": (rpc_error(-32601), ("invalid_input", 200, "unsaid")),
    "-32602": (rpc_error(-32602), ("invalid_input", 200, "unsaid")),
    "-32603": (rpc_error(-32603), ("server_error", 200, "unsaid")),
    "-32000": (rpc_error(-32000), ("server_error", 200, "unsaid")),
    "INTERNAL": (rpc_error("INTERNAL"), ("server_error", 200, "unsaid")),
    "an error in a stream": (events(rpc_error("TASK_NOT_FOUND")), ("client_error", 200, "unsaid")),
    "isError": (tool_error(), ("server_error", 200, "unsaid")),
    "200 without a body": (answer(200), ("server_error", 200, "unknown")),
    "200 with what is no JSON": (answer(200, "<html>"), ("server_error", 200, "unknown")),
    "200 with half of a JSON": (answer(200, '{"jsonrpc":"2.0","result":'), ("server_error", 200, "unknown")),
    "200 with what is no JSON-RPC": (answer(200, {"ok": True}), ("server_error", 200, "unknown")),
    "200 and a gigabyte": (endless(), ("server_error", 200, "unknown")),
    "401": (answer(401), ("permission_denied", 401, "unsaid")),
    "404": (answer(404), ("client_error", 404, "unsaid")),
    "429": (answer(429), ("rate_limited", 429, "unsaid")),
    "500": (answer(500), ("server_error", 500, "unsaid")),
    "503": (answer(503), ("unavailable", 503, "unsaid")),
    "302": (redirect("/elsewhere"), ("client_error", 302, "unsaid")),
    "a reset": (reset, UNREAD),
    "a reset in the middle of the answer": (cut(), ("network", 200, "unknown")),
}
RETRIED = {"timeout", "unavailable", "server_error", "network", "rate_limited"}


def expectation(failure):
    """What becomes of a receipt whose first call fails like this, and whose others succeed."""
    if not failure:
        return {"state": "done", "calls": 1, "failed": []}
    if failure[0] in RETRIED:
        return {"state": "done", "calls": 2, "failed": [failure]}
    return {"state": "dead", "calls": 1, "failed": [failure]}


@pytest.mark.parametrize("target, rows, well", [("hook", PLAIN, answer(200)), ("mcp", RPC, result())], ids=["http", "mcp"])
def test_each_answer_is_told_from_the_others(office, endpoint, target, rows, well):
    jobs, keys = {}, {name: f"row-{n}:complete" for n, name in enumerate(rows)}
    for n, (name, (step, _)) in enumerate(rows.items()):
        endpoint.on(keys[name], step, well)
        jobs[name] = office.deliver(receipt(f"row-{n}"), target)
    ended = {name: office.ended(job_id) for name, job_id in jobs.items()}
    found = {name: {"state": job["state"], "calls": len(endpoint.of(keys[name])), "failed": [facts(attempt) for attempt in job["attempts"]]}
             for name, job in ended.items()}
    assert found == {name: expectation(failure) for name, (_, failure) in rows.items()}
    reasons = {name: office.letter(job_id)["reason"] for name, job_id in jobs.items() if ended[name]["state"] == "dead"}
    assert set(reasons.values()) == {"not_retryable"}


def test_an_answer_of_a_gigabyte_is_not_read_to_its_end(office, endpoint):
    endpoint.script(endless())
    office.delivered(office.deliver(receipt()))
    assert endpoint.sent < 1 << 28


@pytest.mark.parametrize("target, step, failure", [
    ("short", hang, SLOW), ("short-mcp", hang, SLOW), ("short", drip(), ("timeout", 200, "unknown")),
    ("short-mcp", drip(), ("timeout", 200, "unknown"))], ids=["hang", "hang-mcp", "drip", "drip-mcp"])
def test_an_answer_that_does_not_come_is_a_timeout_that_may_have_been_carried_out(office, endpoint, target, step, failure):
    endpoint.script(step)
    letter = office.letter(office.deliver(receipt(), target))
    assert letter["reason"] == "retries_exhausted" and len(endpoint.requests) == 5
    assert [facts(attempt) for attempt in letter["failure_history"]] == [failure] * 5
    assert {request.key for request in endpoint.requests} == {"abc-123:complete"}


def test_where_nobody_listens_nothing_was_done(serve, endpoint):
    office = Office(serve, endpoint, {"nobody": f"http://127.0.0.1:{free_port()}/"})
    letter = office.letter(office.deliver(receipt(), "nobody"))
    assert (letter["reason"], letter["failure_count"]) == ("retries_exhausted", 5)
    assert {facts(attempt) for attempt in letter["failure_history"]} == {("network", 0, "none")}


def test_where_nobody_answers_a_connection_nothing_was_done(serve, endpoint):
    with DeadHost() as dead:
        office = Office(serve, endpoint, {"dead": {"url": dead.url, "connect_seconds": 0.2, "request_seconds": 60}})
        letter = office.letter(office.deliver(receipt(), "dead"))
    assert letter["reason"] == "retries_exhausted"
    assert {facts(attempt) for attempt in letter["failure_history"]} == {("timeout", 0, "none")}


def test_a_connection_that_is_reset_at_once_is_tried_again(office, endpoint):
    endpoint.script(reset_early, answer(200))
    job = office.delivered(office.deliver(receipt()))
    assert [attempt["class"] for attempt in job["attempts"]] == ["network"] and len(endpoint.requests) == 2


def test_a_kept_connection_that_was_closed_costs_no_second_call_within_an_attempt(office, endpoint):
    """A call that may have been carried out is not repeated behind the engine's back."""
    office.delivered(office.deliver(receipt("first")))
    endpoint.script(shut, answer(200))
    job = office.delivered(office.deliver(receipt("second")))
    assert [facts(attempt) for attempt in job["attempts"]] == [UNREAD]
    assert len(endpoint.of("second:complete")) == 2


def test_a_kept_connection_that_ended_meanwhile_is_not_used(office, endpoint):
    endpoint.script(answer(200, close=True), answer(200))
    office.delivered(office.deliver(receipt("first")))
    wait_until(lambda: not endpoint.lines, "the end of the connection")
    assert office.delivered(office.deliver(receipt("second")))["attempts"] == []
    assert len(endpoint.requests) == endpoint.connections == 2


def test_a_long_answer_is_kept_in_part_and_says_so(office, endpoint):
    endpoint.script(answer(400, "head " + "x" * 100000, type="text/plain"))
    [attempt] = office.letter(office.deliver(receipt()))["failure_history"]
    assert "head xxx" in str(attempt["error_context"]) and "bytes left out" in str(attempt["error_context"]) and len(str(attempt)) < 20000


def test_an_attempt_says_what_it_called_and_what_it_was_told(office, endpoint):
    endpoint.script(answer(503, {"error": "the floor is wet"}), answer(200))
    [attempt] = office.delivered(office.deliver(receipt()))["attempts"]
    assert attempt["step_failed"].startswith("POST http://127.0.0.1:")
    assert "503" in attempt["error_message"] and "the floor is wet" in str(attempt)
    assert attempt["agent_id"] and attempt["duration_ms"] >= 0


# ---- when it is tried again ------------------------------------------------------------------------------------------


def test_five_attempts_are_spaced_as_in_the_seed_and_end_in_one_letter(office, endpoint):
    endpoint.script(*(answer(500 + n, f"error number {n}", type="text/plain") for n in range(5)))
    letter = office.letter(office.deliver(receipt()))
    check_gaps(endpoint.requests, DELAYS)
    assert (letter["reason"], letter["failure_count"], letter["retry_count"], letter["max_retries"]) == ("retries_exhausted", 5, 5, 5)
    assert [attempt["attempt_number"] for attempt in letter["failure_history"]] == [1, 2, 3, 4, 5]
    assert [attempt["http_status"] for attempt in letter["failure_history"]] == [500, 501, 502, 503, 504]
    assert [attempt["decision"].get("delay_seconds") for attempt in letter["failure_history"]] == [*DELAYS, None]
    for n, attempt in enumerate(letter["failure_history"]):
        assert f"error number {n}" in str(attempt)
    assert [letter["dlq_id"]] == [each["dlq_id"] for each in office.letters()]
    assert letter["source"] == "receipts" and letter["recoverable"] and letter["replay_safety"] == "safe"
    assert letter["original_payload"]["inputs"]["body"] == receipt()


def test_the_seeds_own_policy_waits_2_4_8_and_16_seconds(serve, endpoint):
    office = Office(serve, endpoint, policy=None)
    policy = office.server.get("/api/v1/policies/receipts").expect(200)
    assert (policy["max_attempts"], policy["initial_delay_seconds"], policy["multiplier"], policy["jitter"]) == (5, 2, 2, False)
    endpoint.script(answer(503))
    job_id = office.deliver(receipt())
    job = wait_until(lambda: (job := office.job(job_id))["attempts"] and job, "the first failure")
    assert (job["policy"], job["attempts"][0]["decision"]["delay_seconds"]) == ("receipts", 2)


@pytest.mark.parametrize("target, step", [
    ("hook", answer(429, headers={"Retry-After": "1"})), ("hook", answer(503, headers={"Retry-After": "1"})),
    ("mcp", rpc_error("RATE_LIMIT_EXCEEDED", headers={"Retry-After": "1"}))], ids=["429", "503", "mcp"])
def test_retry_after_that_is_longer_than_the_backoff_is_honoured(office, endpoint, target, step):
    endpoint.script(step, result())
    job = office.delivered(office.deliver(receipt(), target))
    check_gaps(endpoint.requests, [1])
    assert job["attempts"][0]["decision"]["delay_seconds"] == 1


def test_retry_after_that_is_shorter_than_the_backoff_changes_nothing(serve, endpoint):
    office = Office(serve, endpoint, policy={**SCALED, "initial_delay_seconds": 1.5})
    endpoint.script(answer(429, headers={"Retry-After": "1"}), answer(200))
    job = office.delivered(office.deliver(receipt()))
    check_gaps(endpoint.requests, [1.5])
    assert job["attempts"][0]["decision"]["delay_seconds"] == 1.5


@pytest.mark.parametrize("text", ["3600", "99999999999999999999", email.utils.formatdate(4102444800, usegmt=True)],
                         ids=["an hour", "for ever", "2100"])
def test_retry_after_is_capped_by_the_policy(serve, endpoint, text):
    office = Office(serve, endpoint, policy={**SCALED, "max_delay_seconds": 0.3})
    endpoint.script(answer(429, headers={"Retry-After": text}), answer(200))
    job = office.delivered(office.deliver(receipt()))
    check_gaps(endpoint.requests, [0.3])
    assert job["attempts"][0]["decision"]["delay_seconds"] == 0.3


@pytest.mark.parametrize("form", ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"])
def test_retry_after_may_be_a_date_in_each_form_of_http(serve, endpoint, form):
    office = Office(serve, endpoint, policy={**SCALED, "max_delay_seconds": 7200})
    until = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)).replace(microsecond=0)
    endpoint.script(answer(503, headers={"Retry-After": until.strftime(form)}))
    job_id = office.deliver(receipt())
    job = wait_until(lambda: (job := office.job(job_id))["state"] == "scheduled" and job, "the retry")
    at = datetime.datetime.fromisoformat(job["next_run_at"])
    assert until <= at < until + datetime.timedelta(seconds=PATIENCE)


def test_a_date_that_has_passed_leaves_the_backoff(office, endpoint):
    endpoint.script(answer(503, headers={"Retry-After": "Sun, 06 Nov 1994 08:49:37 GMT"}), answer(200))
    job = office.delivered(office.deliver(receipt()))
    assert job["attempts"][0]["decision"]["delay_seconds"] == DELAYS[0]


def test_a_target_may_have_a_policy_of_its_own_and_an_order_too(serve, endpoint):
    office = Office(serve, endpoint, {"twice": {"url": endpoint.url, "policy": "twice"}})
    for name, most in [("twice", 2), ("thrice", 3)]:
        office.server.put(f"/api/v1/policies/{name}", {**SCALED, "max_attempts": most}).expect(200)
    endpoint.script(answer(500))
    assert office.letter(office.deliver(receipt("a"), "twice"))["failure_count"] == 2
    assert office.letter(office.deliver(receipt("b"), "twice", policy="thrice"))["failure_count"] == 3


# ---- what is sent ----------------------------------------------------------------------------------------------------


def test_plain_http_sends_the_receipt_as_it_is(office, endpoint):
    body = receipt(odd={"a": [1.50, None, "é\u2028\U0001f600"], "z": 12345678901234567890})
    office.delivered(office.deliver(body))
    [request] = endpoint.requests
    assert (request.method, request.path) == ("POST", "/receipts")
    assert request.json == body and b"1.5" in request.body and b"12345678901234567890" in request.body
    assert request.headers["content-type"].startswith("application/json")
    assert request.headers["idempotency-key"] == "abc-123:complete"
    assert request.headers["host"] == endpoint.address
    assert "authorization" not in request.headers and not [name for name in request.headers if name.startswith("webhook-")]


def test_mcp_calls_the_tool_with_the_seeds_arguments(office, endpoint):
    endpoint.script(result())
    office.delivered(office.deliver(receipt(), "mcp"))
    [request] = endpoint.requests
    assert request.path == "/receipts/mcp"
    call = request.json
    assert (call["jsonrpc"], call["method"]) == ("2.0", "tools/call") and call["id"] is not None
    assert call["params"] == {"name": "asyncgate.complete", "arguments": {
        "worker_id": "cognigate-0", "task_id": "task-456", "lease_id": "abc-123",
        "result": {"summary": "Task completed successfully", "artifact_pointers": ["s3://bucket/results.json"]},
        "artifacts": {"pointers": ["s3://bucket/results.json"]}}}
    assert {part.strip().split(";")[0] for part in request.headers["accept"].split(",")} >= {"application/json", "text/event-stream"}
    assert request.headers["content-type"].startswith("application/json")
    assert request.key == "abc-123:complete"


def test_a_receipt_without_artifacts_has_null_for_them(office, endpoint):
    endpoint.script(result())
    body = receipt()
    del body["artifact_pointers"], body["summary"]
    office.delivered(office.deliver(body, "mcp"))
    assert endpoint.bodies()[0]["params"]["arguments"]["artifacts"] is None


@pytest.mark.parametrize("status, tool", [("complete", "asyncgate.complete"), ("running", "asyncgate.report_progress"),
                                          ("failed", "asyncgate.fail")])
def test_the_tool_goes_by_the_status(office, endpoint, status, tool):
    endpoint.script(result())
    office.delivered(office.deliver(receipt(status=status, error_metadata={"code": 7}), "mcp"))
    [request] = endpoint.requests
    assert request.json["params"]["name"] == tool
    assert request.key.startswith(f"abc-123:{status}")


def test_a_tool_may_be_chosen_by_the_order_or_by_the_target(serve, endpoint):
    office = Office(serve, endpoint, {"mcp": {"url": endpoint.url, "kind": "mcp", "tool": "mine.end"}})
    endpoint.script(result())
    office.delivered(office.deliver(receipt("a"), "mcp"))
    office.delivered(office.deliver(receipt("b"), "mcp", tool="yours.end"))
    assert [body["params"]["name"] for body in endpoint.bodies()] == ["mine.end", "yours.end"]


@pytest.mark.parametrize("target", ["hook", "mcp"])
def test_a_large_receipt_arrives_whole(office, endpoint, target):
    endpoint.script(result())
    body = receipt(summary="s" * 900000)
    office.delivered(office.deliver(body, target))
    [sent] = endpoint.bodies()
    assert (sent if target == "hook" else sent["params"]["arguments"]["result"])["summary"] == body["summary"]


def test_many_receipts_are_delivered_once_each(office, endpoint):
    jobs = [office.deliver(receipt(f"lease-{n}")) for n in range(300)]
    for job_id in jobs:
        office.delivered(job_id)
    assert sorted(request.key for request in endpoint.requests) == sorted(f"lease-{n}:complete" for n in range(300))
    assert endpoint.connections <= 32


def test_every_attempt_has_the_same_key_and_the_same_body(office, endpoint):
    endpoint.script(answer(500), reset, cut(), answer(503), result())
    office.delivered(office.deliver(receipt(), "mcp"))
    assert {(request.key, request.body) for request in endpoint.requests} == {("abc-123:complete", endpoint.requests[0].body)}
    assert len(endpoint.requests) == 5


def test_a_document_that_is_no_receipt_is_delivered_under_its_jobs_id(office, endpoint):
    endpoint.script(reset, answer(200))
    job_id = office.deliver({"hello": "world"})
    office.delivered(job_id)
    assert [(request.key, request.json) for request in endpoint.requests] == [(job_id, {"hello": "world"})] * 2
    endpoint.script(answer(400))
    assert office.letter(office.deliver({"hello": "world"}))["source"] == "deliveries"


def test_an_odd_lease_gives_no_odd_request(office, endpoint):
    for lease in ["a\r\nX-Evil: 1", "a b", "é\U0001f600", "%41", "l" * 200, "\u0000"]:
        endpoint.requests.clear()
        endpoint.script(answer(503), answer(200))
        office.delivered(office.deliver(receipt(lease)))
        first, second = endpoint.requests
        assert first.json == second.json == receipt(lease) and first.key == second.key
        assert "x-evil" not in first.headers and first.key.isascii() and first.key.isprintable() and first.key.endswith(":complete")


def test_a_key_of_its_own_is_sent(office, endpoint):
    office.delivered(office.deliver({"hello": "world"}, idempotency_key="greeting-1"))
    assert endpoint.requests[0].key == "greeting-1"


def test_progress_is_reported_as_often_as_it_is_made(office, endpoint):
    gate = threading.Event()
    endpoint.script(held(gate, result()))
    jobs = [office.deliver(receipt(status="running", timestamp=f"2024-01-15T10:3{n}:00Z"), "mcp") for n in range(3)]
    assert len(set(jobs)) == 3
    gate.set()
    for job_id in jobs:
        office.delivered(job_id)
    assert len(endpoint.requests) == 3


# ---- orders ----------------------------------------------------------------------------------------------------------


def test_the_same_receipt_twice_is_one_delivery_while_it_is_under_way(office, endpoint):
    gate = threading.Event()
    endpoint.script(held(gate, answer(200)))
    first = office.order(receipt()).expect(202)
    endpoint.wait_for(1)
    second = office.order(receipt()).expect(202)
    assert first["created"] and not second["created"] and first["job_id"] == second["job_id"]
    gate.set()
    office.delivered(first["job_id"])
    assert len(endpoint.requests) == 1


def test_another_receipt_with_the_key_of_one_under_way_is_refused(office, endpoint):
    gate = threading.Event()
    endpoint.script(held(gate, answer(200)))
    first = office.deliver(receipt())
    refusal = office.order(receipt(summary="something else"))
    assert refusal.status == 409 and first in refusal.json["error"]
    assert office.order(receipt(), "short").status == 409
    gate.set()
    office.delivered(first)


WRONG_ORDERS = [
    ({"target": None}, 400, "target"), ({"target": ""}, 400, "target"), ({"target": 7}, 400, "target"),
    ({"target": "nobody"}, 404, "hook"), ({"target": "ftp://127.0.0.1/"}, 400, "http"),
    ({"target": "http://user:secret@127.0.0.1/"}, 400, "user"), ({"target": "http://"}, 400, "host"),
    ({"target": "http://192.0.2.1/"}, 403, "allow"), ({"kind": "smtp"}, 400, "http or mcp"), ({"kind": 1}, 400, "kind"),
    ({"kind": "mcp"}, 400, "kind"), ({"tool": ["t"]}, 400, "tool"), ({"body": None}, 400, "body"), ({"body": "text"}, 400, "body"),
    ({"body": [1]}, 400, "body"), ({"policy": "nobody"}, 400, "nobody"), ({"policy": 5}, 400, "policy"),
    ({"idempotency_key": "k" * 5000}, 400, "idempotency_key"), ({"tragte": "hook"}, 400, "target"),
    ({"body": {"lease_id": "l", "status": "complete", "fat": "f" * (1 << 20)}}, 413, "body"),
]


def test_an_order_that_is_wrong_is_refused_and_says_why(office, endpoint):
    for change, status, words in WRONG_ORDERS:
        order = {name: value for name, value in {"target": "hook", "body": receipt(), **change}.items() if value is not None}
        refusal = office.server.post("/api/v1/deliveries", order)
        assert refusal.status == status, (change, refusal)
        assert words in refusal.json["error"] and refusal.json["code"], (change, refusal)
    assert office.server.get("/api/v1/jobs?queue=deliveries").expect(200) == [] and not endpoint.requests


def test_an_order_must_be_json_and_a_post(office):
    server = office.server
    assert server.post("/api/v1/deliveries", "{", type="application/json").status == 400
    assert server.post("/api/v1/deliveries", "[]").status == 400
    assert server.post("/api/v1/deliveries", "a=b", type="application/x-www-form-urlencoded").status == 415
    assert server.get("/api/v1/deliveries").status == 405


NO_DELIVERIES = [
    {"action": "dance"}, {"inputs": {}}, {"inputs": {"target": "hook"}}, {"inputs": {"target": 7, "body": {}}}, {"inputs": {"body": {}}},
    {"inputs": {"target": "hook", "kind": "smtp", "body": {}}}, {"inputs": {"target": "mcp", "kind": "mcp", "body": [1]}},
    {"inputs": {"target": "hook", "tool": 7, "body": {}}},
]


def test_a_job_that_is_no_delivery_goes_to_the_quarantine_and_says_why(office, endpoint):
    for envelope in NO_DELIVERIES:
        job_id = office.server.push(**{"action": "deliver", "queue": "deliveries", "inputs": {"target": "hook", "body": {}}, **envelope})
        letter = office.letter(job_id)
        found = letter["reason"], letter["failure_count"], letter["failure_history"][0]["class"], bool(letter["reason_detail"])
        assert found == ("not_retryable", 1, "invalid_input", True), (envelope, letter)
    assert not endpoint.requests


def test_a_dead_receipt_is_brought_back_with_the_same_key_and_another_body_if_need_be(office, endpoint):
    endpoint.script(answer(422))
    letter = office.letter(office.deliver(receipt()))
    endpoint.script(answer(200))
    patch = [{"op": "replace", "path": "/inputs/body/summary", "value": "put right"}]
    office.server.post(f"/api/v1/dlq/{letter['dlq_id']}/retry", {"patch": patch}).expect(200)
    office.delivered(letter["job_id"])
    assert [(request.key, request.json["summary"]) for request in endpoint.requests] == [
        ("abc-123:complete", "Task completed successfully"), ("abc-123:complete", "put right")]


def test_a_receipt_without_a_target_says_how_it_is_brought_back(office, endpoint):
    entry = {"receipt": receipt(), "failed_at": "2024-01-15T10:30:45Z", "attempts": 5}
    [made] = office.server.post("/api/v1/dlq/import", [entry]).expect(200)["results"]
    office.server.post(f"/api/v1/dlq/{made['dlq_id']}/retry", {"note": "try"})
    letter = wait_until(lambda: (found := office.server.get(f"/api/v1/dlq/{made['dlq_id']}").expect(200))["failure_count"] > 5 and found, "another failure")
    assert "dlq recover" in letter["failure_history"][-1]["error_message"] and not endpoint.requests


# ---- metrics ---------------------------------------------------------------------------------------------------------


def test_the_three_metrics_count_attempts_retries_and_what_is_dead(office, endpoint):
    endpoint.on("late:complete", answer(500), answer(500), answer(200))
    endpoint.on("dead:complete", answer(500))
    endpoint.on("bad:failed", answer(400))
    for lease, status in [("well", "complete"), ("late", "complete"), ("dead", "complete"), ("bad", "failed"), ("half", "running")]:
        office.ended(office.deliver(receipt(lease, status)))
    office.ended(office.deliver({"no": "receipt"}))
    scrape = Scrape(office.server.get("/metrics").text)
    counted = {tuple(sorted(dict(labels).items())): value for (name, labels), value in scrape.samples.items()
               if name == "cognigate_receipts_total" and value}
    assert counted == {(("status", "complete"), ("success", "true")): 2, (("status", "complete"), ("success", "false")): 7,
                       (("status", "failed"), ("success", "false")): 1, (("status", "running"), ("success", "true")): 1}
    assert scrape.value("cognigate_receipt_retries_total") == 6
    assert scrape.value("cognigate_dead_letter_queue_size") == 2
    [dead] = [letter for letter in office.letters() if letter["failure_count"] == 5]
    endpoint.on("dead:complete", answer(200))
    office.server.post(f"/api/v1/dlq/{dead['dlq_id']}/retry").expect(200)
    wait_until(lambda: Scrape(office.server.get("/metrics").text).value("cognigate_dead_letter_queue_size") == 1, "one letter less")
    office.delivered(dead["job_id"])
    assert endpoint.of("dead:complete")[-1].key == "dead:complete"
