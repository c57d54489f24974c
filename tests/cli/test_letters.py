"""dlq list, show, groups, stats, analyze: looking at letters."""

import json

import pytest

from conftest import DENIED, TIMEOUT, TWICE


@pytest.fixture
def three(lz):
    """Three letters: two of one group, one that needs review."""
    return [lz.dead(job_id="j1", queue="billing", item={"n": 1}), lz.dead(job_id="j2", queue="mail", source="tests", item={"n": 2}),
            lz.dead(DENIED, job_id="j3", queue="mail", trace_id="t3", item={"n": 3})]


def ids(text):
    return [line.split("\t")[0] for line in text.splitlines()]


def test_the_newest_letter_is_first_and_rows_have_seven_columns(lz, three):
    rows = [line.split("\t") for line in lz.ok("dlq", "list").splitlines()]
    assert [row[0] for row in rows] == three[::-1]
    assert rows[0][2:] == ["not_retryable", "mail", "1", "Unknown::user may not write", "dead"]
    assert {len(row) for row in rows} == {7}


def test_oldest_first_is_the_other_way_round(lz, three):
    assert ids(lz.ok("dlq", "list", "--sort", "oldest")) == three


@pytest.mark.parametrize("flags, expected", [
    (["--queue", "billing"], [0]),
    (["--queue", "mail"], [2, 1]),
    (["--job-id", "j2"], [1]),
    (["--reason", "not_retryable"], [2]),
    (["--source", "tests"], [1]),
    (["--trace-id", "t3"], [2]),
    (["--error-type", "Timeout"], [1, 0]),
    (["--signature", "Timeout::gateway timed out after s"], [1, 0]),
    (["--q", "gateway"], [1, 0]),
    (["--q", "gateway nothing"], []),
    (["--eligible"], [1, 0]),
    (["--attempts-min", "2"], []),
    (["--attempts-max", "1"], [2, 1, 0]),
    (["--after", "2000-01-01T00:00:00Z"], [2, 1, 0]),
    (["--before", "2000-01-01T00:00:00Z"], []),
    (["--filter", "item.n > 1 && item.n <= 3"], [2, 1]),
    (["--filter", "!(error_type == 'Timeout') || item.n == 1", "--limit", "2"], [2, 0]),
    (["--filter", "failure_count > 1"], []),
    (["--filter", "item.n == 2", "--queue", "billing"], []),
    (["--limit", "1"], [2]),
    (["--state", "recovered"], []),
    (["--recovered", "true"], []),
    (["--recovered=false", "--job_id", "j3"], [2]),
    (["--state", "all"], [2, 1, 0]),
])
def test_a_filter_selects(lz, three, flags, expected):
    assert ids(lz.ok("dlq", "list", *flags)) == [three[i] for i in expected]
    letters = lz.json("dlq", "list", *flags)
    assert [letter["dlq_id"] for letter in letters] == [three[i] for i in expected]


def test_a_wrong_filter_is_an_error_and_never_matches_everything(lz, three):
    assert "after" in lz.fails(2, "dlq", "list", "--after", "yesterday")
    assert "queue" in lz.fails(2, "dlq", "list", "--queue", "")
    assert "filter: " in lz.fails(2, "dlq", "list", "--filter", "item.n = 1")
    assert "--filter: must not be empty" in lz.fails(2, "dlq", "list", "--filter", "")


def test_json_is_a_bare_array_of_whole_letters(lz, three):
    letters = lz.json("dlq", "list")
    assert isinstance(letters, list)
    assert list(letters[0])[:4] == ["dlq_id", "original_subject", "original_payload", "reason"]
    assert letters[0]["failure_history"][0]["error_message"] == "user 7 may not write"


def test_more_letters_than_a_page_are_listed_once_each(lz):
    letters = [{"dlq_id": f"d{i:05}", "original_subject": "jobs.x", "original_payload": {"n": i},
                "reason": "crash_loop", "failed_at": f"2026-01-01T00:{i // 60 % 60:02}:{i % 60:02}Z"}
               for i in range(1500)]
    lz.ok("dlq", "import", "-", input=letters)
    listed = ids(lz.ok("dlq", "list", "--limit", "10000"))
    assert sorted(listed) == [f"d{i:05}" for i in range(1500)]
    assert len(lz.json("dlq", "list", "--limit", "1200")) == 1200
    assert len(lz.json("dlq", "list")) == 50


def test_a_recovered_letter_is_only_listed_when_asked_for(lz, three):
    lz.ok("dlq", "retry", three[0])
    assert ids(lz.ok("dlq", "list")) == [three[2], three[1]]
    assert ids(lz.ok("dlq", "list", "--state", "recovered")) == [three[0]]


def test_show_tells_every_attempt_and_what_to_do(lz):
    job = {"action": "build", "job_id": "b1", "retry_policy": TWICE, "inputs": {"target": "x86"}}
    lines = lz.seed(("push", job), ("fail", {**TIMEOUT, "message": "first"}), ("fail", {**TIMEOUT, "message": "second"}))
    letter = lines[-1].split()[1]
    story = lz.ok("dlq", "show", letter)
    for part in ["no attempt was left", "attempts_exhausted", "inline, after 2 of 2 attempts", "first", "second",
                 '"target": "x86"', f"lazaret dlq retry {letter}", f"lazaret dlq discard {letter}"]:
        assert part in story
    attempts = story.split("Attempts")[1]
    assert attempts.index("first") < attempts.index("second")
    assert lz.json("dlq", "show", letter)["job_id"] == "b1"


