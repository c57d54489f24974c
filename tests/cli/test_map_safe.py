"""Items that are trouble, and commands that behave badly: nothing of it is read as code, as a path or as a flag, and
nothing of it holds up or fills the runner."""

import json
import os
import sys

from map_runs import PATIENCE, alive, maps, sh

# Writes each argument to the log as it came, and ends it with a NUL.
SHOW = ["--", "sh", "-c", 'printf "%s\\0" "$@" >> "$LOG"', "sh"]
AWKWARD = ["", " ", "a b", "  two  ends  ", "'", '"', "it's \"quoted\"", "line\nbreak", "tab\tand\rreturn", "$(touch gone)", "`touch gone`", "$HOME",
           "; touch gone", "| cat", "&& touch gone", "> gone", "../../etc/passwd", "/etc/passwd", ".", "..", "-rf", "--help", "--", "*", "{}", "{id}",
           "%s%n%d", "\\", "\\n", "\x01\x1b[31mred\x7f", "é ü 日本語 🦀", "‮right to left", "a" * 300]


def shown(maps):
    return (maps.folder / "log").read_bytes().split(b"\0")[:-1]


def named(maps, ids):
    """An input whose items have these ids, and the letters of a run by them."""
    return maps.json([{"id": text} for text in ids])


def letters_by_id(maps, **query):
    return {letter["item_data"]["id"]: letter for letter in maps.letters(**query).values()}


# ---- items -----------------------------------------------------------------------------------------------------------

def test_an_awkward_item_arrives_as_it_is(maps):
    events = maps.map("--input", maps.json(AWKWARD), "--parallel", "1", *SHOW, "{}", "--name={}", "a{}b")
    assert events[-1]["done"] == len(AWKWARD)
    assert shown(maps) == [part for item in AWKWARD for part in (item.encode(), b"--name=" + item.encode(), b"a" + item.encode() + b"b")]
    assert not (maps.folder / "gone").exists()


def test_an_awkward_field_arrives_as_it_is_and_is_not_filled_in_again(maps):
    maps.json([{"id": n, "name": text} for n, text in enumerate(AWKWARD)])
    maps.map("--input", "items.json", "--id-field", "id", "--parallel", "1", *SHOW, "{name}", "<{name}>")
    assert shown(maps) == [part for item in AWKWARD for part in (item.encode(), b"<" + item.encode() + b">")]


def test_awkward_ids_stay_within_the_directory_and_are_told_apart(maps):
    ids = [text for text in AWKWARD if text]
    events = maps.map("--input", named(maps, ids), "--id-field", "id", "--job-id", "../r", "--retry", "1", *sh("echo out; exit 1"))
    assert events[-1]["quarantined"] == len(ids)
    letters = letters_by_id(maps)
    assert set(letters) == set(ids) and len({letter["item_id"] for letter in letters.values()}) == len(ids)
    logs = {letter["failure_history"][0]["json_log_location"] for letter in letters.values()}
    assert len(logs) == len(ids)
    for path in logs:
        assert os.path.realpath(path).startswith(os.path.realpath(maps.lz.data / "artifacts") + "/") and open(path).read() == "out\n"
    assert sorted(path.name for path in maps.lz.data.parent.iterdir()) == ["data", "folder"]
    maps.retry("../r", code=1)
    assert {letter["failure_count"] for letter in maps.letters().values()} == {2}


def test_awkward_items_are_exported_and_read_back(maps, tmp_path):
    ids = [text for text in AWKWARD if text]
    maps.map("--input", named(maps, ids), "--id-field", "id", "--job-id", "r", "--retry", "1", *sh("exit 1"))
    maps.lz.ok("dlq", "export", tmp_path / "out", "--format", "map", "--job-id", "r")
    assert len(list((tmp_path / "out/items").iterdir())) == len(ids)
    for path in (tmp_path / "out").rglob("*"):
        assert path.resolve().is_relative_to(tmp_path / "out")
    other = {"LAZARET_DATA": str(tmp_path / "other")}
    maps.lz.ok("dlq", "import", tmp_path / "out", env=other)
    assert {letter["item_data"]["id"] for letter in maps.lz.json("dlq", "list", "--limit", "1000", env=other)} == set(ids)


