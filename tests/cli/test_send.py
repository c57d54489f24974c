"""lazaret send: a receipt is delivered, or in the quarantine and in receipts.json."""

import json
import re
import signal
import stat

import pytest
from conftest import own_only
from sends import check, dead_lettered, endpoint, post, posted, until  # noqa: F401

from endpoint import (DELAYS, SCALED, answer, check_gaps, configuration, cut, endless, free_port, hang, redirect, reset, result, rpc_error,
                      receipt, tool_error)

pytestmark = own_only


def lines(done):
    return check(done).stderr.splitlines()


# ---- delivered -------------------------------------------------------------------------------------------------------


def test_a_receipt_is_delivered(posted, endpoint):
    done = posted.send()
    assert (done.returncode, done.stdout) == (0, "delivered\n"), done
    assert len(lines(done)) == 1
    [request] = endpoint.requests
    assert (request.method, request.path, request.json, request.key) == ("POST", "/receipts", receipt(), "abc-123:complete")
    assert posted.letters() == [] and posted.entries() == []


def test_a_receipt_that_needs_a_second_call_is_delivered(posted, endpoint):
    endpoint.script(answer(503), answer(200))
    done = posted.send()
    assert (done.returncode, done.stdout) == (0, "delivered\n")
    assert len(lines(done)) == 2 and "503" in lines(done)[0]
    check_gaps(endpoint.requests, DELAYS[:1])
    assert len({request.key for request in endpoint.requests}) == 1


def test_for_a_program_there_is_one_object(posted, endpoint):
    endpoint.script(answer(503), answer(200), answer(400))
    done = posted.send(None, "-o", "json")
    said = json.loads(done.stdout)
    assert (done.returncode, said["status"], said["attempts"], "dlq_id" in said) == (0, "delivered", 2, False)
    assert posted.lz.json("audit", "show", "--job-id", said["job_id"])
    done = posted.send(receipt("other"), "-o", "json")
    said = json.loads(done.stdout)
    assert (done.returncode, said["status"], said["attempts"]) == (1, "dead_lettered", 1)
    assert [letter["dlq_id"] for letter in posted.letters()] == [said["dlq_id"]]


def test_a_receipt_is_read_from_standard_input(post, endpoint):
    done = post.lz.run("send", "--to", endpoint.url, "--receipt", "-", input=receipt())
    assert (done.returncode, done.stdout) == (0, "delivered\n"), done
    done = post.lz.run("send", "--to", endpoint.url, input=receipt("b"))
    assert (done.returncode, done.stdout) == (0, "delivered\n"), done
    assert endpoint.bodies() == [receipt(), receipt("b")]


def test_any_address_is_the_callers_own_choice(post, endpoint):
    done = post.lz.run("send", "--to", f"http://localhost:{endpoint.port}/x?y=z", input=receipt())
    assert done.returncode == 0 and endpoint.requests[0].path == "/x?y=z", done


def test_token_and_headers_are_sent(post, endpoint, tmp_path):
    (tmp_path / "token").write_text("from-a-file\n")
    (tmp_path / "token").chmod(0o600)
    assert post.send(receipt("a"), "--token", "sesame").returncode == 0
    assert post.send(receipt("b"), "--token-file", tmp_path / "token", "--header", "X-One: 1", "--header", "X-Two: a: b").returncode == 0
    first, second = (request.headers for request in endpoint.requests)
    assert (first["authorization"], second["authorization"]) == ("Bearer sesame", "Bearer from-a-file")
    assert (second["x-one"], second["x-two"], "x-one" in first) == ("1", "a: b", False)


@pytest.mark.parametrize("header", ["X-One", "X: a\nY: b", ": x", "X Y: z", ""])
def test_a_header_that_is_none_is_refused(post, endpoint, header):
    done = post.send(None, "--header", header)
    assert done.returncode == 2 and done.stderr and not endpoint.requests, done


def test_a_redirect_is_followed_only_when_it_is_asked_for(post, endpoint):
    endpoint.script(redirect("/moved", 307))
    assert post.send(receipt("a")).returncode == 1
    endpoint.script(redirect("/moved", 307), answer(200))
    assert post.send(receipt("b"), "--follow").returncode == 0
    assert [request.path for request in endpoint.requests] == ["/receipts", "/receipts", "/moved"]
    assert endpoint.requests[2].json == receipt("b")


def test_a_redirect_to_another_host_is_never_followed(post, endpoint):
    location = f"http://localhost:{endpoint.port}/moved"
    endpoint.script(redirect(location, 307), answer(200))
    done = post.send(receipt(), "--follow", "--token", "sesame", "--header", "X-Api-Key: open")
    assert done.returncode == 1 and f"redirected to {location}, where it is not sent on" in done.stderr, done
    assert [request.path for request in endpoint.requests] == ["/receipts"]


