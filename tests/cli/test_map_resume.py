"""Runs that are cut off, and go on; and several processes on one directory."""

import os
import signal

import pytest
from conftest import own_only
from map_runs import PATIENCE, alive, count, maps, sh, until

pytestmark = own_only

# Runs an item and waits until a file of its name is there; says when it begins and when it is done.
WAIT = sh('echo "begin $1" >> "$LOG"; until test -e "go.$1" -o -e go; do sleep 0.02; done; echo "done $1" >> "$LOG"')


def go(maps, *items):
    for item in items or [""]:
        maps.write(f"go.{item}" if item else "go", "")


def begun(maps):
    return [line.split()[1] for line in maps.log() if line.startswith("begin")]


def finished(maps):
    return [line.split()[1] for line in maps.log() if line.startswith("done")]


def was_cut_off(maps, item):
    """Whether the trail of an item of the run says that an earlier run of it was cut off, and cost it none of its runs."""
    trail = [event["why"] for event in maps.lz.json("audit", "show", "--job-id", f"r/{item}")]
    return any((why.get("rule"), why.get("action"), why.get("delay_seconds")) == ("interrupted", "retry", 0) for why in trail)


def named(maps, *names):
    """An input whose items are their own ids."""
    return maps.json([{"id": name} for name in names])


NAMED = ["--id-field", "id", "--job-id", "r"]
WAIT_ID = WAIT[:-1] + ["{id}"]


# ---- after a crash ---------------------------------------------------------------------------------------------------

def test_after_a_kill_what_was_done_is_not_run_again_and_the_rest_is(maps):
    go(maps, "a")
    run = maps.start("--input", named(maps, *"abcd"), *NAMED, "--retry", "1", "--parallel", "2", *WAIT_ID)
    until(lambda: finished(maps) == ["a"] and set(begun(maps)) == {"a", "b", "c"})
    until(lambda: maps.states()["done"] == 1)
    run.signal(signal.SIGKILL)
    run.process.wait(PATIENCE)
    go(maps)
    events = maps.map("--resume", "--job-id", "r")
    assert sorted(begun(maps)) == ["a", "b", "b", "c", "c", "d"]
    assert sorted(finished(maps)) == ["a", "b", "c", "d"]
    assert (events[-1]["total"], events[-1]["before"], events[-1]["done"], events[-1]["left"]) == (4, 1, 3, 0)
    assert maps.states()["done"] == 4 and maps.letters() == {}
    assert was_cut_off(maps, "b") and was_cut_off(maps, "c") and not was_cut_off(maps, "a")


def test_a_command_does_not_outlive_a_runner_that_is_killed(maps):
    run = maps.start("--input", maps.lines("a"), *sh('echo $$ > pid; exec sleep 600'))
    pid = until(lambda: (maps.folder / "pid").exists() and (maps.folder / "pid").read_text().strip())
    run.signal(signal.SIGKILL)
    run.process.wait(PATIENCE)
    until(lambda: not alive(pid))


def test_the_history_of_a_letter_says_that_a_run_was_cut_off(maps):
    run = maps.start("--input", named(maps, "a"), *NAMED, "--policy", maps.policy(max_attempts=2), *sh('echo begin >> "$LOG"; test -e go || exec sleep 600; exit 3', "{id}"))
    maps.logged("begin")
    run.signal(signal.SIGKILL)
    run.process.wait(PATIENCE)
    go(maps)
    maps.map("--resume", "--job-id", "r")
    assert len(maps.log()) == 3
    letter = maps.letter()
    cut_off, *failed = letter["failure_history"]
    assert "the runner was cut off" in cut_off["error_message"] and cut_off["error_type"] == "Unknown"
    assert cut_off["decision"]["rule"] == "interrupted"
    assert [failure["error_type"] for failure in failed] == [{"CommandFailed": {"exit_code": 3}}] * 2