def test_show_tells_how_a_command_ended_and_the_end_of_what_it_wrote(lz):
    heard = "".join(f"line {number}\n" for number in range(1, 31))
    failure = {"error_type": {"CommandFailed": {"exit_code": 139, "signal": "SIGSEGV"}}, "message": "killed by SIGSEGV", "stack_trace": heard,
               "json_log_location": "/data/artifacts/r/1.log", "duration_ms": 1500,
               "artifacts": {"exit_code": 139, "signal": "SIGSEGV", "cpu_user_ms": 40, "cpu_system_ms": 10, "memory_max_kb": 2048,
                             "stdout": "all well\n", "stdout_bytes": 9, "stderr": heard, "stderr_bytes": 5000000, "stderr_truncated_bytes": 4999750}}
    letter = lz.seed(("push", {"action": "a", "retry_policy": {"max_attempts": 1}}), ("fail", failure))[-1].split()[1]
    story = lz.ok("dlq", "show", letter)
    attempts = story.split("Attempts\n")[1].split("Envelope")[0]
    assert attempts.splitlines()[1:18] == [
        "     killed by SIGSEGV",
        "     exit code 139 (SIGSEGV), 50ms of CPU, 2.0 MB of memory",
        "     standard output",
        "       all well",
        "     standard error, the end of 5000000 bytes",
        *[f"       line {number}" for number in range(21, 31)],
        "     log",
        "       /data/artifacts/r/1.log"]
    assert "stack trace" not in story and "Artifacts" not in story
    other = lz.seed(("push", {"action": "a", "retry_policy": {"max_attempts": 1}}),
                    ("fail", {**failure, "stack_trace": "at main()", "artifacts": {"stderr": "\x1b[31m" + "x" * 9999 + "é\n"}}))[-1].split()[1]
    story = lz.ok("dlq", "show", other)
    assert "stack trace\n       at main()" in story and "\x1b" not in story and "the end of 10007 bytes" in story
    assert 1900 < story.count("x") < 2100


def test_show_tells_which_attempts_were_cut_off(lz):
    cut_off = {"message": "stopped by Ctrl-C", "interrupted": True}
    letter = lz.seed(("push", {"action": "a", "retry_policy": {"max_attempts": 1}}), ("fail", cut_off), ("fail", cut_off), ("fail", TIMEOUT))[-1].split()[1]
    story = lz.ok("dlq", "show", letter)
    assert "inline, after 3 attempts, of which 2 were cut off and do not count; 1 is allowed" in story
    assert story.count("  cut off  by ") == 2 and story.count("retry after 0s (interrupted)") == 2


def test_a_shortened_id_is_enough_while_it_is_unique(lz):
    lz.ok("dlq", "import", "-", input=[
        {"dlq_id": "letter-one-1", "original_subject": "s", "original_payload": {}, "reason": "r"},
        {"dlq_id": "letter-one-2", "original_subject": "s", "original_payload": {}, "reason": "r"},
        {"dlq_id": "another-letter", "original_subject": "s", "original_payload": {}, "reason": "r"}])
    assert lz.json("dlq", "show", "another-")["dlq_id"] == "another-letter"
    err = lz.fails(2, "dlq", "show", "letter-o")
    assert "more than one" in err and "letter-one-1" in err and "letter-one-2" in err
    assert "no dead letter anothe" in lz.fails(3, "dlq", "show", "anothe")


def test_a_mistyped_id_is_answered_with_what_was_probably_meant(lz, three):
    wrong = three[0][:-3] + "zzz"
    err = lz.fails(3, "dlq", "show", wrong)
    assert f"no dead letter {wrong}; did you mean {three[0][:20]}" in err


@pytest.mark.parametrize("word", ["../../etc/passwd", "a/b", "%00", "x?limit=1", "\x1b[31m", "é" * 200, "a" * 5000],
                         ids=["parent", "slash", "percent", "query", "escape", "long", "longer"])
def test_any_text_may_be_asked_for_as_an_id(lz, three, word):
    done = lz.run("dlq", "show", word)
    assert done.returncode in (2, 3) and "\x1b" not in done.stderr


def test_groups_count_what_is_dead_and_name_samples(lz, three):
    groups = lz.json("dlq", "groups")
    assert {g["signature"]: g["count"] for g in groups} == {
        "Timeout::gateway timed out after s": 2, "Unknown::user may not write": 1}
    assert set(groups[0]) >= {"fingerprint", "count", "first_seen", "last_seen", "sample_ids", "status", "trend"}
    assert len(lz.ok("dlq", "groups").splitlines()) == 2
    assert len(lz.json("dlq", "groups", "--limit", "1")) == 1


def test_stats_add_up(lz, three):
    lz.ok("dlq", "discard", three[0])
    stats = lz.json("dlq", "stats")
    assert (stats["total"], stats["unrecovered"], stats["discarded"]) == (3, 2, 1)
    assert "not_retryable" in lz.ok("dlq", "stats")


def test_analyze_shows_groups_errors_and_hours_and_keeps_a_file(lz, three, tmp_path):
    shown = lz.ok("dlq", "analyze", "--export", tmp_path / "a.json")
    for part in ["3 open dead letters in 2 groups", "Error types", "Failures by hour", "█"]:
        assert part in shown
    kept = json.loads((tmp_path / "a.json").read_text())
    assert kept["total"] == 3 and kept == lz.json("dlq", "analyze")
    assert lz.json("dlq", "analyze", "--job-id", "j1")["total"] == 1
    assert "--force" in lz.fails(4, "dlq", "analyze", "--export", tmp_path / "a.json")
    lz.ok("dlq", "analyze", "--export", tmp_path / "a.json", "--force")
