"""dlq recover: the seed's flow chart, from an empty queue to one that is drained in part."""

import json
import re
import threading

import pytest
from conftest import own_only
from sends import Post, check, endpoint, post, posted  # noqa: F401

from endpoint import answer, held, receipt, result, rpc_error

pytestmark = own_only


def entry(lease, status="complete", failed_at="2024-01-15T10:30:45Z", attempts=5):
    return {"receipt": receipt(lease, status), "failed_at": failed_at, "attempts": attempts}


def leases(entries):
    return [(each["receipt"]["lease_id"], each["receipt"]["status"]) for each in entries]


@pytest.fixture
def three(posted, endpoint):
    """Three receipts that died: a, b and c; in each mode."""
    return die(posted, endpoint)


@pytest.fixture
def three_here(post, endpoint):
    """Likewise, in one's own directory."""
    return die(post, endpoint)


def die(posted, endpoint):
    endpoint.script(answer(400))
    for lease in "abc":
        posted.dies(receipt(lease))
    endpoint.script(answer(200))
    endpoint.requests.clear()
    if posted.lz.mode == "server":
        assert posted.lz.run("dlq", "export", posted.queue, "--format", "receipts").returncode == 0
    return posted


def result_line(post, done):
    """The figures of the one line that says how it ended; it says what is left, and where."""
    found = re.fullmatch(r"recovered (\d+), failed (\d+)(?:: (\d+) left in (.*))?\n", done.stdout)
    assert found, done
    recovered, failed, left, file = found.groups()
    assert file in (None, str(post.queue)) and int(left or 0) == len(post.entries(post.queue)), done
    return int(recovered), int(failed)


def open_letters(posted):
    return [letter for letter in posted.letters() if letter["state"] in ("dead", "recovering")]


# ---- the flow chart --------------------------------------------------------------------------------------------------


def test_an_empty_queue_is_nothing_to_recover(posted, endpoint):
    if posted.lz.mode == "server":
        posted.queue.write_text("[]")
    done = posted.recover()
    assert (done.returncode, done.stdout, done.stderr) == (0, "nothing to recover\n", "")
    assert not endpoint.requests and endpoint.connections == 0


def test_all_that_is_dead_is_delivered(three, endpoint):
    done = check(three.recover())
    assert (done.returncode, done.stdout, done.stderr) == (0, "recovered 3, failed 0\n", "")
    assert sorted(request.key for request in endpoint.requests) == ["a:complete", "b:complete", "c:complete"]
    assert [request.json for request in sorted(endpoint.requests, key=lambda request: request.key)] == [receipt(lease) for lease in "abc"]
    assert open_letters(three) == []
    assert three.entries(three.queue) == []
    assert three.recover().stdout == "nothing to recover\n" and len(endpoint.requests) == 3


def test_what_succeeds_leaves_and_what_fails_stays(three, endpoint):
    endpoint.on("b:complete", answer(409, {"error": "the lease is gone"}))
    before = {letter["job_id"] for letter in open_letters(three)}
    done = check(three.recover())
    assert (done.returncode, result_line(three, done)) == (1, (2, 1))
    assert len(done.stderr.splitlines()) == 1 and "b:complete" in done.stderr and "409" in done.stderr
    assert leases(three.entries(three.queue)) == [("b", "complete")]
    [letter] = open_letters(three)
    assert letter["job_id"] in before and letter["redrive_count"] == 1
    assert [attempt["http_status"] for attempt in letter["failure_history"]] == [400, 409]
    endpoint.on("b:complete", answer(200))
    done = three.recover()
    assert (done.returncode, result_line(three, done)) == (0, (1, 0))
    assert three.entries(three.queue) == []


def test_an_endpoint_that_cannot_be_reached_changes_nothing(three, endpoint):
    endpoint.down()
    file, letters = three.queue.read_bytes(), three.letters()
    done = check(three.recover())
    assert (done.returncode, done.stdout) == (5, "") and endpoint.address in done.stderr and "--wait" in done.stderr
    assert (three.queue.read_bytes(), three.letters()) == (file, letters)


def test_with_wait_it_is_waited_for(three, endpoint):
    endpoint.down()
    waiting = three.begin(*three.recovery("--wait"))
    said = waiting.stderr.readline()
    assert endpoint.address in said or "wait" in said, said
    assert waiting.poll() is None
    endpoint.up()
    out, err = waiting.communicate(timeout=120)
    assert (waiting.returncode, out) == (0, "recovered 3, failed 0\n"), (out, err)