def test_an_item_that_waits_for_its_retry_when_the_runner_dies_is_tried_again(maps):
    maps.policy("slow", max_attempts=2, initial_delay_seconds=0.5)
    run = maps.start("--input", named(maps, "a"), *NAMED, "--policy", "slow", *sh('echo $LAZARET_ATTEMPT >> "$LOG"; test $LAZARET_ATTEMPT = 2', "{id}"))
    until(lambda: maps.states()["scheduled"] == 1)
    run.signal(signal.SIGKILL)
    run.process.wait(PATIENCE)
    maps.map("--resume", "--job-id", "r")
    assert maps.log() == ["1", "2"] and maps.states()["done"] == 1


def test_a_run_that_was_killed_while_it_read_its_items_reads_the_rest(maps):
    names = [str(n) for n in range(3000)]
    run = maps.start("--input", named(maps, *names), *NAMED, "--", "true")
    until(lambda: maps.lz.run("status", "-o", "json").returncode == 0 and sum(maps.states().values()) > 0)
    run.signal(signal.SIGKILL)
    run.process.wait(PATIENCE)
    events = maps.map("--resume", "--job-id", "r", "--max-items", "100", "--", "true")
    states = maps.states()
    assert states["pending"] + states["running"] + states["scheduled"] + states["dead"] == 0 and states["done"] >= 100
    assert events[-1]["left"] == 0


# ---- Ctrl-C ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_lets_what_runs_finish_and_takes_nothing_more(maps, number):
    run = maps.start("--input", named(maps, *"abcd"), *NAMED, "--parallel", "2", *WAIT_ID)
    until(lambda: len(begun(maps)) == 2)
    run.signal(number)
    until(lambda: count(run.events(), "note"))
    go(maps)
    events = run.end(code=1)
    assert "2 items are still running" in next(event["message"] for event in events if event["event"] == "note")
    assert (events[-1]["interrupted"], events[-1]["done"], events[-1]["left"]) == (True, 2, 2)
    assert sorted(finished(maps)) == ["a", "b"]
    assert (maps.states()["pending"], maps.states()["running"]) == (2, 0)
    maps.map("--resume", "--job-id", "r")
    assert sorted(begun(maps)) == ["a", "b", "c", "d"] and maps.states()["done"] == 4


def test_the_second_signal_ends_what_runs_and_records_it(maps):
    run = maps.start("--input", named(maps, *"abc"), *NAMED, "--retry", "1", "--parallel", "2", *WAIT_ID)
    until(lambda: len(begun(maps)) == 2)
    run.signal()
    until(lambda: count(run.events(), "note"))
    run.signal()
    events = run.end(code=1)
    assert count(events, "interrupted") == 2 and events[-1]["interrupted"] and finished(maps) == []
    assert maps.letters() == {} and maps.states()["running"] == 0
    # It counts as no attempt: each has its only run still before it.
    go(maps)
    events = maps.map("--resume", "--job-id", "r")
    assert sorted(finished(maps)) == ["a", "b", "c"] and events[-1]["done"] == 3
    assert was_cut_off(maps, "a") and was_cut_off(maps, "b") and not was_cut_off(maps, "c")


def test_a_summary_of_an_interrupted_run_says_how_to_go_on(maps):
    child = maps.lz.terminal("map", "--input", maps.lines("a", "b"), "--job-id", "r", "--parallel", "1", "--no-color", *WAIT, color=True)
    maps.logged("begin a")
    child.sendintr()
    child.expect("once more to end it at once")
    child.sendintr()
    child.expect("Interrupted: what was running is recorded, and will run again")
    child.expect_exact("lazaret map --resume --job-id r")
    child.wait()
    assert child.exitstatus == 1


def test_a_stream_that_is_waited_for_does_not_hold_up_a_signal(maps):
    read, write = os.pipe()
    run = maps.start("--input", "-", "--job-id", "r", *sh('echo "$1" >> "$LOG"'), input=read)
    os.close(read)
    os.write(write, b"a\n")
    maps.logged("a")
    run.signal()
    summary = run.end(code=1)[-1]
    assert summary["done"] == 1 and not summary["total_final"]  # there may be more
    os.close(write)


def test_a_signal_that_it_was_begun_with_ignored_is_ignored(maps):
    run = maps.start("--input", maps.lines("a", "b"), "--parallel", "1", *WAIT, ignored=[signal.SIGHUP, signal.SIGINT])
    maps.logged("begin a")
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGHUP, signal.SIGINT):
        run.signal(number)
    go(maps)
    events = run.end()
    assert events[-1]["done"] == 2 and not events[-1]["interrupted"] and count(events, "note") == 0


