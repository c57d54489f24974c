"""The swarm's dead letters, as a client that was written against the original sees them (INTERFACES 5.1).

A letter of the swarm comes in as it was published; those that are to be replayed here are letters of Lazaret's own jobs,
as no NATS server is connected.
"""

import datetime
import json

import pytest
from conftest import DENIED, TWICE

BASE = "/api/v1/dlq"
FIELDS = ["dlq_id", "original_subject", "original_payload", "reason", "reason_detail", "failed_at", "retry_count", "max_retries",
          "retry_history", "source", "recoverable", "recovered", "recovered_at", "recovered_by"]
HISTORY = [{"attempt": 1, "attempted_at": "2026-02-13T06:20:00Z", "agent": "scout", "failure_reason": "no answer"},
           {"attempt": 2, "attempted_at": "2026-02-13T06:21:00Z", "agent": "lily", "failure_reason": "busy"}]


def ago(**span):
    return (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(**span)).isoformat().replace("+00:00", "Z")


def entry(dlq_id, minutes=0, **more):
    """A letter as the swarm publishes it, `minutes` old."""
    return {"dlq_id": dlq_id, "original_subject": "swarm.task.request", "original_payload": {"task_id": dlq_id},
            "reason": "no_capable_agent", "reason_detail": "No agent with capabilities [research]", "failed_at": ago(minutes=minutes),
            "retry_count": 3, "max_retries": 3, "retry_history": HISTORY, "source": "dispatch", "recoverable": True,
            "recovered": False, **more}


def publish(server, *entries):
    taken = server.post(BASE + "/import", list(entries)).expect(200)
    assert (taken["imported"], taken["failed"]) == (len(entries), 0), taken


def ids(answer):
    return [letter["dlq_id"] for letter in answer.expect(200)]


# ---- list ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [BASE, BASE + "/"])
def test_an_empty_list_is_an_empty_array(server, path):
    answer = server.get(path)
    assert (answer.status, answer.body) == (200, b"[]\n")
    assert answer.headers.get_content_type() == "application/json"
    assert answer.cursor is None


def test_the_newest_failure_comes_first_whatever_order_they_came_in(server):
    publish(server, entry("b", 2), entry("d", 4), entry("a", 1), entry("c", 3))
    assert ids(server.get(BASE)) == ids(server.get(BASE + "/")) == ["a", "b", "c", "d"]
    assert ids(server.get(BASE + "?sort=oldest")) == ["d", "c", "b", "a"]


def test_filters_by_recovered_reason_and_source(server):
    publish(server, entry("a", 1), entry("b", 2, reason="boot_failure", source="warren"),
            entry("c", 3, recovered=True, recovered_at=ago(minutes=1), recovered_by="auto-scanner"),
            entry("d", 4, reason="agent_crashed"))
    assert ids(server.get(BASE + "?recovered=false")) == ["a", "b", "d"]
    assert ids(server.get(BASE + "?recovered=true")) == ["c"]
    assert ids(server.get(BASE + "?reason=boot_failure")) == ["b"]
    assert ids(server.get(BASE + "?source=dispatch")) == ["a", "c", "d"]
    assert ids(server.get(BASE + "?recovered=false&reason=agent_crashed&source=dispatch")) == ["d"]
    assert ids(server.get(BASE + "?reason=none_has_this")) == []


def test_a_limit_cuts_the_list_and_a_cursor_goes_on(server):
    publish(server, *(entry(f"e{n:03}", n) for n in range(120)))
    everything = [f"e{n:03}" for n in range(120)]
    assert ids(server.get(BASE)) == everything[:50]
    assert ids(server.get(BASE + "?limit=1")) == everything[:1]
    whole = server.get(BASE + "?limit=1000")
    assert ids(whole) == everything and whole.cursor is None
    seen, cursor = [], ""
    while cursor is not None:
        page = server.get(f"{BASE}?limit=50&cursor={cursor}")
        seen += ids(page)
        cursor = page.cursor
    assert seen == everything


@pytest.mark.parametrize("query", ["limit=0", "limit=-1", "limit=1001", "limit=x", "limit=1.5", "recovered=perhaps", "sort=sideways",
                                   "after=yesterday", "cursor=x", "resaon=no_capable_agent", "reason=a&reason=b", "reason=%zz"])
def test_a_bad_query_is_400_and_says_what_is_wrong(server, query):
    problem = server.get(f"{BASE}?{query}").expect(400)
    assert problem["code"] == "invalid"
    assert query.split("=")[0] in problem["error"] or "%" in problem["error"]


# ---- one letter ----------------------------------------------------------------------------------