def test_a_wait_ends_with_the_program(three_here, endpoint):
    endpoint.down()
    waiting = three_here.begin(*three_here.recovery("--wait"))
    waiting.stderr.readline()
    waiting.terminate()
    waiting.communicate(timeout=60)
    assert waiting.returncode != 0 and len(open_letters(three_here)) == 3


def test_for_a_program_there_is_one_object(three_here, endpoint):
    endpoint.on("b:complete", answer(400))
    done = check(three_here.recover("-o", "json"))
    said = json.loads(done.stdout)
    assert (done.returncode, said["recovered"], said["failed"]) == (1, 2, 1)


def test_recovery_over_mcp(three_here, endpoint):
    endpoint.script(result())
    endpoint.on("b:complete", rpc_error("LEASE_EXPIRED", "too late"))
    done = check(three_here.recover("--mcp", "--token", "sesame", "--parallel", "1"))
    assert (done.returncode, result_line(three_here, done)) == (1, (2, 1))
    assert {request.json["params"]["name"] for request in endpoint.requests} == {"asyncgate.complete"}
    assert {request.headers["authorization"] for request in endpoint.requests} == {"Bearer sesame"}
    assert "LEASE_EXPIRED" in done.stderr or "too late" in done.stderr


def test_a_server_error_is_tried_once_for_each_recovery(three_here, endpoint):
    """An operator stands by: what fails is reported, and tried again when he says so."""
    endpoint.on("b:complete", answer(503))
    done = check(three_here.recover())
    assert (done.returncode, result_line(three_here, done)) == (1, (2, 1))
    assert len(endpoint.of("b:complete")) == 1 and len(open_letters(three_here)) == 1


# ---- files -----------------------------------------------------------------------------------------------------------


def test_an_entry_that_was_added_by_hand_is_recovered(post, endpoint):
    post.file.parent.mkdir(parents=True)
    post.file.write_text(json.dumps([entry("by-hand")]))
    done = check(post.recover())
    assert (done.returncode, done.stdout) == (0, "recovered 1, failed 0\n"), done
    assert endpoint.requests[0].json == receipt("by-hand") and post.entries() == []


def test_a_file_of_ones_own_is_drained(posted, endpoint, tmp_path):
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps([entry("a"), entry("b"), entry("c", attempts=3)]))
    endpoint.on("b:complete", answer(409))
    done = check(posted.recover("--file", mine))
    assert (done.returncode, done.stdout) == (1, f"recovered 2, failed 1: 1 left in {mine}\n"), done
    assert leases(json.loads(mine.read_text())) == [("b", "complete")]
    endpoint.on("b:complete", answer(200))
    done = check(posted.recover("--file", mine))
    assert (done.returncode, done.stdout) == (0, "recovered 1, failed 0\n")
    assert json.loads(mine.read_text()) == []
    assert posted.recover("--file", mine).stdout == "nothing to recover\n"


def test_only_the_entries_of_the_file_are_recovered(three_here, endpoint, tmp_path):
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps([entry("x")]))
    assert three_here.recover("--file", mine).stdout == "recovered 1, failed 0\n"
    assert [request.key for request in endpoint.requests] == ["x:complete"] and len(open_letters(three_here)) == 3


def test_one_entry_of_a_lease_leaves_without_the_others(post, endpoint, tmp_path):
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps([entry("a", "running"), entry("a", "complete"), entry("a", "failed")]))
    endpoint.on("a:complete", answer(400))
    endpoint.on("a:failed", answer(400))
    assert post.recover("--file", mine).stdout == f"recovered 1, failed 2: 2 left in {mine}\n"
    assert leases(json.loads(mine.read_text())) == [("a", "complete"), ("a", "failed")]


def test_equal_entries_are_delivered_once(post, endpoint, tmp_path):
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps([entry("a"), entry("a")]))
    done = post.recover("--file", mine)
    assert done.returncode == 0 and len(endpoint.requests) == 1, done
    assert json.loads(mine.read_text()) == []


@pytest.mark.parametrize("content", ["[]", " [ ]\n", ""])
def test_a_file_without_entries_is_nothing_to_recover(post, endpoint, tmp_path, content):
    mine = tmp_path / "mine.json"
    mine.write_text(content)
    done = post.recover("--file", mine)
    assert (done.returncode, done.stdout, mine.read_text()) == (0, "nothing to recover\n", content)


def test_a_file_that_is_not_there_is_not_found(post, endpoint, tmp_path):
    done = post.recover("--file", tmp_path / "missing.json")
    assert (done.returncode, done.stdout) == (3, "") and "missing.json" in done.stderr, done