def test_an_awkward_text_reaches_no_terminal_as_it_is(maps):
    done = maps.run("--input", maps.json(["\x1b[2Jhello\x07"]), "--retry", "1", *sh('printf "bad \\033]0;title\\007 news\\n" >&2; exit 1'))
    assert "\x1b" not in done.stdout + done.stderr and "\x07" not in done.stdout + done.stderr
    assert "bad" in done.stderr


def test_bytes_that_are_no_text_arrive_as_they_are(maps):
    lines = [b"\xff\xfe plain", b"caf\xe9.txt", b"\xc3\x28", b"ok"]
    maps.write("items", b"\n".join(lines) + b"\n")
    maps.map("--input", "items", "--input-format", "lines", "--parallel", "1", *SHOW, "{}")
    assert shown(maps) == lines
    # In a variable too, and in the letter's item without loss.
    maps.map("--input", "items", "--input-format", "lines", "--retry", "1", "--max-items", "1", *sh('printf %s "$LAZARET_ITEM" > item; printf "no \\377\\n" >&2; exit 1'))
    assert (maps.folder / "item").read_bytes() == lines[0]
    (letter,) = maps.lz.json("dlq", "list")
    assert "no" in letter["failure_history"][0]["error_message"]
    (maps.folder / "item").unlink()
    maps.retry(letter["dlq_id"], code=1)
    assert (maps.folder / "item").read_bytes() == lines[0]


def test_a_nul_in_an_item_is_told_and_the_others_run(maps):
    events = maps.map("--input", maps.json(["a\0b", "c"]), "--policy", maps.policy(), *SHOW, "{}")
    assert (events[-1]["done"], events[-1]["quarantined"]) == (1, 1) and shown(maps) == [b"c"]
    (failure,) = maps.letter()["failure_history"]
    assert "NUL" in failure["error_message"] and failure["class"] == "invalid_input"
    # A command that takes the item from the file is run.
    maps.map("--input", "items.json", "--max-items", "1", *sh('cat "$LAZARET_ITEM_FILE" > item', "x"))
    assert (maps.folder / "item").read_bytes() == b"a\0b"


def test_a_hundred_kilobytes_are_an_argument_and_a_megabyte_is_a_file(maps):
    maps.map("--input", maps.json(["x" * 100_000]), *sh('printf %s "$1" | wc -c >> "$LOG"; printf %s "$LAZARET_ITEM" | wc -c >> "$LOG"'))
    assert maps.log() == ["100000", "100000"]
    (maps.folder / "log").unlink()
    maps.write("items.json", json.dumps([{"id": "big", "text": "é" * 500_000}], ensure_ascii=False))
    events = maps.map("--input", "items.json", "--id-field", "id", "--policy", maps.policy(), "--job-id", "r", "--", "echo", "{}")
    assert events[-1]["quarantined"] == 1
    (failure,) = maps.letter()["failure_history"]
    assert "LAZARET_ITEM_FILE" in failure["error_message"] and len(failure["error_message"]) < 500
    events = maps.map("--input", "items.json", "--id-field", "id", "--job-id", "s", *sh('cat "$LAZARET_ITEM_FILE" > item; env | wc -c >> "$LOG"', "{id}"))
    assert events[-1]["done"] == 1 and int(maps.log()[0]) < 100_000
    assert json.loads((maps.folder / "item").read_text()) == {"id": "big", "text": "é" * 500_000}


def test_an_item_that_is_too_large_for_the_store_is_told(maps):
    maps.json(["ok", "x" * 5_000_000])
    done = maps.run("--input", "items.json", *sh('echo "$LAZARET_ITEM_ID" >> "$LOG"', "x"))
    assert done.returncode == 2 and "too large" in done.stderr and "item 2" in done.stderr, done


# ---- commands --------------------------------------------------------------------------------------------------------

def test_standard_input_is_at_its_end_for_the_command(maps):
    events = maps.map("--input", "-", *sh('wc -c >> "$LOG"'), input="a\nb\n")
    assert events[-1]["done"] == 2 and maps.log() == ["0", "0"]


def test_a_command_may_close_its_pipes_and_go_on(maps):
    events = maps.map("--input", maps.lines("x"), "--retry", "1", *sh('exec >&- 2>&- 3>&- </dev/null; sleep 0.3; echo late >> "$LOG"; exit 9'))
    assert events[-1]["quarantined"] == 1 and maps.log() == ["late"]
    assert maps.letter()["failure_history"][0]["error_type"] == {"CommandFailed": {"exit_code": 9}}


