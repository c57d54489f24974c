"""What a person sees: tables, colour, questions."""

import re

import pexpect

from conftest import DENIED, Lazaret


def test_a_list_is_a_table_with_short_ids_and_ages(lz):
    one, two = lz.dead(queue="billing"), lz.dead(DENIED, queue="mail")
    shown = lz.on_terminal("dlq", "list").splitlines()
    assert shown[0].split() == ["ID", "AGE", "REASON", "QUEUE", "ATTEMPTS", "SIGNATURE"]
    short = shown[1].split()[0]
    assert two.startswith(short) and not one.startswith(short) and len(short) >= 8
    assert re.search(r"\d+s +not_retryable +mail +1 +Unknown::user may not write", shown[1])
    assert lz.json("dlq", "show", short)["dlq_id"] == two


def test_the_closing_note_says_how_many_others_there_are(lz):
    assert lz.on_terminal("dlq", "list") == "No dead letters.\n"
    letter = lz.dead()
    lz.dead()
    lz.ok("dlq", "discard", letter)
    assert "1 more is recovered, discarded or rolled back; --state all shows them." in lz.on_terminal("dlq", "list")
    assert "The first 1; --limit shows more." in lz.on_terminal("dlq", "list", "--limit", "1", "--state", "all")
    assert "No dead letter matches." in lz.on_terminal("dlq", "list", "--queue", "none")


def test_a_narrow_terminal_cuts_the_signature_and_nothing_else(lz):
    lz.dead({"class": "timeout", "message": "abcdefghijk lmnopqrstuvw xyzabcdefg hijklmnop qrstuvw"})
    lines = lz.on_terminal("dlq", "list", columns=80).splitlines()
    assert max(map(len, lines[:2])) <= 80
    assert "retries_exhausted" in lines[1]


def test_colour_is_for_terminals_and_only_when_wanted(lz):
    letter = lz.dead()
    assert "\x1b[1m" in lz.on_terminal("dlq", "show", letter, color=True)
    assert "\x1b[" not in lz.on_terminal("dlq", "show", letter)
    assert "\x1b[" not in lz.on_terminal("dlq", "show", letter, color=True, env={"NO_COLOR": "1"})
    assert "\x1b[" not in lz.on_terminal("dlq", "show", letter, color=True, env={"TERM": "dumb"})
    assert "\x1b[" not in lz.ok("dlq", "show", letter)


def test_a_question_is_asked_before_much_is_changed(lz):
    lz.dead(), lz.dead()
    child = lz.terminal("dlq", "retry", "--all")
    child.expect_exact("Retry 2 dead letters? [y/N] ")
    child.sendline("n")
    child.expect_exact("nothing was changed")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 4
    assert len(lz.json("dlq", "list")) == 2
    child = lz.terminal("dlq", "retry", "--all")
    child.expect_exact("[y/N] ")
    child.sendline("yes")
    child.expect_exact("2 retried, 0 failed, 0 left out")
    child.expect(pexpect.EOF)
    assert lz.json("dlq", "list") == []


def test_the_end_of_input_is_a_no(lz):
    lz.dead()
    child = lz.terminal("dlq", "purge", "--older-than-days", "0")
    child.expect_exact("Remove for good the dead letters older than 0 days? [y/N] ")
    child.sendeof()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 4 and len(lz.json("dlq", "list")) == 1


def test_one_letter_needs_no_question(lz):
    letter = lz.dead()
    assert lz.on_terminal("dlq", "retry", letter) == f"retried {letter}\n"


def test_status_fits_one_screen(lz):
    lz.dead(queue="billing"), lz.dead(DENIED, queue="mail")
    lz.ok("push", "--action", "a", "--queue", "billing")
    shown = lz.on_terminal("status", rows=40, columns=100)
    for part in ["1 pending", "QUEUE", "billing", "2 open", "retries_exhausted", "Groups", "in the last 24 hours"]:
        assert part in shown
    assert len(shown.splitlines()) <= 40


def test_push_and_explain_speak_to_a_person(lz):
    assert lz.on_terminal("push", "--action", "a", "--job-id", "j") == "pushed j (pending)\n"
    assert lz.on_terminal("push", "--action", "a", "--job-id", "j") == "already there: j (pending)\n"
    shown = lz.on_terminal("policy", "explain", "governed")
    assert re.search(r"6 +1h +1h 12m", shown)
    assert "6 runs in all" in shown


def test_without_unicode_the_bars_are_ascii(tmp_path):
    lz = Lazaret(tmp_path / "data")
    lz.env["LC_ALL"] = "C"
    lz.dead()
    shown = lz.on_terminal("dlq", "analyze")
    assert "###" in shown and shown.isascii()