def test_an_entry_is_given_back_field_by_field_in_the_swarms_order(server):
    sent = entry("one", 5)
    publish(server, sent)
    letter = server.get(BASE + "/one").expect(200)
    assert [key for key in letter if key in FIELDS] == [key for key in FIELDS if key not in ("recovered_at", "recovered_by")]
    assert list(letter)[:12] == [key for key in FIELDS if key not in ("recovered_at", "recovered_by")]
    for key in ["dlq_id", "original_subject", "original_payload", "reason", "reason_detail", "retry_count", "max_retries", "source",
                "recoverable", "recovered"]:
        assert letter[key] == sent[key], key
    assert [list(attempt) for attempt in letter["retry_history"]] == [["attempt", "attempted_at", "agent", "failure_reason"]] * 2
    assert [(a["attempt"], a["agent"], a["failure_reason"]) for a in letter["retry_history"]] == [(1, "scout", "no answer"), (2, "lily", "busy")]
    assert letter["retry_history"][0]["attempted_at"].startswith("2026-02-13T06:20:00")
    assert [whole for whole in server.get(BASE).json if whole["dlq_id"] == "one"] == [letter]


def test_what_is_empty_is_left_out_and_a_history_is_never_null(server):
    publish(server, entry("bare", 1, reason_detail="", retry_history=None))
    letter = server.get(BASE + "/bare").expect(200)
    assert not {"reason_detail", "recovered_at", "recovered_by"} & set(letter)
    assert letter["retry_history"] == []


def test_a_payload_comes_back_byte_for_byte(server):
    payload = '{"z":1.50,  "a":[1e3, "\\u00e9"],"big":12345678901234567890}'
    sent = json.dumps(entry("bytes")).replace(json.dumps({"task_id": "bytes"}), payload)
    assert server.post(BASE + "/import", sent).expect(200)["imported"] == 1
    assert f'"original_payload":{payload},' in server.get(BASE + "/bytes").text


@pytest.mark.parametrize("method,path", [("GET", ""), ("POST", "/retry"), ("POST", "/discard"), ("POST", "/rollback"),
                                         ("POST", "/escalate"), ("POST", "/restore")])
def test_a_letter_that_is_not_there_is_404_with_the_swarms_sentence(server, method, path):
    answer = server.request(method, f"{BASE}/00000000-0000-0000-0000-000000000000{path}")
    assert (answer.status, answer.body) == (404, b'{"error":"dlq entry not found","code":"not_found"}\n')


# ---- stats ---------------------------------------------------------------------------------------


def test_stats_of_nothing_have_their_shape(server):
    assert server.get(BASE + "/stats").expect(200) == {
        "total": 0, "unrecovered": 0, "recoverable": 0, "by_reason": {}, "by_source": {}, "discarded": 0,
        "by_state": {"dead": 0, "recovering": 0, "recovered": 0, "discarded": 0, "rolled_back": 0}, "by_queue": {},
        "oldest": None, "newest": None}


def test_stats_count_the_unrecovered_by_reason_and_source(server):
    publish(server, entry("a"), entry("b", reason="boot_failure", source="warren", recoverable=False), entry("c"),
            entry("d", recovered=True), entry("e", source="warren"))
    server.post(BASE + "/e/discard").expect(200)
    stats = server.get(BASE + "/stats").expect(200)
    assert list(stats)[:5] == ["total", "unrecovered", "recoverable", "by_reason", "by_source"]
    assert (stats["total"], stats["unrecovered"], stats["recoverable"], stats["discarded"]) == (5, 3, 2, 1)
    assert stats["by_reason"] == {"boot_failure": 1, "no_capable_agent": 2}
    assert stats["by_source"] == {"dispatch": 2, "warren": 1}


# ---- retry and discard ---------------------------------------------------------------------------


def test_a_retry_makes_the_job_live_again_and_the_letter_recovered(server):
    letter = server.dead()
    answer = server.post(f"{BASE}/{letter}/retry")
    assert (answer.status, answer.body) == (200, f'{{"status":"retried","dlq_id":"{letter}"}}\n'.encode())
    after = server.get(f"{BASE}/{letter}").expect(200)
    assert (after["recovered"], after["recovered_by"], after["state"]) == (True, "api-retry", "recovered")
    assert after["recovered_at"] and list(after)[:14] == FIELDS
    [lease] = server.lease("default")
    assert lease["job_id"] == after["job_id"] and lease["attempt"] == 2


def test_a_second_retry_is_409_already_recovered(server):
    letter = server.dead()
    server.post(f"{BASE}/{letter}/retry").expect(200)
    answer = server.post(f"{BASE}/{letter}/retry")
    assert (answer.status, answer.body) == (409, b'{"error":"already recovered","code":"conflict"}\n')
    assert server.post(f"{BASE}/{letter}/discard").expect(409)["error"] == "already recovered"


