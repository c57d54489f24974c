"""dlq export and import: letters as files, and back."""

import csv
import io
import json
import os
import stat

import pytest

from conftest import DENIED, Lazaret


@pytest.fixture
def other(tmp_path):
    return Lazaret(tmp_path / "other")


def without(letter, *names):
    return {k: v for k, v in letter.items() if k not in names}


def test_json_goes_out_and_comes_back_the_same(lz, other, tmp_path):
    lz.dead(job_id="a", inputs={"n": 1.50}), lz.dead(DENIED, job_id="b", run_id="r", item_id="i/1")
    out = tmp_path / "letters.json"
    assert lz.ok("dlq", "export", out) == f"2 dead letters exported to {out}\n"
    assert json.loads(out.read_text()) == lz.json("dlq", "list")
    assert other.ok("dlq", "import", out) == "2 imported, 0 known, 0 failed\n"
    assert other.ok("dlq", "import", out) == "0 imported, 2 known, 0 failed\n"
    for mine, theirs in zip(lz.json("dlq", "list"), other.json("dlq", "list")):
        assert mine["dlq_id"] == theirs["dlq_id"]
        assert mine["original_payload"] == theirs["original_payload"]
        assert mine["error_signature"] == theirs["error_signature"]
    other.ok("dlq", "retry", "--all", "--force", "--yes")
    assert other.json("status")["live"] == 2


def test_a_file_is_private_and_never_replaced_without_force(lz, tmp_path):
    lz.dead()
    out = tmp_path / "x.json"
    out.write_text("precious")
    assert "exists: --force replaces it" in lz.fails(4, "dlq", "export", out)
    assert out.read_text() == "precious"
    lz.ok("dlq", "export", out, "--force")
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.glob("x.json*")] == ["x.json"]


def test_an_export_that_cannot_be_written_leaves_nothing(lz, tmp_path):
    lz.dead()
    assert "cannot write" in lz.fails(5, "dlq", "export", tmp_path / "missing" / "x.json")
    assert os.listdir(tmp_path) == ["data"]


def test_standard_output_takes_json_csv_and_receipts(lz):
    lz.dead(job_id="a", source="receipts", inputs={"receipt": {"lease_id": "l"}})
    assert json.loads(lz.ok("dlq", "export", "-"))[0]["job_id"] == "a"
    assert lz.run("dlq", "export", "-", "--format", "csv", text=False).stdout.count(b"\r\n") == 2
    assert len(json.loads(lz.ok("dlq", "export", "-", "--format", "receipts"))) == 1
    assert "directory" in lz.fails(2, "dlq", "export", "-", "--format", "map")


def test_csv_is_rfc_4180_and_defuses_formulas(lz):
    lz.dead({"class": "timeout", "message": '=cmd|"/c calc"!A1, and\nmore'}, job_id="+7")
    text = lz.run("dlq", "export", "-", "--format", "csv", text=False).stdout.decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert rows[0]["error_message"] == '\'=cmd|"/c calc"!A1, and\nmore'
    assert rows[0]["job_id"] == "'+7"
    assert json.loads(rows[0]["original_payload"])["action"] == "send_invoice"


def test_receipts_hold_the_receipt_and_how_often_it_failed(lz):
    receipt = {"lease_id": "l", "task_id": "t", "status": "complete"}
    lz.dead(job_id="a", source="receipts", inputs={"target": "t", "body": receipt})
    lz.dead(job_id="b", source="receipts", inputs={"task_id": "u"})
    lz.dead(job_id="c", source="receipts", inputs={"receipt": receipt})
    entries = json.loads(lz.ok("dlq", "export", "-", "--format", "receipts"))
    assert [e["receipt"] for e in entries] == [receipt, {"task_id": "u"}, receipt]
    assert all(list(e) == ["receipt", "failed_at", "attempts"] and e["attempts"] == 1 for e in entries)


