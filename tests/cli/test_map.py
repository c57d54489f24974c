"""lazaret map as somebody uses it: a directory of files, a command, what failed, and running it again."""

import itertools
import json

import pytest
from conftest import own_only
from map_runs import count, maps, sh

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon".split()
# Three causes, each told with the name of the file in it; everything else is fine.
CHECK = """echo "$1" >> "$LOG"
read -r word < "$1"
case $word in
header) echo "$1: bad header" >&2; exit 2 ;;
quota) echo "reading $1 exceeds the quota of its owner" >&2; exit 3 ;;
owner) echo "cannot find the owner of $1 in the register" >&2; exit 2 ;;
esac"""
CAUSES = ["fine", "fine", "header", "fine", "quota", "fine", "owner"]


@pytest.fixture
def files(maps):
    """200 files, and which of them are broken for which reason."""
    names = {cause: [] for cause in CAUSES}
    listed = [f"{one}-{two}.txt" for one in WORDS for two in WORDS[:10]]
    for n, name in enumerate(listed):
        cause = CAUSES[n % len(CAUSES)]
        maps.write(name, f"{cause}\n")
        names[cause].append(name)
    maps.lines(*listed)
    return names


# ---- the story -------------------------------------------------------------------------------------------------------

def test_two_hundred_files_with_three_causes_are_repaired_group_by_group(maps, files):
    done = maps.run("--input", "items.txt", "--job-id", "tidy", "--policy", maps.policy(max_attempts=2), *sh(CHECK))
    broken = sum(len(files[cause]) for cause in ("header", "quota", "owner"))
    assert done.returncode == 0, done
    summary = done.stdout.splitlines()
    assert summary[0].startswith(f"200 items: {200 - broken} done, {broken} quarantined in 3 groups, in ")
    assert len([line for line in summary if "CommandFailed::" in line]) == 3
    assert "Look:   lazaret dlq list --job-id tidy" in summary and "Groups: lazaret dlq analyze --job-id tidy" in summary
    assert any(line.startswith("Again:  lazaret dlq retry tidy") for line in summary)

    # The groups are the causes, wherever one looks.
    analysis = maps.lz.json("dlq", "analyze", "--job-id", "tidy")
    assert (analysis["total"], analysis["group_count"], len(analysis["groups"])) == (broken, 3, 3)
    groups = maps.lz.json("dlq", "groups", "--job-id", "tidy")
    assert {group["fingerprint"] for group in groups} == {group["fingerprint"] for group in maps.lz.json("dlq", "groups")}
    assert sorted(group["count"] for group in groups) == sorted(len(files[c]) for c in ("header", "quota", "owner"))
    letters = maps.letters(job_id="tidy")
    members = {group["fingerprint"]: {n for n, l in letters.items() if l["fingerprint"] == group["fingerprint"]} for group in groups}
    assert sorted(map(sorted, members.values())) == sorted(map(sorted, (files["header"], files["quota"], files["owner"])))

    # One cause is gone: only its items run again, in the order of the input.
    for name in files["quota"]:
        maps.write(name, "fine\n")
    (quota,) = [fingerprint for fingerprint, names in members.items() if names == set(files["quota"])]
    (maps.folder / "log").unlink()
    events = maps.retry("--group", quota, "--parallel", "1")
    assert maps.log() == files["quota"]
    assert count(events, "succeeded") == len(files["quota"]) and count(events, "quarantined") == 0
    after = maps.letters(job_id="tidy")
    assert all(after[name]["state"] == "recovered" for name in files["quota"])
    others = files["header"] + files["owner"]
    assert all(after[name] == letters[name] for name in others)

    # The rest runs again and fails again: the histories go on.
    (maps.folder / "log").unlink()
    events = maps.retry("tidy", "--parallel", "1", code=1)
    in_order = sorted(others, key=lambda name: (WORDS.index(name.split("-")[0]), WORDS.index(name[:-4].split("-")[1])))
    assert sorted(maps.log()) == sorted(others * 2) and list(dict.fromkeys(maps.log())) == in_order
    for name, letter in maps.letters(job_id="tidy", state="dead").items():
        numbers = [failure["attempt_number"] for failure in letter["failure_history"]]
        assert numbers == [1, 2, 3, 4] and letter["failure_count"] == 4, (name, numbers)
        assert letter["failure_history"][:2] == letters[name]["failure_history"]
        assert (letter["dlq_id"], letter["first_attempt"]) == (letters[name]["dlq_id"], letters[name]["first_attempt"])