def test_a_retry_that_cannot_be_published_is_502_and_the_letter_stays_dead(server):
    publish(server, entry("foreign"))
    answer = server.post(BASE + "/foreign/retry")
    assert (answer.status, answer.json["error"]) == (502, "failed to republish")
    letter = server.get(BASE + "/foreign").expect(200)
    assert (letter["state"], letter["recovered"]) == ("dead", False)


def test_the_actor_of_a_retry_stands_in_recovered_by(server):
    letter = server.dead()
    server.post(f"{BASE}/{letter}/retry", {"actor": "human:ada", "note": "the gateway is back"}).expect(200)
    assert server.get(f"{BASE}/{letter}").json["recovered_by"] == "human:ada"


def test_a_discard_is_a_state_of_its_own_and_can_be_taken_back(server):
    letter = server.dead()
    answer = server.post(f"{BASE}/{letter}/discard")
    assert (answer.status, answer.body) == (200, f'{{"status":"discarded","dlq_id":"{letter}"}}\n'.encode())
    after = server.get(f"{BASE}/{letter}").expect(200)
    assert (after["state"], after["recovered"]) == ("discarded", False)
    assert "restore it first" in server.post(f"{BASE}/{letter}/retry").expect(409)["error"]
    assert server.post(f"{BASE}/{letter}/discard").expect(409)["error"] == "already discarded"
    assert server.post(f"{BASE}/{letter}/restore").expect(200) == {"status": "restored", "dlq_id": letter}
    assert server.post(f"{BASE}/{letter}/retry").expect(200)["status"] == "retried"


def test_a_letter_that_dies_again_is_dead_again(server):
    letter = server.dead()
    server.post(f"{BASE}/{letter}/retry").expect(200)
    [lease] = server.lease("default")
    assert server.fail(lease)["dlq_id"] == letter
    after = server.get(f"{BASE}/{letter}").expect(200)
    assert (after["state"], after["recovered"], after["redrive_count"], len(after["retry_history"])) == ("dead", False, 1, 2)


# ---- retry-all -----------------------------------------------------------------------------------


def test_retry_all_of_nothing(server):
    answer = server.post(BASE + "/retry-all")
    assert (answer.status, answer.body) == (200, b'{"retried":0,"failed":0,"total":0}\n')


def test_retry_all_takes_the_recoverable_of_a_day_oldest_first_and_counts_the_rest(server):
    good = [server.dead(job_id=f"job-{n}") for n in range(3)]
    server.dead(DENIED)
    discarded = server.dead()
    server.post(f"{BASE}/{discarded}/discard").expect(200)
    publish(server, entry("foreign", 1), entry("hopeless", 2, recoverable=False), entry("ancient", 60 * 25))
    assert server.post(BASE + "/retry-all").expect(200) == {"retried": 3, "failed": 1, "total": 4}
    assert [lease["job_id"] for lease in server.lease("default", count=9)] == ["job-0", "job-1", "job-2"]
    for letter in good:
        assert server.get(f"{BASE}/{letter}").json["recovered_by"] == "api-retry-all"
    assert ids(server.get(BASE + "?state=dead&source=dispatch")) == ["foreign", "hopeless", "ancient"]


def test_retry_all_counts_again_what_failed_before(server):
    publish(server, entry("a"), entry("b"))
    for _ in range(2):
        assert server.post(BASE + "/retry-all").expect(200) == {"retried": 0, "failed": 2, "total": 2}


# ---- the life of a job, as the swarm has it ------------------------------------------------------


def test_the_attempts_of_a_job_are_its_retry_history(server):
    server.push(queue="q", retry_policy=TWICE, original_subject="swarm.task.request", source="dispatch")
    for message in ["first", "second"]:
        [lease] = server.lease("q", wait_ms=60000)
        said = server.fail(lease, {"class": "timeout", "message": message, "agent_id": "scout", "reason": "timeout_in_progress"})
    letter = server.get(f"{BASE}/{said['dlq_id']}").expect(200)
    assert (letter["original_subject"], letter["source"], letter["reason"]) == ("swarm.task.request", "dispatch", "timeout_in_progress")
    assert (letter["retry_count"], letter["max_retries"], letter["recoverable"]) == (2, 2, True)
    assert [(a["attempt"], a["agent"], a["failure_reason"]) for a in letter["retry_history"]] == [(1, "scout", "first"), (2, "scout", "second")]


def test_the_same_entry_twice_is_stored_once(server):
    publish(server, entry("twice"))
    again = server.post(BASE + "/import", [entry("twice")]).expect(200)
    assert (again["imported"], again["known"]) == (0, 1)
    assert ids(server.get(BASE)) == ["twice"]


