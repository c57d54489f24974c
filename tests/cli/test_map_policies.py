"""What follows a failed item: on_item_failure, limits on failures, retry policies."""

import json

import pytest
from map_runs import count, maps, sh

FAIL = sh('echo "$1" >> "$LOG"; echo "no good" >&2; exit 1')


def by_item(maps, run="r"):
    """For each item of a run: what was decided about it, from the audit trail."""
    decided = {}
    for event in maps.lz.json("audit", "show", "--limit", "1000"):
        if event["job_id"] and event["job_id"].startswith(f"{run}/"):
            decided.setdefault(event["job_id"][len(run) + 1:], []).append(event)
    return decided


# ---- on_item_failure -------------------------------------------------------------------------------------------------

def test_dlq_quarantines_and_goes_on(maps):
    events = maps.map("--input", maps.lines(*range(5)), "--retry", "1", *sh("test $1 != 2"))
    assert (events[-1]["done"], events[-1]["quarantined"]) == (4, 1) and maps.letter()["state"] == "dead"


def test_retry_tries_again_at_once_and_then_quarantines(maps):
    events = maps.map("--input", maps.json([{"id": "a"}]), "--id-field", "id", "--job-id", "r", "--on-item-failure", "retry", "--retry", "4", *FAIL)
    assert count(events, "started") == 4 and events[-1]["quarantined"] == 1
    scheduled = [event["why"] for event in by_item(maps)["a"] if event["what"] == "retry-scheduled"]
    assert [why["delay_seconds"] for why in scheduled] == [0, 0, 0]
    assert [failure["decision"]["action"] for failure in maps.letter()["failure_history"]] == ["retry"] * 3 + ["quarantine"]


def test_retry_without_a_number_allows_the_policys_runs(maps):
    events = maps.map("--input", maps.lines("a"), "--on-item-failure", "retry", *FAIL)
    assert count(events, "started") == 3
    events = maps.map("--input", maps.lines("a"), "--on-item-failure", "retry", "--policy", maps.policy(max_attempts=2), *FAIL)
    assert count(events, "started") == 2


def test_skip_gives_an_item_up_and_it_can_be_restored(maps):
    said = '{"message":"not yours","class":"permission_denied"}'
    events = maps.map("--input", maps.lines("a", "b", "c"), "--job-id", "r", "--retry", "1", "--on-item-failure", "skip",
                      *sh(f'test "$1" != b || exit 1; test "$1" != c || {{ echo \'{said}\' >&3; exit 1; }}'))
    assert (events[-1]["done"], events[-1]["skipped"], events[-1]["quarantined"]) == (1, 2, 0)
    assert count(events, "skipped") == 2
    letters = maps.letters()
    assert {name: letter["state"] for name, letter in letters.items()} == {"b": "discarded", "c": "discarded"}
    assert maps.lz.json("dlq", "list") == []
    maps.lz.ok("dlq", "restore", letters["b"]["dlq_id"])
    assert maps.letters()["b"]["state"] == "dead"
    done = maps.run("--input", maps.lines("b"), "--job-id", "s", "--retry", "1", "--on-item-failure", "skip", *sh("exit 1"))
    assert done.returncode == 0 and "1 skipped" in done.stdout


def test_skip_leaves_letters_of_other_runs_alone(maps):
    maps.map("--input", maps.lines("a"), "--job-id", "other", "--retry", "1", *FAIL)
    maps.map("--input", maps.lines("b"), "--job-id", "r", "--retry", "1", "--on-item-failure", "skip", *FAIL)
    assert {name: letter["state"] for name, letter in maps.letters().items()} == {"a": "dead", "b": "discarded"}


def test_stop_halts_the_run_and_a_resume_goes_on(maps):
    done = maps.run("--input", maps.lines(*range(10)), "--job-id", "r", "--retry", "1", "--parallel", "1", "--on-item-failure", "stop",
                    *sh('echo "$1" >> "$LOG"; test "$1" != 3'))
    assert done.returncode == 1 and "Stopped: " in done.stdout and "lazaret map --resume --job-id r" in done.stdout, done
    assert maps.log() == ["0", "1", "2", "3"]
    states = maps.states()
    assert (states["done"], states["dead"], states["pending"], states["running"]) == (3, 1, 6, 0)
    events = maps.map("--resume", "--job-id", "r")
    assert maps.log() == [str(n) for n in range(10)]
    assert (events[-1]["done"], events[-1]["left"]) == (6, 0)


def test_stop_lets_what_runs_finish(maps):
    script = 'test "$1" != b || { until test -e a; do sleep 0.01; done; exit 1; }; : > a; sleep 0.3; echo "$1" >> "$LOG"'
    events = maps.map("--input", maps.lines("a", "b", "c", "d"), "--job-id", "r", "--retry", "1", "--parallel", "2", "--on-item-failure", "stop", *sh(script), code=1)
    assert maps.log() == ["a"] and (events[-1]["done"], events[-1]["quarantined"]) == (1, 1)
    assert maps.states()["pending"] == 2


