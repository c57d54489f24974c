"""dlq retry, discard, rollback, escalate, restore, purge, clear: deciding about letters."""

import json

import pytest

from conftest import DENIED, ONCE, TIMEOUT


def states(lz):
    return {letter["job_id"]: letter["state"] for letter in lz.json("dlq", "list", "--state", "all")}


def events(lz, job):
    return [event["what"] for event in lz.json("audit", "show", "--job-id", job)]


def test_a_retried_letter_runs_again_and_comes_back_to_itself(lz):
    letter = lz.dead(job_id="j")
    assert lz.ok("dlq", "retry", letter, "--note", "again") == f"{letter}\tretried\n"
    assert states(lz) == {"j": "recovered"}
    shown = lz.json("dlq", "show", letter)
    assert (shown["recovered"], shown["recovered_by"]) == (True, "human:ada")
    lz.seed(("push", {"action": "x", "job_id": "other", "priority": 9}), ("complete",))
    assert events(lz, "j") == ["pushed", "leased", "dead-lettered", "requeued"]
    requeued = lz.json("audit", "show", "--job-id", "j")[-1]
    assert (requeued["actor"], requeued["why"]["note"]) == ("human:ada", "again")


def test_a_letter_that_is_named_twice_is_answered_each_time(lz):
    letter = lz.dead()
    lz.ok("dlq", "retry", letter)
    assert "already recovered" in lz.fails(4, "dlq", "retry", letter)


def test_several_letters_need_a_yes(lz):
    letters = [lz.dead(), lz.dead()]
    err = lz.fails(4, "dlq", "retry", *letters)
    assert "this would retry 2 dead letters; nothing was changed" in err and "--yes" in err
    assert set(states(lz).values()) == {"dead"}
    assert lz.ok("dlq", "retry", *letters, "--yes").count("retried") == 2


def test_a_run_is_selected_by_its_id(lz):
    for item in "abc":
        lz.dead(run_id="nightly", item_id=item, job_id=f"nightly/{item}")
    lz.dead(job_id="other")
    assert "3 dead letters" in lz.fails(4, "dlq", "retry", "nightly")
    answer = lz.json("dlq", "retry", "nightly", "--yes")
    assert (answer["retried"], answer["failed"], answer["total"]) == (3, 0, 3)
    assert states(lz)["other"] == "dead"


def test_a_group_is_selected_by_its_fingerprint(lz):
    lz.dead(job_id="a"), lz.dead(job_id="b"), lz.dead(DENIED, job_id="c")
    group = next(g for g in lz.json("dlq", "groups") if g["count"] == 2)
    lz.ok("dlq", "retry", "--group", group["fingerprint"], "-y")
    assert states(lz) == {"a": "recovered", "b": "recovered", "c": "dead"}
    assert "no group" in lz.fails(3, "dlq", "retry", "--group", "ffff", "-y")


def test_a_net_leaves_out_what_needs_review_unless_forced(lz):
    lz.dead(job_id="a"), lz.dead(DENIED, job_id="b")
    done = lz.run("dlq", "retry", "--all", "--yes")
    assert done.returncode == 0 and "1 left out" in done.stderr
    assert states(lz) == {"a": "recovered", "b": "dead"}
    assert "--force" in lz.fails(4, "dlq", "retry", "--all", "--yes")
    lz.ok("dlq", "retry", "--all", "--force")
    assert states(lz)["b"] == "recovered"


def test_a_filter_narrows_a_net_and_a_wrong_one_is_refused(lz):
    lz.dead(job_id="a", inputs={"size": 1}), lz.dead(job_id="b", inputs={"size": 9})
    assert "filter" in lz.fails(2, "dlq", "retry", "--all", "--yes", "--filter", "item.size >")
    assert "filter" in lz.fails(2, "dlq", "retry", "--all", "--yes", "--filter", "")
    assert set(states(lz).values()) == {"dead"}
    lz.ok("dlq", "retry", "--all", "--yes", "--filter", "item.size > 5")
    assert states(lz) == {"a": "dead", "b": "recovered"}


@pytest.mark.parametrize("patch", [
    [{"op": "replace", "path": "/inputs/currency", "value": "EUR"}],
    {"inputs": {"currency": "EUR"}},
])
def test_an_envelope_is_edited_before_it_is_retried(lz, tmp_path, patch):
    letter = lz.dead(job_id="j", inputs={"currency": "eur", "n": 7})
    (tmp_path / "patch.json").write_text(json.dumps(patch))
    lz.ok("dlq", "retry", letter, "--patch", tmp_path / "patch.json")
    assert lz.json("dlq", "show", letter)["envelope"]["inputs"] == {"currency": "EUR", "n": 7}