def test_a_retry_is_interrupted_as_a_run_is(maps):
    maps.map("--input", named(maps, "a", "b"), *NAMED, "--retry", "1", "--parallel", "1", *sh('test -e again || exit 1; ' + WAIT[3], "{id}"))
    maps.write("again", "")
    run = maps.start("r", "--yes", command=("dlq", "retry"))
    maps.logged("begin a")
    run.signal()
    until(lambda: count(run.events(), "note"))
    run.signal()
    events = run.end(code=1)
    assert events[-1]["interrupted"] and count(events, "interrupted") == 1
    assert {letter["state"] for letter in maps.letters().values()} == {"recovering"}
    go(maps)
    maps.retry("r")
    assert begun(maps) == ["a", "b", "a"] or begun(maps) == ["a", "a", "b"]
    assert {letter["state"] for letter in maps.letters().values()} == {"recovered"} and was_cut_off(maps, "a")


# ---- going on --------------------------------------------------------------------------------------------------------

def test_a_run_goes_on_with_another_command(maps):
    maps.map("--input", maps.lines("a", "b"), "--job-id", "r", "--retry", "1", "--parallel", "1", "--on-item-failure", "stop", *sh("exit 1"), code=1)
    maps.map("--resume", "--job-id", "r", *sh('echo "other $1" >> "$LOG"'))
    assert maps.log() == ["other b"]
    # It is the run's command from then on.
    maps.retry("r")
    assert maps.log() == ["other b", "other a"]


def test_a_run_that_is_done_has_nothing_to_go_on_with(maps):
    maps.map("--input", maps.lines("a"), "--job-id", "r", *sh('echo "$1" >> "$LOG"'))
    events = maps.map("--resume", "--job-id", "r")
    assert maps.log() == ["a"] and (events[-1]["before"], events[-1]["done"], events[-1]["left"]) == (1, 0, 0)


def test_what_is_in_the_quarantine_is_not_run_by_a_resume(maps):
    maps.map("--input", maps.lines("a", "b"), "--job-id", "r", "--retry", "1", *sh('echo "$1" >> "$LOG"; test "$1" = a'))
    maps.map("--resume", "--job-id", "r")
    assert sorted(maps.log()) == ["a", "b"]
    assert maps.letter()["state"] == "dead"


def test_a_run_that_is_not_known_cannot_go_on(maps):
    maps.map("--input", maps.lines("a"), "--job-id", "r", "--", "true")
    assert 'no run "s"' in maps.refused("--resume", "--job-id", "s", code=3)


def test_letters_that_came_from_elsewhere_are_run_with_a_command_that_is_given(maps, tmp_path):
    maps.map("--input", maps.lines("a", "b"), "--job-id", "r", "--retry", "1", *sh("exit 1"))
    maps.lz.ok("dlq", "export", tmp_path / "out", "--format", "map", "--job-id", "r")
    maps.lz.base["LAZARET_DATA"] = str(tmp_path / "other")
    maps.lz.ok("dlq", "import", tmp_path / "out")
    done = maps.lz.run("dlq", "retry", "r", "--yes", cwd=maps.folder)
    assert done.returncode == 0 and "its command is not known" in done.stderr and maps.log() == [], done
    events = maps.map("--resume", "--job-id", "r", "--parallel", "1", *sh('echo "$1" >> "$LOG"'))
    assert sorted(maps.log()) == ["a", "b"] and events[-1]["done"] == 2
    assert {letter["state"] for letter in maps.letters().values()} == {"recovered"}


def test_a_run_is_not_begun_twice(maps):
    maps.map("--input", maps.lines("a"), "--job-id", "r", "--", "true")
    err = maps.refused("--input", "items.txt", "--job-id", "r", "--", "true", code=4)
    assert 'there is a run "r" already' in err and "--resume" in err