def test_only_letters_of_receipts_are_exported_as_receipts(lz):
    lz.dead(job_id="a", inputs={"lease_id": "l"})
    assert json.loads(lz.ok("dlq", "export", "-", "--format", "receipts")) == []
    assert "source receipts alone" in lz.fails(2, "dlq", "export", "-", "--format", "receipts", "--source", "lazaret")
    assert json.loads(lz.ok("dlq", "export", "-", "--format", "receipts", "--source", "receipts")) == []
    assert len(json.loads(lz.ok("dlq", "export", "-"))) == 1


RECEIPT = {"lease_id": "l", "task_id": "t", "worker_id": "w", "status": "complete", "timestamp": "2024-01-15T10:30:00Z",
           "summary": "Task completed successfully", "artifact_pointers": ["s3://bucket/results.json"]}


def test_a_receipts_file_is_imported(lz, tmp_path):
    entries = [{"receipt": RECEIPT, "failed_at": "2026-02-13T06:22:00Z", "attempts": 5}]
    assert lz.json("dlq", "import", "-", input=entries) == {"imported": 1, "known": 0, "failed": 0}
    assert json.loads(lz.ok("dlq", "export", "-", "--format", "receipts")) == entries
    [letter] = json.loads(lz.ok("dlq", "export", "-"))
    assert (letter["queue"], letter["source"], letter["reason"]) == ("deliveries", "receipts", "undeliverable")
    assert letter["envelope"]["action"] == "deliver" and letter["envelope"]["inputs"] == {"body": RECEIPT}
    assert letter["recoverable"] is False
    lz.ok("dlq", "export", tmp_path / "out.json", "--format", "receipts")
    assert lz.json("dlq", "import", tmp_path / "out.json") == {"imported": 0, "known": 1, "failed": 0}


def test_what_is_no_receipt_is_not_imported_as_one(lz):
    half = {k: v for k, v in RECEIPT.items() if k != "task_id"}
    assert "letter 1: receipt: task_id:" in lz.fails(2, "dlq", "import", "-", input=[{"receipt": half}])
    assert json.loads(lz.ok("dlq", "export", "-")) == []


def test_a_receipt_put_down_by_hand_failed_when_it_is_imported(lz):
    assert lz.json("dlq", "import", "-", input=[{"receipt": RECEIPT}])["imported"] == 1
    assert lz.json("dlq", "import", "-", input=[{"receipt": RECEIPT}])["known"] == 1
    [letter] = json.loads(lz.ok("dlq", "export", "-"))
    assert letter["failure_count"] == 0
    assert letter["failed_at"] == letter["first_attempt"] == letter["last_attempt"]


def test_a_map_export_never_uses_an_id_as_a_path(lz, other, tmp_path):
    odd = ["../../evil", "a/b", ".hidden", "..", "x y%", "é", "bell\x07", "l" * 200]
    for i, item in enumerate(odd):
        lz.dead(run_id="run", item_id=item, job_id=f"run-{i}")
    out = tmp_path / "deep" / "map"
    out.parent.mkdir()
    lz.ok("dlq", "export", out, "--format", "map", "--job-id", "run")
    assert sorted(os.listdir(tmp_path)) == ["data", "deep"]
    names = os.listdir(out / "items")
    assert len(names) == len(odd)
    assert "..%2F..%2Fevil.json" in names or "%2E.%2F..%2Fevil.json" in names
    assert all(not name.startswith(".") and "/" not in name for name in names)
    index = json.loads((out / "index.json").read_text())
    assert (index["job_id"], index["item_count"]) == ("run", len(odd))
    assert sorted(index["item_ids"]) == sorted(odd)
    item = json.loads((out / "items" / "a%2Fb.json").read_text())
    assert item["item_id"] == "a/b" and item["failure_history"][0]["attempt_number"] == 1
    assert other.json("dlq", "import", out) == {"imported": len(odd), "known": 0, "failed": 0}
    assert len(other.json("dlq", "list", "--job-id", "run")) == len(odd)


def test_equal_item_ids_of_two_runs_do_not_overwrite_each_other(lz, tmp_path):
    lz.dead(run_id="r1", item_id="same", job_id="r1/same"), lz.dead(run_id="r2", item_id="same", job_id="r2/same")
    lz.ok("dlq", "export", tmp_path / "map", "--format", "map")
    assert len(os.listdir(tmp_path / "map" / "items")) == 2


