"""What came from a job is made safe before it is shown (src/cli/text.c)."""

import json

import pytest

# What a job says, and what of it may be seen on one line.
TEXTS = [
    ("plain text", "plain text"),
    ("\x1b[31mred\x1b[0m", "red"),
    ("\x1b]0;title\x07after", "after"),
    ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
    ("\x1bPdevice\x1b\\after", "after"),
    ("\x1b(Bcharset", "charset"),
    ("\x1bcreset", "reset"),
    ("\u009b31mcsi as one character", "csi as one character"),
    ("\u009d0;title\u009cafter", "after"),
    ("\x1b[", ""),
    ("\x1b[31", "31"),
    ("\x1b]unended sequences hide nothing", "unended sequences hide nothing"),
    ("\x1b\x1b[2Jdouble", "double"),
    ("bell\x07 back\x08 del\x7f", "bell back del"),
    ("over\rwritten", "over written"),
    ("two\nlines\tand a tab", "two lines and a tab"),
    ("right\u202eto left\u2066x\u2069\u200f", "rightto leftx"),
    ("line\u2028separator", "line separator"),
    ("ünï \U0001f600 ok", "ünï \U0001f600 ok"),
    ("nul\x00byte", "nulbyte"),
]


def dead(lz, text):
    return lz.dead({"class": "timeout", "error_type": "X", "message": text, "agent_id": text or "a"},
                   job_id="job " + text.replace("\x00", ""), queue="q " + text.replace("\x00", ""))


@pytest.mark.parametrize("text, seen", TEXTS, ids=[repr(t[0])[1:20] for t in TEXTS])
def test_a_row_shows_a_text_without_what_acts_on_a_terminal(lz, text, seen):
    dead(lz, text)
    row = lz.ok("dlq", "list").rstrip("\n").split("\t")
    assert len(row) == 7
    assert row[3] == "q " + seen


@pytest.mark.parametrize("text", [t[0] for t in TEXTS], ids=[repr(t[0])[1:20] for t in TEXTS])
def test_no_control_character_reaches_any_plain_output(lz, text):
    letter = dead(lz, text)
    for args in [["dlq", "list"], ["dlq", "show", letter], ["dlq", "groups"], ["dlq", "stats"], ["dlq", "analyze"],
                 ["status"], ["audit", "show"], ["dlq", "export", "-", "--format", "csv"]]:
        out = lz.ok(*args).replace("\r\n", "\n")
        bad = [c for c in out if (ord(c) < 32 and c not in "\n\t") or 0x7f <= ord(c) < 0xa0
               or c in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029"]
        assert bad == [], args


def test_a_terminal_never_sees_an_escape_of_a_job(lz):
    letter = dead(lz, "\x1b]0;owned\x07\u009b2J\u202eevil\x7f")
    for args in [["dlq", "list"], ["dlq", "show", letter], ["status"], ["dlq", "show", letter, "-o", "json"],
                 ["dlq", "list", "-o", "json"], ["dlq", "export", "-"], ["audit", "export", "-"]]:
        shown = lz.on_terminal(*args)
        assert not any(c in shown for c in "\x1b\x07\u009b\u202e\x7f"), args


def test_json_is_not_altered(lz):
    text = "\x1b[31mred\u009b\u202e\x7f"
    letter = dead(lz, text)
    assert lz.json("dlq", "show", letter)["failure_history"][0]["error_message"] == text
    assert "\u202e" in lz.ok("dlq", "show", letter, "-o", "json")


def test_errors_quote_safely(lz):
    err = lz.fails(2, "dlq", "list", "--\x1b[31mred")
    assert "\x1b" not in err and "red" in err
    assert "\x1b" not in lz.fails(3, "dlq", "show", "\x1b]0;x\x07abcdefgh")


def test_a_stack_trace_keeps_its_lines(lz):
    letter = lz.dead({"class": "timeout", "message": "m", "stack_trace": "at a\r\n  at b\n\tat \x1b[1mc\x1b[0m"})
    story = lz.ok("dlq", "show", letter)
    assert "       at a\n         at b\n       \tat c\n" in story


def test_an_id_is_quoted_in_the_commands_to_copy(lz):
    lz.ok("dlq", "import", "-", input=json.dumps([
        {"dlq_id": "x; rm -rf '~'", "original_subject": "s", "original_payload": {}, "reason": "r"}]))
    assert "lazaret dlq retry 'x; rm -rf '\\''~'\\'''\n" in lz.ok("dlq", "show", "x; rm -rf '~'")


def test_a_payload_that_is_no_json_is_shown(lz):
    lz.ok("dlq", "import", "-", input=json.dumps([
        {"dlq_id": "raw-letter", "original_subject": "s", "original_payload": "not \x1b[31mjson",
         "payload_encoding": "text", "reason": "malformed"}]))
    story = lz.ok("dlq", "show", "raw-letter")
    assert "Payload" in story and "\x1b" not in story