def test_a_run_belongs_to_one_process(maps):
    run = maps.start("--input", maps.lines("a"), "--job-id", "r", *WAIT)
    maps.logged("begin a")
    for args in (["--input", "items.txt", "--", "true"], ["--resume"]):
        done = maps.run("--job-id", "r", *args)
        assert done.returncode == 4 and "being run by another process" in done.stderr, done
    go(maps)
    run.end()
    assert begun(maps) == ["a"]


# ---- beside others ---------------------------------------------------------------------------------------------------

def test_two_runs_share_one_directory_and_the_owner_may_end_first(maps):
    first = maps.start("--input", maps.lines("a1", "a2"), "--job-id", "first", "--parallel", "2", *WAIT)
    until(lambda: len(begun(maps)) == 2)
    second = maps.start("--input", maps.lines("b1", "b2", "b3", "b4"), "--job-id", "second", "--retry", "1", "--parallel", "2",
                        *sh(WAIT[3] + '; test "$1" != b4'))
    until(lambda: len(begun(maps)) == 4)
    go(maps, "a1", "a2")
    assert first.end()[-1]["done"] == 2
    go(maps)
    events = second.end()
    assert (events[-1]["done"], events[-1]["quarantined"]) == (3, 1)
    assert sorted(begun(maps)) == ["a1", "a2", "b1", "b2", "b3", "b4"]
    assert maps.states()["done"] == 5 and list(maps.letters()) == ["b4"]


def test_a_run_goes_on_when_the_owner_of_the_directory_is_killed(maps):
    first = maps.start("--input", maps.lines("a1"), "--job-id", "first", *WAIT)
    maps.logged("begin a1")
    second = maps.start("--input", maps.write("others.txt", "b1\nb2\nb3\n"), "--job-id", "second", "--parallel", "1", *WAIT)
    maps.logged("begin b1")
    first.signal(signal.SIGKILL)
    first.process.wait(PATIENCE)
    go(maps)
    assert second.end()[-1]["done"] == 3
    assert maps.map("--resume", "--job-id", "first")[-1]["done"] == 1
    assert begun(maps).count("b1") == 1 and begun(maps).count("a1") == 2


def test_a_run_beside_a_server_is_the_servers_client(maps, serve):
    server = serve()
    maps.policy()
    events = maps.map("--input", maps.lines(*range(20)), "--job-id", "r", "--policy", "quick", *sh('test "$1" != 7'))
    assert (events[-1]["done"], events[-1]["quarantined"]) == (19, 1)
    assert maps.letter()["failure_count"] == 3
    maps.retry("r", code=1)
    assert maps.letter()["failure_count"] == 6
    server.stop()
    assert maps.letter()["failure_count"] == 6


def test_a_server_that_ends_meanwhile_does_not_end_the_run(maps, serve):
    server = serve()
    run = maps.start("--input", maps.lines("a", "b", "c"), "--job-id", "r", "--parallel", "1", *WAIT)
    maps.logged("begin a")
    server.stop()
    go(maps)
    assert run.end()[-1]["done"] == 3
    assert begun(maps) == ["a", "b", "c"]


def test_the_quarantine_is_looked_at_and_decided_about_while_a_run_goes_on(maps):
    run = maps.start("--input", maps.lines("bad", "wait"), "--job-id", "r", "--retry", "1", "--parallel", "2",
                     *sh('echo "begin $1" >> "$LOG"; test "$1" != bad || exit 1; until test -e go; do sleep 0.02; done'))
    letter = until(lambda: count(run.events(), "quarantined") and maps.letters().get("bad"))
    assert maps.lz.json("dlq", "show", letter["dlq_id"])["state"] == "dead"
    assert maps.lz.json("dlq", "analyze", "--job-id", "r")["total"] == 1
    # A retry is taken up by the process that runs the run.
    done = maps.lz.run("dlq", "retry", "--yes", letter["dlq_id"])
    assert done.returncode == 0 and "is being run by another process" in done.stderr, done
    until(lambda: begun(maps).count("bad") == 2)
    until(lambda: maps.letters()["bad"]["failure_count"] == 2)
    maps.lz.ok("dlq", "discard", letter["dlq_id"])
    go(maps)
    assert run.end()[-1]["done"] == 1
    assert maps.letters()["bad"]["state"] == "discarded"