@pytest.mark.parametrize("method,path,allowed", [("DELETE", BASE, "GET"), ("POST", BASE, "GET"), ("GET", BASE + "/retry-all", None),
                                                 ("PUT", BASE + "/x/retry", "POST"), ("POST", BASE + "/stats", "GET")])
def test_a_wrong_method_is_405(server, method, path, allowed):
    answer = server.request(method, path)
    if allowed is None:  # "retry-all" is also a name that a letter could have
        assert (answer.status, answer.json["error"]) == (404, "dlq entry not found")
        return
    assert answer.status == 405 and allowed in answer.headers["Allow"].split(", ")
    assert answer.json["code"] == "method_not_allowed"


def test_letters_survive_a_kill(server):
    publish(server, entry("a", 1), entry("b", 2))
    letter = server.dead()
    server.post(f"{BASE}/{letter}/retry").expect(200)
    server.restart(hard=True)
    assert ids(server.get(BASE + "?recovered=false")) == ["a", "b"]
    assert ids(server.get(BASE + "?recovered=true")) == [letter]


# ---- groups --------------------------------------------------------------------------------------


def group_of(server, letter):
    return server.get(f"{BASE}/{letter}").expect(200)["fingerprint"]


def test_letters_with_one_cause_are_one_group(server):
    letters = [server.dead({"class": "timeout", "message": f"gateway {n} timed out after {n} s"}) for n in range(3)]
    other = server.dead({"class": "network", "message": "connection refused"})
    fingerprint = group_of(server, letters[0])
    assert {group_of(server, letter) for letter in letters} == {fingerprint} != {group_of(server, other)}
    group = server.get(f"{BASE}/groups/{fingerprint}").expect(200)
    assert list(group)[:8] == ["fingerprint", "signature", "count", "first_seen", "last_seen", "sample_ids", "status", "trend"]
    assert (group["count"], group["status"], sum(group["trend"])) == (3, "open", 3) and set(group["sample_ids"]) <= set(letters)
    assert [entry["count"] for entry in server.get(BASE + "/groups").expect(200)] == [1, 3]
    assert server.get(BASE + "/groups/nothing").expect(404) == {"error": 'no group "nothing"', "code": "not_found"}


def test_a_group_is_retried_and_discarded_as_a_whole_and_nothing_else_is(server):
    letters = [server.dead(job_id=f"job-{n}") for n in range(3)]
    other = server.dead({"class": "network", "message": "connection refused"})
    fingerprint = group_of(server, letters[0])
    said = server.post(f"{BASE}/groups/{fingerprint}/retry").expect(200)
    assert (said["retried"], said["failed"], said["skipped"], said["total"]) == (3, 0, 0, 3)
    assert [entry["dlq_id"] for entry in said["results"]] == letters
    for lease in server.lease("default", count=3):
        server.fail(lease)
    said = server.post(f"{BASE}/groups/{fingerprint}/discard").expect(200)
    assert (said["discarded"], said["total"]) == (3, 3)
    assert ids(server.get(BASE + "?state=dead")) == [other]
    assert server.get(f"{BASE}/groups/{fingerprint}").json["count"] == 0
    assert [entry["fingerprint"] for entry in server.get(BASE + "/groups").json] == [group_of(server, other)]


def test_a_retry_of_a_group_leaves_out_what_needs_review_unless_it_is_forced(server):
    letter = server.dead(DENIED)
    fingerprint = group_of(server, letter)
    said = server.post(f"{BASE}/groups/{fingerprint}/retry").expect(200)
    assert (said["retried"], said["skipped"], said["results"]) == (0, 1, [{"dlq_id": letter, "status": "skipped"}])
    assert server.post(f"{BASE}/groups/{fingerprint}/retry", {"force": True}).expect(200)["retried"] == 1


@pytest.mark.parametrize("action,status", [("resolve", "resolved"), ("ignore", "ignored"), ("reopen", "open")])
def test_a_group_is_marked_and_the_event_says_by_whom_and_why(server, action, status):
    fingerprint = group_of(server, server.dead())
    said = server.post(f"{BASE}/groups/{fingerprint}/{action}", {"actor": "ada", "note": "see ticket 7"}).expect(200)
    assert said == {"status": status, "fingerprint": fingerprint}
    assert server.get(f"{BASE}/groups/{fingerprint}").json["status"] == status
    event = server.get("/api/v1/audit?limit=1000").json[-1]
    assert (event["what"], event["actor"]) == ("group-set", "ada")
    assert event["why"] == {"fingerprint": fingerprint, "status": status, "note": "see ticket 7"}