@pytest.mark.parametrize("code, outcome, runs", [(0, "handled", 1), (75, "quarantined", 3), (1, "quarantined", 1), (70, "quarantined", 1)])
def test_a_custom_handler_decides_by_its_exit_code(maps, code, outcome, runs):
    events = maps.map("--input", maps.lines("x"), "--policy", maps.policy(), "--on-item-failure", "custom", "--custom", f"cat > heard; exit {code}",
                      *sh("echo 'out of ink' >&2; exit 7"))
    assert count(events, outcome) == 1 and count(events, "started") == runs and events[-1][outcome] == 1
    heard = json.loads((maps.folder / "heard").read_text())
    assert heard["message"] == "out of ink" and heard["error_type"] == {"CommandFailed": {"exit_code": 7}}
    letters = maps.letters()
    assert len(letters) == (outcome == "quarantined")
    if letters:
        assert letters["x"]["failure_count"] == runs


def test_a_custom_handler_knows_the_item_and_may_be_of_the_shell(maps):
    maps.map("--input", maps.lines("a b"), "--job-id", "r", "--on-item-failure", "custom",
             "--custom", 'echo "$LAZARET_ITEM $LAZARET_ATTEMPT $LAZARET_JOB_ID" >> "$LOG" && true', *sh("exit 1"))
    assert maps.log() == ["a b 1 r"]


def test_a_custom_handler_that_hangs_or_dies_quarantines(maps):
    events = maps.map("--input", maps.lines("x"), "--policy", maps.policy(), "--timeout", "300ms", "--grace", "100ms", "--on-item-failure", "custom",
                      "--custom", "sleep 600", *sh("exit 1"))
    assert count(events, "started") == 1 and events[-1]["quarantined"] == 1
    events = maps.map("--input", maps.lines("x"), "--policy", "quick", "--on-item-failure", "custom", "--custom", "kill -9 $$", *sh("exit 1"))
    assert count(events, "started") == 1 and events[-1]["quarantined"] == 1


# ---- limits ----------------------------------------------------------------------------------------------------------

def test_a_run_stops_at_so_many_failures(maps):
    done = maps.run("--input", maps.lines(*range(20)), "--job-id", "r", "--retry", "1", "--parallel", "1", "--max-failures", "3", *FAIL)
    assert done.returncode == 1 and "3 items failed: max_failures is 3" in done.stdout
    assert maps.log() == ["0", "1", "2"] and maps.states()["pending"] == 17


def test_a_share_of_failures_means_nothing_before_ten_items(maps):
    lines = maps.lines(*range(30))
    done = maps.run("--input", lines, "--retry", "1", "--parallel", "1", "--failure-threshold", "0.2", *FAIL)
    assert done.returncode == 1 and "10 of 10 items failed: failure_threshold is 0.2" in done.stdout
    assert maps.log() == [str(n) for n in range(10)]


def test_a_share_that_is_not_exceeded_stops_nothing(maps):
    events = maps.map("--input", maps.lines(*range(20)), "--retry", "1", "--parallel", "1", "--failure-threshold", "0.2", *sh("test $(($1 % 5)) != 4"))
    assert (events[-1]["done"], events[-1]["quarantined"]) == (16, 4)


def test_items_that_succeed_after_a_retry_are_no_failures(maps):
    events = maps.map("--input", maps.lines(*range(4)), "--policy", maps.policy(), "--max-failures", "1", *sh("test $LAZARET_ATTEMPT = 2"))
    assert (events[-1]["done"], events[-1]["failed_attempts"]) == (4, 4)


# ---- policies --------------------------------------------------------------------------------------------------------

def test_a_named_policy_is_in_force_and_named_in_the_record(maps):
    maps.map("--input", maps.lines("x"), "--policy", maps.policy("gentle", max_attempts=2), *FAIL)
    decisions = [failure["decision"] for failure in maps.letter()["failure_history"]]
    assert [decision["action"] for decision in decisions] == ["retry", "quarantine"]
    assert all(decision["policy"].startswith("gentle") for decision in decisions)
    assert decisions[0]["delay_seconds"] == 0.02


def test_so_many_runs_in_all_are_allowed(maps):
    events = maps.map("--input", maps.lines("x"), "--retry", "2", *FAIL)
    assert count(events, "started") == 2 and maps.letter()["failure_count"] == 2


def test_others_go_on_while_one_waits_for_its_retry(maps):
    maps.policy("slow", max_attempts=2, initial_delay_seconds=0.4)
    maps.map("--input", maps.lines(*range(6)), "--policy", "slow", "--parallel", "1", *sh('echo "$1" >> "$LOG"; test "$1" != 0 -o $LAZARET_ATTEMPT = 2'))
    assert maps.log() == ["0", "1", "2", "3", "4", "5", "0"]


def test_an_item_that_may_not_be_retried_is_quarantined_at_once(maps):
    maps.policy("strict", never_retry=["CommandFailed"])
    events = maps.map("--input", maps.lines("x"), "--policy", "strict", *FAIL)
    assert count(events, "started") == 1 and events[-1]["quarantined"] == 1