def test_a_server_keeps_its_own_file_so_none_has_to_be_named(tmp_path, endpoint):
    post = die(Post(tmp_path, endpoint, "server"), endpoint)
    endpoint.on("b:complete", answer(400))
    done = post.lz.run("dlq", "recover", "--to", endpoint.url)
    assert (done.returncode, done.stdout) == (1, "recovered 2, failed 1: 1 left in the quarantine\n"), done
    assert len(open_letters(post)) == 1


@pytest.mark.parametrize("content", ["{", "{}", "\xff"])
def test_a_file_that_is_broken_is_left_as_it_is(post, endpoint, tmp_path, content):
    mine = tmp_path / "mine.json"
    mine.write_text(content, encoding="latin-1")
    done = check(post.recover("--file", mine))
    assert done.returncode == 2 and "mine.json" in done.stderr and done.stdout == "", done
    assert mine.read_text(encoding="latin-1") == content and not endpoint.requests and post.letters() == []


@pytest.mark.parametrize("bad", ["1", '{"receipt": 5}', '{"receipt": {"lease_id": "l"}}'])
def test_an_entry_that_is_no_receipt_is_said_and_holds_nothing_up(post, endpoint, tmp_path, bad):
    mine = tmp_path / "mine.json"
    mine.write_text(f"[{bad}, {json.dumps(entry('a'))}]")
    done = check(post.recover("--file", mine))
    assert (done.returncode, done.stdout) == (1, f"recovered 1, failed 1: 1 left in {mine}\n"), done
    assert "mine.json" in done.stderr and json.loads(mine.read_text()) == [json.loads(bad)], done
    assert [request.key for request in endpoint.requests] == ["a:complete"]


def test_nothing_is_changed_when_nobody_answers(post, endpoint, tmp_path):
    post.queue.parent.mkdir(parents=True, exist_ok=True)
    by_hand = json.dumps([{**entry("a"), "note": "mine"}, {"receipt": receipt("b")}])
    post.queue.write_text(by_hand)
    endpoint.down()
    done = post.recover()
    assert done.returncode == 5 and "nothing was changed" in done.stderr, done
    assert post.queue.read_text() == by_hand and post.letters() == []


def test_a_receipt_that_was_retried_without_a_server_can_still_be_recovered(post, endpoint):
    endpoint.script(answer(400))
    [letter] = [post.dies(receipt("a"))]
    assert post.lz.run("dlq", "retry", letter, "--yes").returncode == 0
    assert len(open_letters(post)) == 1 and len(post.entries(post.queue)) == 1
    endpoint.script(answer(200))
    done = check(post.recover())
    assert (done.returncode, done.stdout) == (0, "recovered 1, failed 0\n"), done


def test_what_was_purged_does_not_come_back_by_the_file(post, endpoint):
    endpoint.script(answer(400))
    for lease in "ab":
        post.dies(receipt(lease))
    assert post.lz.run("dlq", "purge", "--older-than-days", "0", "--force", "--yes").returncode == 0
    endpoint.script(answer(200))
    endpoint.requests.clear()
    assert post.recover().stdout == "nothing to recover\n" and not endpoint.requests


def test_a_receipt_that_was_sent_over_mcp_is_recovered_over_mcp(post, endpoint):
    endpoint.script(answer(400))
    post.lz.run("send", "--mcp", "--to", endpoint.url, "--receipt", post.write(receipt("a")))
    endpoint.requests.clear()
    endpoint.script(answer(200, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"no"}}'))
    assert post.recover().returncode == 1
    assert endpoint.requests[0].json["method"] == "tools/call"


def test_an_entry_that_fails_keeps_what_stood_in_the_file(post, endpoint, tmp_path):
    mine, whole = tmp_path / "mine.json", entry("a")
    whole["receipt"]["odd"] = {"z": 12345678901234567890, "a": [1.50, "é"]}
    mine.write_text(json.dumps([whole, entry("b")]))
    endpoint.on("a:complete", answer(400))
    assert post.recover("--file", mine).returncode == 1
    [left] = json.loads(mine.read_text())
    assert left["receipt"] == whole["receipt"] and left["attempts"] >= 5


# ---- export and import -----------------------------------------------------------------------------------------------