def test_what_succeeds_in_a_later_round_is_recovered_with_its_whole_history(maps):
    maps.map("--input", maps.lines("a", "b"), "--job-id", "r", "--retry", "1", *sh('test -e "$1.ok" || { echo no >&2; exit 1; }'))
    maps.retry("r", code=1)
    maps.write("a.ok", "")
    maps.retry("r", code=1)
    letters = maps.letters()
    assert {name: letter["state"] for name, letter in letters.items()} == {"a": "recovered", "b": "dead"}
    assert [failure["attempt_number"] for failure in letters["a"]["failure_history"]] == [1, 2]
    assert [failure["attempt_number"] for failure in letters["b"]["failure_history"]] == [1, 2, 3]
    assert (letters["a"]["redrive_count"], letters["a"]["recovered"]) == (2, True)
    assert maps.states()["done"] == 1 and maps.states()["dead"] == 1


def test_one_letter_is_run_again_by_its_id_with_the_command_and_place_of_its_run(maps, tmp_path):
    maps.map("--input", maps.lines("a", "b"), "--job-id", "r", "--retry", "1", *sh('pwd >> "$LOG"; test -e "$1.ok"'))
    maps.write("a.ok", "")
    letter = maps.letters()["a"]["dlq_id"]
    done = maps.lz.run("dlq", "retry", letter, cwd=tmp_path)
    assert done.returncode == 0 and "1 done" in done.stdout, done
    assert maps.log() == [str(maps.folder)] * 3
    assert {name: letter["state"] for name, letter in maps.letters().items()} == {"a": "recovered", "b": "dead"}


def test_retry_takes_the_flags_of_a_selection(maps):
    maps.map("--input", maps.json([{"n": n} for n in range(6)]), "--id-field", "n", "--job-id", "r", "--retry", "1", "--parallel", "1",
             *sh('echo "$1" >> "$LOG"; exit 1', "{n}"))
    (maps.folder / "log").unlink()
    maps.retry("r", "--filter", "item.n >= 3", "--max-retries", "2", "--parallel", "1", code=1)
    assert sorted(maps.log()) == ["3", "3", "4", "4", "5", "5"]
    assert [maps.letters()[n]["failure_count"] for n in "012345"] == [1, 1, 1, 3, 3, 3]


def test_retry_asks_before_it_runs_many_and_knows_when_there_is_nothing(maps):
    maps.map("--input", maps.lines("a", "b"), "--job-id", "r", "--retry", "1", *sh('echo "$1" >> "$LOG"; exit 1'))
    assert "this would retry 2 dead letters" in maps.lz.fails(4, "dlq", "retry", "r")
    assert maps.log() == ["a", "b"] or maps.log() == ["b", "a"]
    assert maps.lz.fails(3, "dlq", "retry", "other")


def test_letters_of_a_run_are_listed_exported_and_cleared_by_its_id(maps, tmp_path):
    for run in ("r", "s"):
        maps.map("--input", maps.lines("a", "b"), "--job-id", run, "--retry", "1", *sh("echo no >&2; exit 1"))
    assert len(maps.lz.json("dlq", "list", "--job-id", "r", "--eligible")) == 2
    assert len(maps.lz.json("dlq", "list", "--job-id", "r", "--limit", "1")) == 1
    maps.lz.ok("dlq", "export", tmp_path / "map", "--format", "map", "--job-id", "r")
    index = json.loads((tmp_path / "map/index.json").read_text())
    assert (index["job_id"], index["item_count"]) == ("r", 2)
    exported = [json.loads(path.read_text()) for path in (tmp_path / "map/items").iterdir()]
    assert sorted(letter["item_data"] for letter in exported) == ["a", "b"]
    maps.lz.ok("dlq", "clear", "r", "--yes", "--force")
    assert {letter["envelope"]["run_id"] for letter in maps.lz.json("dlq", "list", "--state", "dead")} == {"s"}


def test_the_groups_of_one_run_are_told_from_those_of_others(maps):
    for run, word in (("r", "red"), ("s", "blue")):
        maps.map("--input", maps.lines("a", "b"), "--job-id", run, "--retry", "1", *sh(f"echo it is {word} >&2; exit 1"))
    (group,) = maps.lz.json("dlq", "groups", "--job-id", "s")
    assert (group["count"], group["signature"]) == (2, "CommandFailed::it is blue")
    assert maps.lz.ok("dlq", "groups", "--job-id", "s").split("\t")[::3] == [group["fingerprint"], "CommandFailed::it is blue\n"]
    assert maps.lz.json("dlq", "groups", "--job-id", "nobody") == [] and len(maps.lz.json("dlq", "groups")) == 2