@pytest.mark.parametrize("text, said", [
    ("7", "must be an array (JSON Patch) or an object"), ("{", "--patch"),
    ('[{"op":"remove","path":"/nothing"}]', "patch"), ('{"job_id":"other"}', "job_id"),
    ('{"action":""}', "action")])
def test_a_patch_that_does_not_fit_changes_nothing(lz, text, said):
    letter = lz.dead(job_id="j")
    assert said in lz.fails(2, "dlq", "retry", letter, "--patch", "-", input=text)
    assert states(lz) == {"j": "dead"}


def test_a_retry_may_limit_runs_and_choose_queue_and_policy(lz):
    letter = lz.dead(job_id="j")
    lz.ok("dlq", "retry", letter, "--max-retries", "2", "--queue", "slow", "--policy", "background")
    envelope = lz.json("dlq", "show", letter)["envelope"]
    assert (envelope["queue"], envelope["retry_policy"]) == ("slow", "background")
    assert "--max-retries" in lz.fails(2, "dlq", "retry", letter, "--max-retries", "0")


def test_a_discard_can_be_taken_back(lz):
    letter = lz.dead(job_id="j")
    lz.ok("dlq", "discard", letter, "--note", "cancelled")
    assert states(lz) == {"j": "discarded"}
    assert "restore" in lz.fails(4, "dlq", "retry", letter)
    assert lz.ok("dlq", "restore", letter) == f"{letter}\trestored\n"
    assert states(lz) == {"j": "dead"}


def test_an_escalated_letter_is_left_to_a_person(lz):
    letter = lz.dead(job_id="j")
    assert lz.json("dlq", "escalate", letter) == {"status": "escalated", "dlq_id": letter}
    assert lz.json("dlq", "show", letter)["escalated"] is True
    assert lz.fails(4, "dlq", "retry", "--all")
    assert states(lz) == {"j": "dead"}


def test_a_rollback_runs_the_compensation(lz):
    letter = lz.dead(job_id="j", compensation={"action": "undo_invoice", "queue": "undo"})
    lz.ok("dlq", "rollback", letter)
    assert states(lz) == {"j": "rolled_back"}
    assert [q["depth"]["pending"] for q in lz.json("status")["queues"] if q["name"] == "undo"] == [1]


def test_several_single_actions_give_an_array_and_go_on_after_a_refusal(lz):
    one, two = lz.dead(), lz.dead()
    lz.ok("dlq", "discard", one)
    done = lz.run("dlq", "restore", one, two, "--yes", "-o", "json")
    assert done.returncode == 4 and two in done.stderr
    assert json.loads(done.stdout) == [{"status": "restored", "dlq_id": one}]


def test_an_unknown_letter_among_several_changes_nothing(lz):
    letter = lz.dead(job_id="j")
    assert "no dead letter" in lz.fails(3, "dlq", "discard", letter, "nonesuch", "--yes")
    assert states(lz) == {"j": "dead"}


def test_purge_asks_keeps_what_needs_review_and_leaves_the_evidence(lz):
    lz.dead(job_id="a"), lz.dead(DENIED, job_id="b")
    assert "--yes" in lz.fails(4, "dlq", "purge", "--older-than-days", "0")
    done = lz.run("dlq", "purge", "--older-than-days", "0", "--yes")
    assert (done.returncode, done.stdout) == (0, "1 dead letter removed for good\n")
    assert "1 kept" in done.stderr
    assert states(lz) == {"b": "dead"}
    assert lz.json("dlq", "purge", "--older-than-days", "0", "--force", "-y") == {"purged": 1, "kept": 0}
    assert states(lz) == {}
    assert "purged" in [event["what"] for event in lz.json("audit", "show")]
    lz.ok("audit", "verify")


def test_purge_leaves_what_is_younger(lz):
    lz.dead()
    assert lz.json("dlq", "purge", "--older-than-days", "1", "-y") == {"purged": 0, "kept": 0}


def test_clear_removes_a_run_and_never_what_needs_review(lz):
    lz.dead(run_id="r", item_id="1", job_id="r/1"), lz.dead(DENIED, run_id="r", item_id="2", job_id="r/2")
    lz.dead(job_id="other")
    assert "--yes" in lz.fails(4, "dlq", "clear", "r")
    assert lz.json("dlq", "clear", "r", "-y") == {"purged": 1, "kept": 1}
    assert lz.json("dlq", "clear", "r", "--force", "-y") == {"purged": 1, "kept": 0}
    assert states(lz) == {"other": "dead"}


def test_who_acts_stands_in_the_evidence(lz):
    letter = lz.dead(job_id="j")
    lz.ok("dlq", "discard", letter, "--actor", "human:grace")
    assert lz.json("audit", "show", "--dlq-id", letter)[-1]["actor"] == "human:grace"