def test_receipts_go_out_come_in_elsewhere_and_are_recovered_there(three_here, endpoint, tmp_path):
    out = tmp_path / "out.json"
    assert three_here.lz.run("dlq", "export", out, "--format", "receipts").returncode == 0
    exported = json.loads(out.read_text())
    assert sorted(leases(exported)) == [(lease, "complete") for lease in "abc"]
    assert all(list(each) == ["receipt", "failed_at", "attempts"] and each["attempts"] == 1 for each in exported)
    (tmp_path / "elsewhere").mkdir()
    other = Post(tmp_path / "elsewhere", endpoint, "own")
    assert other.lz.json("dlq", "import", out) == {"imported": 3, "known": 0, "failed": 0}
    assert other.lz.json("dlq", "import", out) == {"imported": 0, "known": 3, "failed": 0}
    done = check(other.recover())
    assert (done.returncode, done.stdout) == (0, "recovered 3, failed 0\n"), done
    assert sorted(request.key for request in endpoint.requests) == ["a:complete", "b:complete", "c:complete"]
    assert {json.dumps(request.json) for request in endpoint.requests} == {json.dumps(receipt(lease)) for lease in "abc"}


def test_a_letter_that_is_discarded_leaves_the_file(post, endpoint):
    endpoint.script(answer(400))
    post.dies(receipt("a"))
    letter = post.dies(receipt("b"))
    post.lz.ok("dlq", "discard", letter, "--yes")
    assert result_line(post, post.recover()) == (0, 1)
    assert leases(post.entries()) == [("a", "complete")]


def test_other_letters_are_not_recovered(post, endpoint):
    post.lz.dead()
    assert post.recover().stdout == "nothing to recover\n" and not endpoint.requests


def test_two_recoveries_at_once_deliver_each_receipt_once(three, endpoint):
    gate = threading.Event()
    endpoint.script(held(gate, answer(200)))
    first = three.begin(*three.recovery())
    endpoint.wait_for(3)
    second = three.begin(*three.recovery())
    gate.set()
    out, err = first.communicate(timeout=120)
    assert (first.returncode, out) == (0, "recovered 3, failed 0\n"), (out, err)
    out, err = second.communicate(timeout=120)
    assert (second.returncode, err) == (0, "") and out in ("recovered 3, failed 0\n", "nothing to recover\n"), (out, err)
    assert len(endpoint.requests) == 3 and open_letters(three) == []


def test_what_a_killed_recovery_left_is_taken_up_at_once(three, endpoint):
    gate = threading.Event()
    endpoint.script(held(gate, answer(200)))
    first = three.begin(*three.recovery())
    endpoint.wait_for(3)
    first.kill()
    first.communicate()
    gate.set()
    done = check(three.recover())
    assert (done.returncode, done.stdout) == (0, "recovered 3, failed 0\n"), done
    assert sorted(request.key for request in endpoint.requests) == sorted(["a:complete", "b:complete", "c:complete"] * 2)
    assert open_letters(three) == []


def test_an_endpoint_that_goes_away_in_the_middle_leaves_the_rest_as_it_was(post, endpoint, tmp_path):
    mine, count = tmp_path / "mine.json", 250
    mine.write_text(json.dumps([entry(f"lease-{n}") for n in range(count)]))

    def go_away(line, request):
        if request.number == 49:
            endpoint.down()
            endpoint.drop()
        return request.number < 49 and answer(200)(line, request)

    endpoint.script(go_away)
    done = check(post.recover("--file", mine, "--parallel", "1"))
    assert done.returncode == 5 and endpoint.address in done.stderr, done
    delivered = {request.json["lease_id"] for request in endpoint.requests[:49]}
    assert {each["receipt"]["lease_id"] for each in json.loads(mine.read_text())} == {f"lease-{n}" for n in range(count)} - delivered
    letters = post.letters("--limit", "1000")
    untouched = [letter for letter in letters if letter["redrive_count"] == 0]
    assert len(letters) == count - 49 and len(untouched) >= 199
    endpoint.up()
    endpoint.script(answer(200))
    done = check(post.recover("--file", mine))
    assert (done.returncode, done.stdout) == (0, f"recovered {count - 49}, failed 0\n"), done
    assert json.loads(mine.read_text()) == []


# ---- mistakes --------------------------------------------------------------------------------------------------------


def test_the_likely_mistakes_are_explained(post, endpoint):
    for args, code, words in [
        ([], 2, "--to"), (["--to", "ftp://x/"], 2, "http"), (["--to", endpoint.url, "--parallel", "0"], 2, "parallel"),
        (["--to", endpoint.url, "--tool", "t"], 2, "--mcp"), (["--to", endpoint.url, "extra"], 2, "extra")]:
        done = check(post.lz.run("dlq", "recover", *args))
        assert (done.returncode, done.stdout) == (code, "") and words in done.stderr, (args, done)
