"""audit: the evidence and whether it is whole."""

import json
import sqlite3

import pytest


def test_events_are_shown_in_order_with_who_and_why(lz):
    lz.dead(job_id="j")
    rows = [line.split("\t") for line in lz.ok("audit", "show").splitlines()]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert [row[3] for row in rows] == ["pushed", "leased", "dead-lettered"]
    assert {row[2] for row in rows} == {"worker:seed"} and {row[4] for row in rows} == {"j"}
    assert json.loads(rows[2][5])["rule"] == "attempts_exhausted"


def test_events_are_chosen_by_job_letter_and_number(lz):
    letter = lz.dead(job_id="a")
    lz.dead(job_id="b")
    assert [e["seq"] for e in lz.json("audit", "show", "--job-id", "a")] == [1, 2, 3]
    assert [e["seq"] for e in lz.json("audit", "show", "--dlq-id", letter)] == [1, 2, 3]
    assert [e["seq"] for e in lz.json("audit", "show", "--after", "4")] == [5, 6]
    assert [e["seq"] for e in lz.json("audit", "show", "--limit", "2")] == [1, 2]
    assert lz.json("audit", "show", "--after", "99") == []
    assert "no job" in lz.fails(3, "audit", "show", "--job-id", "none")
    assert "no dead letter" in lz.fails(3, "audit", "show", "--dlq-id", "none")


def test_a_whole_chain_verifies(lz):
    lz.dead()
    answer = lz.json("audit", "verify")
    assert (answer["ok"], answer["events"], answer["seq"]) == (True, 3, 3)
    assert lz.ok("audit", "verify").startswith("3 events verified; head ")


@pytest.mark.parametrize("change, event", [
    ("UPDATE event SET what = 'completed' WHERE seq = 2", 2),
    ("UPDATE event SET why = '{}' WHERE seq = 3", 3),
    ("DELETE FROM event WHERE seq = 2", 2),
    ("DELETE FROM event WHERE seq = 3", 3),
    ("DELETE FROM event", 1),
    ("UPDATE envelope SET body = CAST(replace(CAST(body AS TEXT), 'action', 'acti0n') AS BLOB)", 1),
    ("UPDATE attempt SET failure = CAST(replace(CAST(failure AS TEXT), '30 s', '31 s') AS BLOB)", 3),
    ("DELETE FROM attempt", 3),
    ("DELETE FROM letter", 1),
])
def test_evidence_that_was_tampered_with_is_found_and_named(lz, change, event):
    lz.dead()
    db = sqlite3.connect(lz.offline() / "lazaret.db")
    db.execute(change)
    db.commit()
    db.close()
    done = lz.run("audit", "verify")
    assert done.returncode == 1
    assert f"the evidence does not verify: event {event}:" in done.stderr
    done = lz.run("audit", "verify", "-o", "json")
    assert done.returncode == 1 and json.loads(done.stdout)["ok"] is False


def test_numbers_of_events_that_were_cut_off_are_not_given_again(lz):
    lz.dead()
    db = sqlite3.connect(lz.offline() / "lazaret.db")
    db.execute("DELETE FROM event WHERE seq = 3")
    db.commit()
    db.close()
    lz.ok("push", "--action", "x")
    assert [event["seq"] for event in lz.json("audit", "show")] == [1, 2, 4]
    assert "event 3: the event is missing" in lz.run("audit", "verify").stderr


def test_the_chain_is_exported_one_event_a_line(lz, tmp_path):
    lz.dead(job_id="a")
    lz.dead(job_id="b")
    out = tmp_path / "audit.ndjson"
    assert lz.ok("audit", "export", out) == f"6 events exported to {out}\n"
    exported = [json.loads(line) for line in out.read_text().splitlines()]
    assert exported == lz.json("audit", "show")
    assert lz.ok("audit", "export", "-", "--job-id", "a").count("\n") == 3
    assert "--force" in lz.fails(4, "audit", "export", out)
    lz.ok("audit", "export", out, "--force", "--after", "5")
    assert out.read_text().count("\n") == 1


def test_more_events_than_a_page_are_walked(lz):
    lz.ok("push", "-", input="".join('{"action":"a"}\n' for _ in range(2500)))
    assert len(lz.json("audit", "show", "--limit", "10000")) == 2500
    assert lz.ok("audit", "export", "-").count("\n") == 2500
