"""How a run is shown while it goes on, and what is said at its end (src/cli/progress.c, gauge.c, summary.c).

A driver tells what a run would tell, so that every line is known beforehand."""

import json
import os
import re
import subprocess
import unicodedata

import pexpect
import pytest

from conftest import BUILD, DENIED, own_only

DRIVER = str(next((p for p in BUILD.glob("**/progress_driver") if p.is_file()), BUILD / "tests/progress_driver"))
ENV = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TERM": "xterm",
       **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}}
LETTER = "0192f3a4-5b6c-7d8e-9fa0-b1c2d3e4f506"

pytestmark = own_only


def step(name, value):
    return [f"--{name}", value if isinstance(value, str) else json.dumps(value)]


def event(what, item="a b.c", **members):
    return step("event", {"what": what, "job_id": f"run/{item}", "item_id": item, **members})


def counts(**members):
    return step("counts", {"total": 200, "total_final": True, **members})


def failed(item="a b.c", message="no such header", what="quarantined", **members):
    return event(what, item, attempt=3, message=message, dlq_id=LETTER if what == "quarantined" else "", **members)


def run(*steps, options=(), env=None, code=0):
    """Without a terminal: what was printed on standard output and on standard error."""
    args = [DRIVER, *options, *[word for words in steps for word in words]]
    done = subprocess.run(args, capture_output=True, text=True, env={**ENV, **(env or {})}, timeout=60,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == code, done
    return done.stdout, done.stderr


def start(*steps, options=(), env=None, columns=100):
    return pexpect.spawn(DRIVER, [*options, *[word for words in steps for word in words]], env={**ENV, **(env or {})},
                         dimensions=(24, columns), timeout=60, encoding="utf-8", echo=False)


def on_terminal(*steps, **kw):
    child = start(*steps, **kw)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0, child.before
    return child.before


def width(text):
    return sum(0 if unicodedata.category(c) in ("Mn", "Me", "Cf") else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


class Screen:
    """What stands on a terminal after a text was written to it.  Only what a progress may use is understood."""

    def __init__(self, written):
        self.lines, self.live = [], []
        line = ""
        for part in re.findall(r"\r\n|\r\x1b\[K|\x1b\[\d+m|[^\r\n\x1b]+|.", written, re.S):
            if part == "\r\n":
                self.lines.append(line)
                line = ""
            elif part == "\r\x1b[K":
                self.live.append(line)
                line = ""
            elif not part.startswith("\x1b["):
                assert part[0] not in "\r\n\x1b", repr(written)
                line += part
        self.rest = line


# ---- a terminal ----------------------------------------------------------------------------------


def test_the_live_line_tells_how_far_it_is():
    shown = Screen(on_terminal(counts(done=142, running=3, retrying=2, quarantined=5, elapsed_ms=3000, slowest="src/a b.c",
                                      slowest_ms=12345)))
    assert shown.live == ["  142/200 done · 3 running · 2 retrying · 5 quarantined · 49/s · ETA 2s · slowest: src/a b.c 12s"]


def test_nothing_of_the_live_line_is_left_at_the_end():
    shown = Screen(on_terminal(counts(done=1, elapsed_ms=1000), counts(done=2, elapsed_ms=2000)))
    assert (shown.lines, shown.rest) == ([], "") and len(shown.live) == 2


def test_what_matters_stays_above_the_live_line():
    shown = Screen(on_terminal(counts(done=1), failed(), failed("other", "flaky", "skipped"), failed("third", "flaky", "retrying"),
                               event("succeeded", "fourth"), event("handled", "fifth"), event("cancelled", "sixth"),
                               event("lost", "seventh", attempt=2), step("note", "stopping: 3 items are still running")))
    assert shown.lines == [f"✗ a b.c: no such header (attempt 3, quarantined as {LETTER[:18]})",
                           "✗ other: flaky (attempt 3, skipped)",
                           "! sixth: cancelled",
                           "! seventh: the lease of attempt 2 was lost; somebody else has it",
                           "stopping: 3 items are still running"]
    assert set(shown.live) == {"  1/200 done"} and len(shown.live) == 6, "the live line was put back after each"


def test_a_failure_without_a_word_is_one_too():
    shown = Screen(on_terminal(failed(message="")))
    assert shown.lines == [f"✗ a b.c: failed (attempt 3, quarantined as {LETTER[:18]})"]


def test_the_line_is_drawn_ten_times_a_second_at_most():
    told = [counts(done=n, elapsed_ms=10 * n) for n in range(100)]
    assert len(Screen(on_terminal(*told)).live) == 10


def test_the_rate_is_that_of_the_last_seconds():
    slow = [counts(total=100000, done=n, elapsed_ms=1000 * n) for n in range(1, 60)]
    fast = [counts(total=100000, done=59 + 100 * n, elapsed_ms=59000 + 1000 * n) for n in range(1, 20)]
    assert " · 1/s · " in Screen(on_terminal(*slow)).live[-1]
    assert " · 100/s · " in Screen(on_terminal(*slow, *fast)).live[-1]


@pytest.mark.parametrize("told, rate", [
    ({"done": 0, "elapsed_ms": 5000}, None),
    ({"done": 9, "elapsed_ms": 500}, None),
    ({"done": 5, "elapsed_ms": 2000}, "2.5/s"),
    ({"done": 2, "elapsed_ms": 10000}, "12/min"),
    ({"done": 1, "elapsed_ms": 1200000}, "3/h"),
    ({"done": 1, "quarantined": 1, "skipped": 1, "handled": 1, "cancelled": 1, "elapsed_ms": 1000}, "5/s"),
])
def test_a_rate_counts_whatever_has_ended(told, rate):
    [line] = Screen(on_terminal(counts(**told))).live
    assert re.findall(r" · ([\d.]+/\w+)", line) == ([rate] if rate else [])


@pytest.mark.parametrize("told, eta", [
    ({"done": 100, "elapsed_ms": 10000}, "10s"),
    ({"done": 1, "elapsed_ms": 60000}, "3h 19m"),
    ({"done": 100, "elapsed_ms": 10000, "before": 50}, "5s"),
    ({"done": 100, "elapsed_ms": 10000, "total_final": False}, None),
    ({"done": 200, "elapsed_ms": 10000}, None),
    ({"done": 0, "elapsed_ms": 10000}, None),
])
def test_an_eta_needs_a_total_and_a_rate(told, eta):
    [line] = Screen(on_terminal(counts(**told))).live
    assert re.findall(r"ETA (\d+\w(?: \d+\w)?)", line) == ([eta] if eta else [])


@pytest.mark.parametrize("told, done", [
    ({"done": 7}, "7/200 done"),
    ({"done": 7, "total_final": False}, "7/200+ done"),
    ({"done": 7, "total": 0, "total_final": False}, "7 done"),
    ({"done": 7, "total": 9, "retrying": 2, "total_final": False}, "7 done · 2 retrying"),
    ({"done": 7, "before": 50}, "7/150 done · 50 earlier"),
    ({"done": 7, "failed_attempts": 1}, "7/200 done · 1 failure"),
    ({"done": 7, "failed_attempts": 2, "handled": 1}, "7/200 done · 1 handled · 2 failures"),
    ({"done": 7, "slowest": "quick", "slowest_ms": 900}, "7/200 done"),
])
def test_the_line_has_only_what_there_is(told, done):
    assert Screen(on_terminal(counts(**told))).live == ["  " + done]


MUCH = {"done": 142, "running": 3, "retrying": 2, "quarantined": 5, "skipped": 1, "handled": 1, "cancelled": 1, "before": 9,
        "failed_attempts": 30, "elapsed_ms": 3000, "slowest": "src/" + "long/" * 30 + "name.c", "slowest_ms": 12000}


@pytest.mark.parametrize("columns", [*range(1, 40), 60, 80, 100, 132, 200, 400])
def test_the_line_is_never_wider_than_the_terminal(columns):
    [line] = Screen(on_terminal(counts(**MUCH), columns=columns)).live
    assert width(line) < columns
    assert line.strip() or columns < 3
    if columns >= 17:
        assert line.startswith("  142/191 done")


def test_what_has_no_room_goes_whole_and_the_least_important_first():
    [line] = Screen(on_terminal(counts(**MUCH), columns=20)).live
    assert line == "  142/191 done"
    [line] = Screen(on_terminal(counts(**MUCH), columns=60)).live
    assert line == "  142/191 done · 2 retrying · 5 quarantined · ETA 1s"
    [line] = Screen(on_terminal(counts(**MUCH), columns=180)).live
    assert re.search(r" · slowest: src/long/\S*… 12s$", line) and width(line) == 179


@pytest.mark.parametrize("name", ["名前" * 40, "é" * 80, "e\u0301" * 80, "ﾊﾝｶｸ" * 30, "😀" * 40, "👩‍👩‍👧" * 20, "❤️" * 40],
                         ids=["wide", "narrow", "marked", "half", "pictures", "joined", "varied"])
@pytest.mark.parametrize("columns", [78, 79, 80])
def test_a_name_is_cut_at_a_whole_character(name, columns):
    [line] = Screen(on_terminal(counts(slowest=name, slowest_ms=2000), columns=columns)).live
    kept = re.fullmatch(r"  0/200 done · slowest: (.*)… 2s", line).group(1)
    assert name.startswith(kept) and len(kept) > 10
    assert width(line) < columns
    assert not unicodedata.combining(name[len(kept)]), "a mark stays with its character"


def test_a_window_may_be_resized_at_any_time():
    child = start(counts(**MUCH, total=1000), ["--wait-for-line"], counts(**{**MUCH, "elapsed_ms": 4000}, total=1000), ["--wait-for-line"],
                  failed(), columns=200)
    child.expect("slowest")
    child.setwinsize(24, 40)
    child.sendline("")
    child.expect(r"142/991 done · (?!3 running)")
    child.setwinsize(24, 20)
    child.sendline("")
    child.expect(pexpect.EOF)
    last = Screen("x" + child.before).live[-1]
    assert last == "  142/991 done", "also when it is put back below a lasting line"


EVIL = "\x1b[2J\x1b]0;owned\x07evil\u202e\u009b31m\r\nline\x00"


@pytest.mark.parametrize("hexed", [False, True], ids=["text", "bytes"])
def test_nothing_that_a_job_says_acts_on_the_terminal(hexed):
    texts = {"item_id": EVIL, "message": EVIL, "dlq_id": "\x1b[1m" + LETTER}
    slowest = {"slowest": EVIL}
    if hexed:
        texts, slowest = ({f"{name}_hex": (text.encode() + b"\xff\xfe").hex() for name, text in some.items()}
                          for some in (texts, slowest))
    steps = [counts(slowest_ms=2000, **slowest), step("event", {"what": "quarantined", "attempt": 1, **texts}),
             step("event", {"what": "lost", "attempt": 1, **texts}), step("note", "stopped \x1b[31mred")]
    shown = on_terminal(*steps, options=["--no-color"])
    assert set(re.findall(r"\x1b[^m]", shown)) == {"\x1b["}
    assert set(re.findall(r"\x1b\[.", shown)) == {"\x1b[K"}
    assert not set(shown) & set("\x00\x07\x08\u202e\u009b")
    screen = Screen(shown)
    assert len(screen.lines) == 3 and screen.lines[0].startswith("✗ evil line")
    assert ("\ufffd\ufffd" in screen.lines[0]) == hexed
    _, plain = run(*steps)
    assert not set(plain) & set("\x1b\x00\x07\u202e\u009b\r") and len(plain.splitlines()) == 3


def test_a_text_of_a_megabyte_is_cut(tmp_path):
    name, told = failed("x" * 1000000, "y" * 1000000)
    (tmp_path / "event.json").write_text(told)
    with_words = [name, f"@{tmp_path}/event.json"]
    [line] = Screen(on_terminal(with_words, columns=400)).lines
    assert line == f"✗ {'x' * 200}…: {'y' * 200}… (attempt 3, quarantined as {LETTER[:18]})"
    _, plain = run(with_words)
    assert plain == f"item {'x' * 200}…: attempt 3 failed: {'y' * 200}…; quarantined as {LETTER[:18]}\n"


def test_colour_is_only_for_who_wants_it():
    steps = [counts(quarantined=1, retrying=1), failed()]
    shown = on_terminal(*steps)
    assert "\x1b[31m1 quarantined\x1b[0m" in shown and "\x1b[31m✗\x1b[0m" in shown
    for kw in [{"env": {"NO_COLOR": "1"}}, {"options": ["--no-color"]}]:
        shown = on_terminal(*steps, **kw)
        assert set(re.findall(r"\x1b\[.", shown)) == {"\x1b[K"}, "only what takes the line away"


def test_without_unicode_it_is_ascii():
    shown = Screen(on_terminal(counts(done=1, running=1, slowest="x" * 300, slowest_ms=3000), failed(message="y" * 300),
                               env={"LC_ALL": "C"}))
    assert shown.live[0].isascii() and shown.live[0].startswith("  1/200 done, 1 running, slowest: x")
    assert shown.lines[0].isascii() and shown.lines[0].startswith("x a b.c: yyy")


def test_without_unicode_a_wide_name_does_not_wrap_the_line():
    child = pexpect.spawn(DRIVER, counts(slowest="名" * 100, slowest_ms=3000), env={**ENV, "LC_ALL": "C"}, dimensions=(24, 80),
                          timeout=60, encoding="utf-8")
    child.expect(pexpect.EOF)
    assert width(Screen(child.before).live[0]) < 80


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_take_a_line_back_gets_plain_ones(term):
    shown = on_terminal(counts(done=1, elapsed_ms=12000), failed(), env={"TERM": term})
    assert shown == f"1/200 done, 5/min, ETA 39m 48s\r\nitem a b.c: attempt 3 failed: no such header; quarantined as {LETTER[:18]}\r\n"


# ---- no terminal ---------------------------------------------------------------------------------


def test_without_a_terminal_there_is_a_line_for_each_failure():
    out, err = run(event("started"), event("succeeded", duration_ms=3), failed(what="retrying", retry_in_ms=1040),
                   failed(), failed("other", what="skipped"), event("interrupted", "third", attempt=2),
                   event("lost", "fourth", attempt=1), event("cancelled", "fifth"), event("handled", "sixth"),
                   step("note", "stopping: 3 items are still running"))
    assert out == ""
    assert err.splitlines() == ["item a b.c: attempt 3 failed: no such header; again in 1s",
                                f"item a b.c: attempt 3 failed: no such header; quarantined as {LETTER[:18]}",
                                "item other: attempt 3 failed: no such header; skipped",
                                "item third: attempt 2 was interrupted; it will run again",
                                "item fourth: the lease of attempt 1 was lost; somebody else has it",
                                "item fifth: cancelled",
                                "stopping: 3 items are still running"]


def test_a_job_is_called_by_its_id():
    job = step("event", {"what": "skipped", "job_id": "inv-7", "attempt": 1, "message": "m"})
    assert run(job, options=["--noun", "job"]) == ("", "job inv-7: attempt 1 failed: m; skipped\n")


# The clock goes on between the telling and the saying: what is said is rounded over it, to ten milliseconds, to a tenth or to a whole second.
@pytest.mark.parametrize("ms, said", [(0, "at once"), (900, r"in [1-9]\d?0ms"), (1040, "in 1s"), (2540, r"in 2\.5s"), (90400, "in 1m 30s"),
                                      (7260400, "in 2h 1m")])
def test_a_retry_says_when(ms, said):
    _, err = run(failed(what="retrying", retry_in_ms=ms))
    assert re.fullmatch(f"item a b.c: attempt 3 failed: no such header; again {said}\n", err)


def test_the_counts_are_told_every_ten_seconds_while_something_goes_on():
    steps = [counts(done=s, elapsed_ms=1000 * s) for s in range(35)]
    idle = [counts(done=34, elapsed_ms=1000 * s) for s in range(35, 100)]
    _, err = run(*steps, *idle)
    assert err.splitlines() == ["10/200 done, 1/s, ETA 3m 10s", "20/200 done, 1/s, ETA 3m", "30/200 done, 1/s, ETA 2m 50s",
                                "34/200 done, 36/min, ETA 4m 37s"]


def test_a_short_run_without_failures_is_silent():
    assert run(event("started"), event("succeeded"), counts(done=1, elapsed_ms=9000)) == ("", "")


# ---- JSON ----------------------------------------------------------------------------------------


def lines(*steps, **kw):
    out, err = run(*steps, options=["--json", *kw.pop("options", [])], **kw)
    assert err == ""
    return [json.loads(line) for line in out.splitlines()]


def test_events_are_objects_with_what_means_something():
    told = lines(event("started", attempt=1), event("succeeded", attempt=1, duration_ms=12, artifact="/d/artifacts/x"),
                 failed(what="retrying", retry_in_ms=1000, duration_ms=5, error_type="Timeout"), failed(duration_ms=5),
                 counts(done=1), step("note", "stopping"), options=["--run", "nightly"])
    for one in told:
        assert one.pop("run_id") == "nightly"
    job = {"job_id": "run/a b.c", "item_id": "a b.c"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", told[2].pop("retry_at"))
    assert told == [
        {"event": "started", **job, "attempt": 1},
        {"event": "succeeded", **job, "attempt": 1, "duration_ms": 12, "artifact": "/d/artifacts/x"},
        {"event": "retrying", **job, "attempt": 3, "duration_ms": 5, "error_type": "Timeout", "message": "no such header"},
        {"event": "quarantined", **job, "attempt": 3, "duration_ms": 5, "message": "no such header", "dlq_id": LETTER},
        {"event": "note", "message": "stopping"}]


@pytest.mark.parametrize("what", ["started", "succeeded", "retrying", "quarantined", "skipped", "handled", "cancelled", "interrupted",
                                  "lost"])
def test_every_event_has_its_name(what):
    [told] = lines(event(what, attempt=1))
    assert told["event"] == what


def test_a_text_is_whole_in_json():
    [told] = lines(failed(EVIL, EVIL + "y" * 100000))
    assert told["item_id"] == EVIL and told["message"] == EVIL + "y" * 100000


def test_bytes_that_are_no_utf8_are_valid_json():
    [told] = lines(step("event", {"what": "skipped", "item_id_hex": "61ff62", "message_hex": "c3"}))
    assert told["item_id"] == "a\ufffdb" and told["message"] == "\ufffd"


def test_json_on_a_terminal_has_no_live_line():
    shown = on_terminal(counts(done=1), failed(EVIL), counts(done=2, elapsed_ms=2000), options=["--json"])
    [line] = shown.splitlines()
    assert json.loads(line)["item_id"] == EVIL and not set(line) & set("\x1b\u202e\u009b")


def test_events_reach_their_reader_while_the_run_goes_on():
    with subprocess.Popen([DRIVER, "--json", *event("started"), *counts(), "--wait-for-line"], env=ENV, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert json.loads(process.stdout.readline())["event"] == "started"
        process.stdin.write("\n")
        process.stdin.close()
        assert process.wait(timeout=60) == 0


# ---- the summary ---------------------------------------------------------------------------------


def summary(tmp_path, told, end=None, analysis=None, options=(), **kw):
    options = ["--run", "nightly", *options]
    if analysis:
        (tmp_path / "analysis.json").write_text(json.dumps(analysis))
        options += ["--analysis", str(tmp_path / "analysis.json")]
    return run(counts(**told), step("summary", end or {}), options=options, **kw)[0]


def analysis(*groups):
    return {"total": sum(count for count, _, _ in groups), "group_count": len(groups),
            "groups": [{"fingerprint": fingerprint, "signature": signature, "count": count}
                       for count, signature, fingerprint in groups]}


THREE = analysis((12, "CommandFailed::no such header", "3f2a"), (5, "Timeout::timed out after", "8c1f"),
                 (3, "ValidationFailed::bad checksum", "10d3"))


def test_a_run_that_went_well_needs_one_line(tmp_path):
    assert summary(tmp_path, {"done": 200, "elapsed_ms": 12340}) == "200 items: 200 done, in 12.3 s (16/s)\n"
    assert summary(tmp_path, {"done": 1, "total": 1, "elapsed_ms": 40}) == "1 item: 1 done, in 0.0 s (25/s)\n"
    assert summary(tmp_path, {"done": 200, "elapsed_ms": 754321}) == "200 items: 200 done, in 12m 34s (16/min)\n"
    assert summary(tmp_path, {"total": 0}) == "0 items: 0 done, in 0.0 s\n"


def test_what_failed_is_told_by_groups_with_what_to_do(tmp_path):
    assert summary(tmp_path, {"done": 180, "quarantined": 20, "elapsed_ms": 12340}, analysis=THREE) == """\
200 items: 180 done, 20 quarantined in 3 groups, in 12.3 s (16/s)
      12  CommandFailed::no such header  3f2a
       5  Timeout::timed out after  8c1f
       3  ValidationFailed::bad checksum  10d3
Look:   lazaret dlq list --job-id nightly
Groups: lazaret dlq analyze --job-id nightly
Again:  lazaret dlq retry nightly    (one group: lazaret dlq retry --group 3f2a)
"""


def test_one_group_is_the_run(tmp_path):
    said = summary(tmp_path, {"done": 199, "quarantined": 1}, analysis=analysis((1, "X::y", "3f2a")))
    assert "1 quarantined in 1 group," in said and said.endswith("Again:  lazaret dlq retry nightly\n")


def test_many_groups_are_not_all_listed(tmp_path):
    many = analysis(*[(1, f"X::{n}", f"f{n}") for n in range(30)])
    said = summary(tmp_path, {"done": 170, "quarantined": 30}, analysis=many)
    assert said.count("  X::") == 10 and "\n  and 20 more\n" in said


def test_the_commands_can_be_copied_whatever_the_run_is_called(tmp_path):
    told = {"done": 180, "quarantined": 20, "elapsed_ms": 1000}
    said = summary(tmp_path, told, analysis=THREE, options=["--run", "it's $(a) run", "--data", "/my data"])
    assert "Look:   lazaret dlq list --data '/my data' --job-id 'it'\\''s $(a) run'\n" in said
    assert "Again:  lazaret dlq retry --data '/my data' 'it'\\''s $(a) run'    " in said
    assert "(one group: lazaret dlq retry --data '/my data' --group 3f2a)\n" in said
    said = summary(tmp_path, told, analysis=THREE, options=["--run", "-x", "--server", "http://h:1"])
    assert "Again:  lazaret dlq retry --server http://h:1 -- -x    (" in said


def test_a_run_that_was_stopped_says_why_and_how_to_go_on(tmp_path):
    told = {"done": 115, "quarantined": 5, "running": 2, "elapsed_ms": 10000}
    said = summary(tmp_path, told, {"stopped": "5 items failed\x1b[1m, and --max-failures is 4"},
                   analysis=analysis((5, "X::y", "3f2a")), options=["--data", "d"])
    assert said.splitlines()[:2] == ["200 items: 115 done, 5 quarantined in 1 group, 80 left, in 10.0 s (12/s)",
                                     "Stopped: 5 items failed, and --max-failures is 4"]
    assert said.splitlines()[-1] == "Go on:  lazaret map --resume --data d --job-id nightly"


def test_a_run_that_was_interrupted_says_how_to_go_on(tmp_path):
    told = {"done": 120, "elapsed_ms": 10000}
    assert summary(tmp_path, told, {"interrupted": True}) == """\
200 items: 120 done, 80 left, in 10.0 s (12/s)
Interrupted: what was running is recorded, and will run again
Go on:  lazaret map --resume --job-id nightly
"""
    said = summary(tmp_path, {**told, "total_final": False}, {"interrupted": True})
    assert said.startswith("200 items: 120 done, 80 or more left, in")


def test_a_resumed_run_tells_of_the_whole_quarantine(tmp_path):
    told = {"done": 145, "quarantined": 5, "before": 50, "elapsed_ms": 10000}
    said = summary(tmp_path, told, analysis=THREE)
    assert said.splitlines()[:2] == ["150 items: 145 done, 5 quarantined, in 10.0 s (15/s); 50 had ended before",
                                     "In the quarantine: 20 items of this run, in 3 groups"]
    told = {"done": 150, "before": 50, "elapsed_ms": 10000}
    assert "Look:" in summary(tmp_path, told, analysis=THREE)
    assert "Look:" not in summary(tmp_path, told, analysis=analysis())


def test_the_other_ends_are_counted_too(tmp_path):
    told = {"done": 194, "skipped": 3, "handled": 2, "cancelled": 1, "elapsed_ms": 10000}
    assert summary(tmp_path, told) == "200 items: 194 done, 3 skipped, 2 handled, 1 cancelled, in 10.0 s (20/s)\n"


def test_a_summary_without_its_groups_is_one_all_the_same(tmp_path):
    out, err = run(counts(done=195, quarantined=5, elapsed_ms=8000), step("summary", {}), options=["--run", "nightly"], code=5)
    assert err == "lazaret: nobody answers\n"
    assert out == """\
200 items: 195 done, 5 quarantined, in 8.0 s (25/s)
Look:   lazaret dlq list --job-id nightly
Groups: lazaret dlq analyze --job-id nightly
Again:  lazaret dlq retry nightly
"""


def test_work_that_is_no_run_is_summed_up_by_its_counts():
    out, _ = run(counts(done=7, quarantined=1, retrying=2, total=10, elapsed_ms=4000), step("summary", {}), options=["--noun", "job"])
    assert out == "10 jobs: 7 done, 1 quarantined, 2 to be tried again, in 4.0 s (2/s)\n"


def test_the_summary_is_the_last_object_in_json(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(THREE))
    told = lines(event("started"), counts(done=120, quarantined=20, failed_attempts=31, elapsed_ms=12340),
                 step("summary", {"stopped": "too many", "interrupted": True}),
                 options=["--run", "nightly", "--analysis", str(tmp_path / "a.json")])
    assert told[-1] == {"event": "summary", "run_id": "nightly", "total": 200, "before": 0, "done": 120, "quarantined": 20,
                        "skipped": 0, "handled": 0, "cancelled": 0, "left": 60, "failed_attempts": 31, "elapsed_ms": 12340,
                        "total_final": True, "interrupted": True, "stopped": "too many", "group_count": 3,
                        "groups": THREE["groups"]}


def test_the_summary_reads_what_the_program_answers(lz, tmp_path):
    for _ in range(2):
        lz.dead(run_id="nightly")
    lz.dead(DENIED, run_id="nightly")
    real = lz.json("dlq", "analyze", "--job-id", "nightly")
    said = summary(tmp_path, {"done": 197, "quarantined": 3, "elapsed_ms": 1000}, analysis=real).splitlines()
    assert said[0] == "200 items: 197 done, 3 quarantined in 2 groups, in 1.0 s (200/s)"
    for line, group in zip(said[1:3], real["groups"], strict=True):
        assert line == f"{group['count']:8}  {group['signature']}  {group['fingerprint']}"


def test_the_summary_takes_the_place_of_the_live_line():
    shown = Screen(on_terminal(counts(done=200, elapsed_ms=10000), step("summary", {})))
    assert shown.lines == ["200 items: 200 done, in 10.0 s (20/s)"] and shown.rest == ""