def test_a_server_beside_it_leaves_the_receipt_to_who_sends_it(post, endpoint, serve, tmp_path):
    """A server that may call the endpoint does not: the job is claimed."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps(configuration(allow=["127.0.0.0/8"])))
    server = serve("--config", config)
    endpoint.script(answer(503), answer(503), answer(200))
    done = post.send()
    assert (done.returncode, done.stdout, len(endpoint.requests)) == (0, "delivered\n", 3), done
    server.stop()


def test_a_token_stands_in_no_file(post, endpoint):
    endpoint.script(answer(401))
    post.dies(receipt(), "--token", "sesame-street", "--header", "X-Key: open-sesame")
    files = [path for path in post.folder.rglob("*") if path.is_file()]
    assert files and not [path for path in files if b"sesame" in path.read_bytes()]


# ---- MCP -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status, tool", [("complete", "asyncgate.complete"), ("running", "asyncgate.report_progress"), ("failed", "asyncgate.fail")])
def test_mcp_calls_the_tool_of_the_status(post, endpoint, status, tool):
    endpoint.script(result())
    done = post.send(receipt(status=status), "--mcp", "--token", "t")
    assert (done.returncode, done.stdout) == (0, "delivered\n"), done
    [request] = endpoint.requests
    assert (request.path, request.json["method"], request.json["params"]["name"]) == ("/receipts/mcp", "tools/call", tool)
    assert request.json["params"]["arguments"]["lease_id"] == "abc-123"
    assert request.headers["authorization"] == "Bearer t"


def test_mcp_takes_a_tool_and_an_address_that_ends_in_mcp(post, endpoint):
    endpoint.script(result())
    done = post.lz.run("send", "--to", f"http://{endpoint.address}/mcp", "--mcp", "--tool", "mine.end", input=receipt())
    assert done.returncode == 0 and endpoint.requests[0].path == "/mcp", done
    assert endpoint.requests[0].json["params"]["name"] == "mine.end"


@pytest.mark.parametrize("step, calls", [(rpc_error("TASK_NOT_FOUND", "no such task"), 1), (rpc_error("RATE_LIMIT_EXCEEDED"), 5),
                                         (tool_error("the tool fell over"), 5)], ids=["client", "rate", "isError"])
def test_an_error_inside_200_is_no_success(post, endpoint, step, calls):
    endpoint.script(step)
    done = post.send(None, "--mcp")
    assert (done.returncode, len(endpoint.requests), len(lines(done))) == (1, calls, calls), done
    assert post.lz.json("dlq", "show", dead_lettered(done))["failure_count"] == calls


# ---- dead-lettered ---------------------------------------------------------------------------------------------------


def test_five_attempts_then_a_dead_letter_and_an_entry_in_the_file(posted, endpoint):
    endpoint.script(*(answer(500 + n) for n in range(5)))
    done = posted.send()
    assert done.returncode == 1
    assert len(lines(done)) == 5 and all(str(500 + n) in line for n, line in enumerate(lines(done)))
    check_gaps(endpoint.requests, DELAYS)
    letter = posted.lz.json("dlq", "show", dead_lettered(done))
    assert (letter["reason"], letter["failure_count"], letter["source"]) == ("retries_exhausted", 5, "receipts")
    assert [attempt["http_status"] for attempt in letter["failure_history"]] == [500, 501, 502, 503, 504]
    posted.lz.offline()
    assert posted.entries() == [{"receipt": receipt(), "failed_at": posted.entries()[0]["failed_at"], "attempts": 5}]


def test_the_file_has_the_seeds_format(post, endpoint):
    endpoint.script(answer(400))
    letter = post.lz.json("dlq", "show", post.dies(receipt()))
    text = post.file.read_text()
    [entry] = json.loads(text)
    assert list(entry) == ["receipt", "failed_at", "attempts"] and list(entry["receipt"]) == list(receipt())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", entry["failed_at"])
    assert entry["failed_at"][:19] == letter["failed_at"][:19] and entry["attempts"] == 1
    assert text.endswith("]\n") and stat.S_IMODE(post.file.stat().st_mode) == 0o600
    assert sorted(path.name for path in post.file.parent.iterdir() if "lock" not in path.name) == ["receipts.json"]


@pytest.mark.parametrize("step, words", [
    (answer(400, {"error": "no such lease"}), "400"), (answer(401), "401"), (answer(404), "404"), (answer(409), "409"),
    (redirect("http://127.0.0.1:9/"), "302")], ids=["400", "401", "404", "409", "302"])
def test_a_refusal_is_not_tried_again(post, endpoint, step, words):
    endpoint.script(step)
    done = post.send()
    assert (done.returncode, len(endpoint.requests)) == (1, 1)
    assert words in lines(done)[0]
    assert post.lz.json("dlq", "show", dead_lettered(done))["reason"] == "not_retryable"


@pytest.mark.parametrize("step, cls", [(reset, "network"), (cut(), "network"), (hang, "timeout")], ids=["reset", "cut", "hang"])
def test_an_answer_that_does_not_come_is_tried_again_with_the_same_key(post, endpoint, step, cls):
    endpoint.script(step)
    letter = post.lz.json("dlq", "show", post.dies(receipt(), "--timeout", "0.5"))
    assert {(attempt["class"], attempt["side_effects"]) for attempt in letter["failure_history"]} == {(cls, "unknown")}
    assert [request.key for request in endpoint.requests] == ["abc-123:complete"] * 5


def test_where_nobody_is_the_receipt_is_dead_lettered_too(post, endpoint):
    endpoint.down()
    letter = post.lz.json("dlq", "show", post.dies(receipt()))
    assert {(attempt["class"], attempt["side_effects"]) for attempt in letter["failure_history"]} == {("network", "none")}
    assert letter["failure_count"] == 5


def test_a_gigabyte_is_not_read(post, endpoint):
    endpoint.script(endless())
    assert post.send().returncode == 0 and endpoint.sent < 1 << 28


def test_retry_after_is_honoured_and_capped(post, endpoint):
    post.lz.ok("policy", "set", "receipts", "-", input={**SCALED, "max_delay_seconds": 1.5})
    endpoint.script(answer(429, headers={"Retry-After": "1"}), answer(429, headers={"Retry-After": "3600"}), answer(200))
    assert post.send().returncode == 0
    check_gaps(endpoint.requests, [1, 1.5])


def test_another_policy_may_be_named(post, endpoint):
    post.lz.ok("policy", "set", "twice", "-", input={**SCALED, "max_attempts": 2})
    endpoint.script(answer(500))
    assert post.lz.json("dlq", "show", post.dies(receipt("b"), "--policy", "twice"))["failure_count"] == 2


def test_the_seeds_own_policy_is_the_default(lz):
    explained = lz.json("policy", "explain", "receipts")
    assert (explained["max_attempts"], explained["delays"], explained["total_seconds"]) == (5, [2, 4, 8, 16], 30)


def test_what_an_endpoint_says_cannot_move_the_cursor(post, endpoint):
    endpoint.script(answer(400, "\x1b[2J\x1b]0;owned\x07 bad \u202e lease", type="text/plain"))
    done = post.send()
    assert done.returncode == 1 and not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", done.stderr)


# ---- the file --------------------------------------------------------------------------------------------------------


def test_the_file_is_never_replaced_by_less_than_it_held(posted, endpoint):
    """An entry that was put there by hand, before anything was known of it, stays and becomes a letter."""
    posted.lz.offline()
    by_hand = {"receipt": receipt("by-hand"), "failed_at": "2024-01-15T10:30:45Z", "attempts": 5}
    posted.file.parent.mkdir(parents=True)
    posted.file.write_text(json.dumps([by_hand]))
    endpoint.script(answer(400))
    posted.dies(receipt("new"))
    until(lambda: len(posted.letters()) == 2, "the entry is a letter")
    said = posted.end_server()
    assert posted.lz.mode == "own" or "dead letters: 1" in said
    assert [entry["receipt"]["lease_id"] for entry in posted.entries()] == ["by-hand", "new"]
    assert posted.entries()[0] == by_hand
    [letter] = [letter for letter in posted.letters() if letter["failed_at"] == "2024-01-15T10:30:45Z"]
    assert (letter["source"], letter["failure_count"]) == ("receipts", 5)


def test_an_entry_that_is_added_beside_others_is_taken_in(post, endpoint):
    endpoint.script(answer(400))
    post.dies(receipt("first"))
    by_hand = {"receipt": receipt("by-hand"), "failed_at": "2024-01-15T10:30:45Z", "attempts": 5}
    post.file.write_text(json.dumps([*post.entries(), by_hand]))
    post.dies(receipt("second"))
    assert sorted(entry["receipt"]["lease_id"] for entry in post.entries()) == ["by-hand", "first", "second"]
    assert len(post.letters()) == 3


@pytest.mark.parametrize("bad", ["1", '{"receipt": 5}', '{"failed_at": "2024-01-15T10:30:45Z"}'])
def test_an_entry_that_is_no_receipt_is_said_and_stays(post, endpoint, bad):
    post.file.parent.mkdir(parents=True)
    post.file.write_text(f"[{bad}]")
    endpoint.script(answer(400))
    done = post.send()
    assert done.returncode == 1 and dead_lettered(done) and "receipts.json" in done.stderr, done
    left, own = json.loads(post.file.read_text())
    assert left == json.loads(bad) and own["receipt"] == receipt()


@pytest.mark.parametrize("content", ["{", "{}", "\xff"])
def test_a_file_that_cannot_be_read_is_left_as_it_is(post, endpoint, content):
    post.file.parent.mkdir(parents=True)
    post.file.write_text(content, encoding="latin-1")
    endpoint.script(answer(400))
    done = post.send()
    assert done.returncode == 1 and dead_lettered(done) and len(post.letters()) == 1
    assert "receipts.json" in done.stderr
    assert post.file.read_text(encoding="latin-1") == content


def test_another_file_may_be_named(post, endpoint, tmp_path):
    endpoint.script(answer(400))
    mine = tmp_path / "mine.json"
    post.dies(receipt(), "--receipts-file", mine)
    assert [entry["receipt"] for entry in json.loads(mine.read_text())] == [receipt()]


def test_receipts_of_one_lease_are_told_apart(post, endpoint):
    endpoint.script(answer(400))
    for status in ("running", "complete", "failed"):
        post.dies(receipt(status=status))
    assert [entry["receipt"]["status"] for entry in post.entries()] == ["running", "complete", "failed"]


# ---- ended early -----------------------------------------------------------------------------------------------------


def test_a_send_that_is_killed_loses_nothing(post, endpoint):
    endpoint.script(hang, answer(200))
    first = post.begin("send", "--to", endpoint.url, "--receipt", post.write(receipt()))
    endpoint.wait_for(1)
    first.kill()
    first.communicate()
    done = post.send()
    assert (done.returncode, done.stdout) == (0, "delivered\n"), done
    assert [request.key for request in endpoint.requests] == ["abc-123:complete"] * 2
    assert post.letters() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_send_that_is_interrupted_says_what_became_of_the_receipt(post, endpoint, number):
    endpoint.script(hang, answer(200))
    first = post.begin("send", "--to", endpoint.url, "--receipt", post.write(receipt()))
    endpoint.wait_for(1)
    first.send_signal(number)
    out, err = first.communicate(timeout=60)
    assert first.returncode not in (0, -number) and err and "delivered" not in out.split(), (out, err)
    done = post.send()
    assert (done.returncode, done.stdout) == (0, "delivered\n"), done


# ---- mistakes --------------------------------------------------------------------------------------------------------


def test_the_likely_mistakes_are_explained(post, endpoint, tmp_path):
    without = receipt()
    del without["lease_id"]
    good = post.write(receipt(), "good.json")
    mistakes = [
        (["--receipt", good], 2, "--to"),
        (["--to", "ftp://example.org/", "--receipt", good], 2, "http"),
        (["--to", "http://", "--receipt", good], 2, "host"),
        (["--to", endpoint.url, "--receipt", post.write("{not json", "bad.json")], 2, "bad.json"),
        (["--to", endpoint.url, "--receipt", post.write("[]", "array.json")], 2, "object"),
        (["--to", endpoint.url, "--receipt", post.write(without, "half.json")], 2, "lease_id"),
        (["--to", endpoint.url, "--receipt", tmp_path / "missing.json"], 2, "missing.json"),
        (["--to", endpoint.url, "--receipt", good, "--policy", "nobody"], 2, "nobody"),
        (["--to", endpoint.url, "--receipt", good, "--timeout", "soon"], 2, "soon"),
        (["--to", endpoint.url, "--receipt", good, "--tool", "t"], 2, "--mcp"),
        (["--to", endpoint.url, "--receipt", good, "--token-file", tmp_path / "nowhere"], 2, "nowhere"),
    ]
    for args, code, words in mistakes:
        done = check(post.lz.run("send", *args))
        assert (done.returncode, done.stdout) == (code, "") and words in done.stderr, (args, done)
        assert done.stderr.count("\n") <= 3, done.stderr
    assert not endpoint.requests and post.letters() == []


def test_a_store_that_cannot_be_reached_is_5(tmp_path, endpoint, post):
    done = post.lz.run("send", "--to", endpoint.url, "--server", f"http://127.0.0.1:{free_port()}", input=receipt())
    assert done.returncode == 5 and not endpoint.requests, done


def test_a_target_of_the_configuration_may_be_named(post, endpoint, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"targets": {"hook": {"url": endpoint.url, "token_env": "HOOK"}}}))
    done = post.lz.run("send", "--to", "hook", "--config", config, input=receipt(), env={"HOOK": "sesame"})
    assert done.returncode == 0 and endpoint.requests[0].headers["authorization"] == "Bearer sesame", done
    done = post.lz.run("send", "--to", "nobody", "--config", config, input=receipt("b"), env={"HOOK": "sesame"})
    assert done.returncode == 2 and "nobody" in done.stderr and len(endpoint.requests) == 1, done