def test_a_whole_analysis_is_drawn_on_a_terminal(maps):
    maps.map("--input", maps.lines("a", "b", "c"), "--job-id", "r", "--retry", "1", *sh('echo "no $1" >&2; exit 1'))
    shown = maps.lz.on_terminal("dlq", "analyze", "--job-id", "r")
    assert "CommandFailed" in shown and "█" in shown


# ---- progress --------------------------------------------------------------------------------------------------------

def test_events_tell_everything_that_happens_to_an_item(maps):
    events = maps.map("--input", maps.lines("good", "flaky", "bad"), "--job-id", "r", "--policy", maps.policy(max_attempts=2), "--parallel", "1",
                      *sh('case $1 in good) ;; flaky) test $LAZARET_ATTEMPT = 2 ;; bad) echo "it is bad" >&2; exit 9 ;; esac'))
    ids = {event["item_id"]: [] for event in events[:-1]}
    for event in events[:-1]:
        assert event["run_id"] == "r" and event["job_id"] == f"r/{event['item_id']}"
        ids[event["item_id"]].append((event["event"], event["attempt"]))
    assert sorted(ids.values()) == [
        [("started", 1), ("retrying", 1), ("started", 2), ("quarantined", 2)],
        [("started", 1), ("retrying", 1), ("started", 2), ("succeeded", 2)],
        [("started", 1), ("succeeded", 1)]]
    (dead,) = [event for event in events if event["event"] == "quarantined"]
    assert (dead["error_type"], dead["message"], dead["dlq_id"]) == ("CommandFailed", "it is bad", maps.letter()["dlq_id"])
    assert open(dead["artifact"]).read() == "it is bad\n"
    assert all("retry_at" in event for event in events if event["event"] == "retrying")
    assert all("duration_ms" in event for event in events[:-1] if event["event"] != "started")
    summary = events[-1]
    assert {name: summary[name] for name in ("event", "run_id", "total", "done", "quarantined", "failed_attempts", "left", "interrupted", "total_final")} == {
        "event": "summary", "run_id": "r", "total": 3, "done": 2, "quarantined": 1, "failed_attempts": 3, "left": 0, "interrupted": False, "total_final": True}
    assert summary["group_count"] == 1 and summary["groups"][0]["count"] == 1


def test_a_terminal_shows_a_live_line_and_what_failed(maps):
    child = maps.lz.terminal("map", "--input", maps.lines(*range(8)), "--job-id", "r", "--retry", "1", "--parallel", "1", "--no-color",
                             *sh('until test -e "$LOG"; do sleep 0.02; done; test "$1" != 5 || { echo "five is bad" >&2; exit 1; }'), color=True)
    child.expect(r"\d+/8")
    maps.write("log", "")
    child.expect("5: five is bad \\(attempt 1, quarantined as ")
    child.expect("8 items: 7 done, 1 quarantined in 1 group, in ")
    child.expect_exact("lazaret dlq retry r")
    child.wait()
    assert child.exitstatus == 0


def test_without_a_terminal_failures_are_plain_lines(maps):
    done = maps.run("--input", maps.lines("a"), "--job-id", "r", "--policy", maps.policy(max_attempts=2), *sh("echo no >&2; exit 1"))
    first, second = done.stderr.splitlines()
    assert first.startswith("item a: attempt 1 failed: no; again ")
    assert second.startswith("item a: attempt 2 failed: no; quarantined as ")
    assert "\033" not in done.stdout + done.stderr


# ---- no change, and exit codes ---------------------------------------------------------------------------------------

@own_only
def test_a_dry_run_prints_the_commands_and_changes_nothing(maps):
    maps.json([{"id": 1, "name": "a b"}, {"id": 2, "name": "$(x)"}])
    done = maps.run("--input", "items.json", "--id-field", "id", "--dry-run", "--", "touch", "{name}")
    assert done.returncode == 0 and done.stdout == "1\ttouch 'a b'\n2\ttouch '$(x)'\n", done
    assert "2 items would be run" in done.stderr
    assert not maps.lz.data.exists() and sorted(path.name for path in maps.folder.iterdir()) == ["items.json"]