def test_a_map_directory_is_replaced_only_when_it_is_one(lz, tmp_path):
    lz.dead(job_id="a", item_id="one")
    out = tmp_path / "map"
    lz.ok("dlq", "export", out, "--format", "map")
    (out / "items" / "stale.json").write_text("{}")
    assert "--force" in lz.fails(4, "dlq", "export", out, "--format", "map")
    lz.ok("dlq", "export", out, "--format", "map", "--force")
    assert os.listdir(out / "items") == ["one.json"]
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("x")
    assert "holds no export" in lz.fails(4, "dlq", "export", tmp_path / "home", "--format", "map", "--force")
    assert os.listdir(tmp_path / "home") == ["thesis.txt"]


def test_the_map_systems_own_item_is_imported(lz, tmp_path):
    item = {"item_id": "item-123", "item_data": {"file": "src/main.rs", "priority": 5},
            "first_attempt": "2025-01-11T10:25:00Z", "last_attempt": "2025-01-11T10:30:00Z", "failure_count": 3,
            "failure_history": [{
                "attempt_number": 1, "timestamp": "2025-01-11T10:30:00Z",
                "error_type": {"CommandFailed": {"exit_code": 101}},
                "error_message": "cargo test failed with exit code 101",
                "stack_trace": "thread 'main' panicked at src/main.rs:42...", "agent_id": "agent-1",
                "step_failed": "shell: cargo test", "duration_ms": 45000}],
            "error_signature": "CommandFailed::cargo test failed with exit", "reprocess_eligible": True,
            "manual_review_required": False}
    (tmp_path / "map" / "items").mkdir(parents=True)
    (tmp_path / "map" / "items" / "item-123.json").write_text(json.dumps(item))
    (tmp_path / "map" / "index.json").write_text(json.dumps(
        {"job_id": "mapreduce-1", "item_count": 1, "item_ids": ["item-123"], "updated_at": "2025-01-11T10:30:00Z"}))
    assert lz.json("dlq", "import", tmp_path / "map") == {"imported": 1, "known": 0, "failed": 0}
    letter = lz.json("dlq", "list", "--job-id", "mapreduce-1")[0]
    for name in ["item_id", "item_data", "failure_count", "error_signature", "reprocess_eligible"]:
        assert letter[name] == item[name]
    assert lz.json("dlq", "import", tmp_path / "map") == {"imported": 0, "known": 1, "failed": 0}


def test_a_damaged_directory_is_reported_and_nothing_is_taken(lz, tmp_path):
    lz.dead(job_id="a", item_id="one"), lz.dead(job_id="b", item_id="two")
    out = tmp_path / "map"
    lz.ok("dlq", "export", out, "--format", "map")
    (out / "items" / "two.json").write_text('{"item_id": ')
    assert "two.json" in lz.fails(2, "dlq", "import", out)
    (out / "items" / "two.json").unlink()
    assert "names 2 items" in lz.fails(2, "dlq", "import", out)
    (out / "index.json").unlink()
    assert "index.json" in lz.fails(2, "dlq", "import", out)


def test_a_letter_that_cannot_be_taken_is_named_and_the_others_are(lz):
    letters = [{"dlq_id": "good", "original_subject": "s", "original_payload": {}, "reason": "r"}, 7]
    done = lz.run("dlq", "import", "-", input=letters)
    assert (done.returncode, done.stdout) == (2, "1 imported, 0 known, 1 failed\n")
    assert "letter 2" in done.stderr
    assert lz.fails(2, "dlq", "import", "missing.json")


def test_filters_and_state_choose_what_is_exported(lz):
    one = lz.dead(job_id="a", queue="x", item={"n": 1})
    lz.dead(job_id="b", queue="y", item={"n": 2})
    lz.ok("dlq", "discard", one)
    def jobs(*flags):
        return [letter["job_id"] for letter in json.loads(lz.ok("dlq", "export", "-", *flags))]
    assert jobs() == ["b"]
    assert jobs("--state", "all") == ["b", "a"]
    assert jobs("--state", "discarded", "--queue", "x") == ["a"]
    assert jobs("--state", "all", "--filter", "item.n < 2") == ["a"]