def test_a_daemon_that_is_left_behind_does_not_hold_up_the_run(maps):
    events = maps.map("--input", maps.lines("a", "b"), "--parallel", "1",
                      *sh('setsid sh -c "echo \\$\\$ >> daemons; exec sleep 600" & until test -s daemons; do sleep 0.01; done; echo "$1 done"'))
    maps.pids += map(int, (maps.folder / "daemons").read_text().split())
    assert events[-1]["done"] == 2 and events[-1]["elapsed_ms"] < 1000 * PATIENCE
    assert all(alive(pid) for pid in maps.pids)


def test_children_that_hold_the_pipe_do_not_hold_up_the_run(maps):
    events = maps.map("--input", maps.lines("a"), "--retry", "1", *sh('sleep 600 & echo $! > child; echo "said in time" >&2; exit 4'))
    maps.pids.append(int((maps.folder / "child").read_text()))
    assert events[-1]["quarantined"] == 1
    assert maps.letter()["failure_history"][0]["error_message"] == "said in time"


def test_a_command_that_writes_without_end_fills_neither_memory_nor_the_evidence(maps):
    size = 500_000_000
    run = maps.start("--input", maps.lines("x"), "--job-id", "r", "--retry", "1", *sh(f"head -c {size} /dev/zero; echo end >&2; exit 1"))
    _, status, usage = os.wait4(run.process.pid, 0)
    run.process.returncode = os.waitstatus_to_exitcode(status)
    run.end()
    assert usage.ru_maxrss < 400_000, f"{usage.ru_maxrss} KiB"
    letter = maps.letter()
    failure = letter["failure_history"][0]
    assert failure["error_message"] == "end" and failure["artifacts"]["stdout_bytes"] == size
    assert len(json.dumps(letter)) < 200_000
    assert size <= os.stat(failure["json_log_location"]).st_size <= size + 1000
    os.unlink(failure["json_log_location"])


def test_lines_without_end_are_no_trouble(maps):
    failure = maps.failure(command=sh("head -c 3000000 /dev/zero | tr '\\0' x >&2; exit 1"))
    assert len(failure["error_message"]) < 20_000 and failure["artifacts"]["stderr_bytes"] == 3_000_000


def test_output_that_is_no_text_is_kept_as_far_as_json_can(maps):
    failure = maps.failure(command=sh("printf 'a\\000b\\377c\\033[31m\\n' >&2; exit 1"))
    assert failure["error_message"].startswith("a") and "c" in failure["error_message"]
    assert open(failure["json_log_location"], "rb").read() == b"a\0b\xffc\x1b[31m\n"


def test_a_command_that_says_without_end_is_bounded(maps):
    failure = maps.failure(command=sh("head -c 20000000 /dev/zero | tr '\\0' x >&3; echo real >&2; exit 1"))
    assert failure["error_message"] == "real" and len(json.dumps(failure)) < 200_000


def test_no_descriptor_of_the_runner_reaches_the_command(maps):
    maps.map("--input", maps.lines("x"), "--", sys.executable, "-c",
             "import os\nopen(os.environ['LOG'],'w').write(' '.join(sorted(os.listdir('/proc/self/fd'), key=int)))")
    assert maps.log()[0].split()[:4] == ["0", "1", "2", "3"] and len(maps.log()[0].split()) <= 6


def test_a_command_starts_with_signals_as_usual(maps):
    maps.map("--input", maps.lines("x"), *sh("grep -E 'SigBlk|SigIgn' /proc/self/status > signals"))
    masks = {line.split()[0]: int(line.split()[1], 16) for line in (maps.folder / "signals").read_text().splitlines()}
    assert masks["SigBlk:"] == 0 and masks["SigIgn:"] & (1 << 1 | 1 << 14 | 1 << 12) == 0


def test_nothing_is_left_in_the_temporary_directory(maps, tmp_path):
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    events = maps.map("--input", maps.json(["x" * 300_000, "y"]), "--retry", "1", *sh('echo "{}" > "$LAZARET_FAILURE_FILE"; exit 1', "x"), env={"TMPDIR": str(scratch)})
    assert events[-1]["quarantined"] == 2
    assert list(scratch.iterdir()) == []