@own_only
def test_a_dry_run_refuses_what_the_run_would_refuse(maps):
    maps.lines("a")
    assert "filter" in maps.refused("--input", "items.txt", "--dry-run", "--filter", "item ==", "--", "true")
    assert maps.refused("--input", "nothing.txt", "--dry-run", "--", "true")


@own_only
@pytest.mark.parametrize("args, said", [
    (["--input", "items.txt"], "needs a COMMAND"),
    (["--", "true"], "needs --input"),
    (["--input", "items.txt", "--", "no-such-command"], "no-such-command: command not found"),
    (["--input", "items.txt", "--", "./items.txt", "{}"], "./items.txt: command not found"),
    (["--input", "items.txt", "--parallel", "0", "--", "true"], "--parallel"),
    (["--input", "items.txt", "--retry", "0", "--", "true"], "--retry"),
    (["--input", "items.txt", "--timeout", "soon", "--", "true"], "--timeout"),
    (["--input", "items.txt", "--failure-threshold", "20", "--", "true"], "--failure-threshold"),
    (["--input", "items.txt", "--on-item-failure", "shrug", "--", "true"], "shrug"),
    (["--input", "items.txt", "--on-item-failure", "custom", "--", "true"], "--custom"),
    (["--input", "items.txt", "--custom", "true", "--", "true"], "--on-item-failure custom"),
    (["--input", "items.txt", "--commit-required", "--", "true"], "--worktree"),
    (["--input", "items.txt", "--input-format", "xml", "--", "true"], "xml"),
    (["--input", "items.txt", "--job-id", "", "--", "true"], "--job-id"),
    (["--input", "items.txt", "--job-id", "x" * 65, "--", "true"], "--job-id"),
    (["--input", "items.txt", "--job-id", "a\nb", "--", "true"], "--job-id"),
    (["--resume"], "--job-id"),
    (["--input", "items.txt", "-f", "w.yml", "--", "true"], "not both"),
    (["-f", "no-such-file.yml"], "no-such-file.yml"),
], ids=itertools.count())
def test_wrong_usage_is_told_and_changes_nothing(maps, args, said):
    maps.lines("a")
    maps.write("w.yml", "map: {input: items.txt, agent_template: [true]}\n")
    assert said in maps.refused(*args)


def test_both_a_policy_and_a_number_of_runs_are_refused(maps):
    maps.lines("a")
    err = maps.run("--input", "items.txt", "--policy", "map", "--retry", "2", *sh('echo >> "$LOG"'))
    assert err.returncode == 2 and "--retry and --policy" in err.stderr and maps.log() == []


def test_a_policy_that_is_not_there_is_not_found(maps):
    done = maps.run("--input", maps.lines("a"), "--policy", "nobody", *sh('echo >> "$LOG"'))
    assert done.returncode == 3 and "policy list" in done.stderr and maps.log() == []


def test_a_run_that_cannot_write_its_directory_says_so(maps):
    maps.lines("a")
    maps.write("blocked", "a file")
    done = maps.run("--input", "items.txt", *sh('echo >> "$LOG"'), env={"LAZARET_DATA": str(maps.folder / "blocked")})
    assert done.returncode == 5 and maps.log() == [], done


def test_the_environment_names_the_item_and_the_run(maps):
    maps.map("--input", maps.json([{"id": "one", "n": 1}]), "--id-field", "id", "--job-id", "r", "--retry", "1",
             *sh('env > environment; pwd > directory', "{}"))
    names = dict(line.split("=", 1) for line in (maps.folder / "environment").read_text().splitlines() if "=" in line)
    assert json.loads(names["LAZARET_ITEM"]) == {"id": "one", "n": 1}
    assert (names["LAZARET_ITEM_ID"], names["LAZARET_ATTEMPT"], names["LAZARET_JOB_ID"]) == ("one", "1", "r")
    assert (maps.folder / "directory").read_text() == f"{maps.folder}\n"


def test_so_many_run_at_a_time_and_no_more(maps):
    meet = 'echo in >> "$LOG"; until test "$(wc -l < "$LOG")" -ge 3; do sleep 0.02; done'
    maps.map("--input", maps.lines(*range(3)), "--parallel", "3", "--timeout", "60s", *sh(meet))
    (maps.folder / "log").unlink()
    maps.map("--input", maps.lines(*range(6)), "--parallel", "2", *sh('mkdir "slot$1" && ls -d slot* | wc -l >> "$LOG"; rmdir "slot$1"'))
    assert max(map(int, maps.log())) <= 2
