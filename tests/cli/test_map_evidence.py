"""What a failed attempt leaves behind: its output, how it ended, what it used, and which kind of failure it was."""

import json
import os
import resource
import sys

import pytest
from conftest import own_only
from map_runs import alive, count, maps, sh, until


# ---- output and usage ------------------------------------------------------------------------------------------------

def test_both_streams_are_in_the_history_and_whole_in_a_file(maps):
    failure = maps.failure(command=sh("echo to the one; sleep 0.1; printf 'first\\nlast words\\n\\n' >&2; exit 3"))
    assert failure["error_message"] == "last words"
    assert failure["stack_trace"] == "first\nlast words\n\n"
    assert failure["artifacts"]["stdout"] == "to the one\n" and failure["artifacts"]["stderr"] == "first\nlast words\n\n"
    assert open(failure["json_log_location"]).read() == "to the one\nfirst\nlast words\n\n"
    assert failure["json_log_location"].startswith(str(maps.lz.data / "artifacts"))
    assert os.stat(failure["json_log_location"]).st_mode & 0o077 == 0


def test_a_long_output_keeps_its_ends_in_the_evidence_and_all_of_it_in_the_file(maps):
    failure = maps.failure(command=sh("seq 100000; seq 200000 >&2; exit 1"))
    text = "".join(f"{n}\n" for n in range(1, 100001))
    stdout = failure["artifacts"]["stdout"]
    assert stdout.startswith("1\n2\n3\n") and stdout.endswith("99999\n100000\n") and len(stdout) < 40000
    assert failure["artifacts"]["stdout_bytes"] == len(text)
    assert failure["artifacts"]["stdout_truncated_bytes"] > len(text) / 2
    assert failure["stack_trace"].endswith("199999\n200000\n")
    whole = open(failure["json_log_location"]).read()
    assert len(whole) == len(text) + sum(len(f"{n}\n") for n in range(1, 200001))


def test_what_it_ran_and_who_ran_it_is_told(maps):
    failure = maps.failure("--job-id", "r", command=["--", "sh", "-c", "exit 4", "sh", "--name={}"], item="a b")
    assert failure["step_failed"] == "sh -c 'exit 4' sh --name={}"
    assert failure["error_context"][-1] == "Running step 1 of 1: sh -c 'exit 4' sh '--name=a b'"
    assert failure["agent_id"].startswith("r#") and failure["attempt_number"] == 1
    assert failure["error_message"] == "sh -c 'exit 4' sh --name={} failed with exit code 4"


def test_time_processor_and_memory_are_measured(maps):
    work = "import time\nblock = bytearray(400_000_000)\nwhile time.process_time() < 0.3: pass\nraise SystemExit(1)"
    failure = maps.failure(command=["--", sys.executable, "-c", work])
    used = failure["artifacts"]
    assert used["memory_max_kb"] > 390_000
    assert used["cpu_user_ms"] + used["cpu_system_ms"] >= 290
    assert failure["duration_ms"] >= 290


def test_a_success_keeps_its_output_too(maps):
    maps.map("--input", maps.lines("a"), "--job-id", "r", *sh("echo fine"))
    (log,) = (maps.lz.data / "artifacts/r").rglob("*.log")
    assert log.read_text() == "fine\n"


# ---- kinds of failure ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("code", [1, 2, 42, 101, 255])
def test_an_exit_code_is_a_failed_command(maps, code):
    failure = maps.failure(command=sh(f"exit {code}"))
    assert failure["error_type"] == {"CommandFailed": {"exit_code": code}} and failure["artifacts"]["exit_code"] == code


@pytest.mark.parametrize("signal, number", [("KILL", 9), ("SEGV", 11), ("TERM", 15)])
def test_a_signal_is_named(maps, signal, number):
    failure = maps.failure(command=sh(f"kill -{signal} $$"))
    assert failure["error_type"] == {"CommandFailed": {"exit_code": 128 + number, "signal": f"SIG{signal}"}}
    assert failure["artifacts"]["signal"] == f"SIG{signal}" and f"killed by SIG{signal}" in failure["error_message"]


def test_a_timeout_ends_the_whole_group_even_when_it_ignores_the_signal(maps):
    script = """trap '' TERM
sh -c 'trap "" TERM; echo $$ > child; sleep 600; sleep 600' &
echo $$ > parent
echo working
wait; sleep 600"""
    failure = maps.failure("--timeout", "500ms", "--grace", "200ms", command=sh(script))
    assert failure["error_type"] == "Timeout" and failure["class"] == "timeout"
    assert failure["error_message"] == "timed out after 0.5 s"
    assert failure["artifacts"]["stdout"] == "working\n" and failure["artifacts"]["signal"] == "SIGKILL"
    for name in ("parent", "child"):
        until(lambda: not alive((maps.folder / name).read_text().strip()), f"the {name} lives")


def test_a_command_that_ends_well_when_it_is_told_to_still_timed_out(maps):
    failure = maps.failure("--timeout", "300ms", "--grace", "30s", command=sh('trap "echo bye; exit 0" TERM; while :; do sleep 0.02; done'))
    assert failure["error_type"] == "Timeout" and failure["artifacts"]["stdout"] == "bye\n"


def test_a_validation_that_fails_is_its_own_kind(maps):
    failure = maps.failure("--validate", 'echo "checked $LAZARET_ITEM" >&2; test -e result', command=sh("true"))
    assert failure["error_type"] == "ValidationFailed" and failure["error_message"] == "checked x"
    assert failure["step_failed"].startswith("validate: ")
    maps.map("--input", "items.txt", "--validate", "test -e result", *sh("touch result"))
    assert maps.states()["done"] == 1


@pytest.mark.parametrize("words", ["write error: No space left on device", "fork: Cannot allocate memory", "sh: 1: Cannot fork: Resource temporarily unavailable"])
def test_something_that_ran_out_is_told_by_its_words(maps, words):
    failure = maps.failure(command=sh(f'echo "{words}" >&2; exit 1'))
    assert failure["error_type"] == "ResourceExhausted" and failure["error_message"] == words


@own_only
def test_a_start_that_is_refused_for_lack_of_descriptors_is_told(maps):
    read, write = os.pipe()
    run = maps.start("--input", "-", "--input-format", "lines", "--job-id", "r", "--retry", "1", *sh('echo "$1" >> "$LOG"'), input=read)
    os.close(read)
    os.write(write, b"first\n")
    until(lambda: count(run.events(), "succeeded") == 1)
    limits = resource.prlimit(run.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(run.process.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
    os.write(write, b"second\n")
    until(lambda: count(run.events(), "quarantined") == 1)
    resource.prlimit(run.process.pid, resource.RLIMIT_NOFILE, limits)
    os.write(write, b"third\n")
    os.close(write)
    assert run.end()[-1]["done"] == 2
    failure = maps.letter()["failure_history"][0]
    assert failure["error_type"] == "ResourceExhausted" and "cannot be started" in failure["error_message"]
    assert maps.log() == ["first", "third"]


def test_a_place_that_is_gone_is_an_unknown_failure(maps):
    place = maps.folder / "place"
    place.mkdir()
    done = maps.lz.run("map", "--input", maps.lines("a", "b"), "--retry", "1", "--parallel", "1", *sh(f'test "$1" = b || rmdir "{place}"'), cwd=place)
    assert done.returncode == 0, done
    failure = maps.letter()["failure_history"][0]
    assert failure["error_type"] == "Unknown" and "No such file or directory" in failure["error_message"]


def test_a_command_that_is_not_there_when_it_is_run_is_told(maps):
    maps.write("tool", "#!/bin/sh\nrm -- \"$0\"\n", mode=0o755)
    maps.map("--input", maps.lines("a", "b"), "--policy", maps.policy(), "--parallel", "1", "--", "./tool", "{}")
    (failure,) = maps.letter()["failure_history"]
    assert failure["error_type"] == {"CommandFailed": {"exit_code": 127}} and "command not found" in failure["error_message"]


# ---- what the command says itself ------------------------------------------------------------------------------------

SAID = {"class": "permission_denied", "message": "the key was refused", "side_effects": "none", "artifacts": {"key": "k7"}}


@pytest.mark.parametrize("where", [">&3", '> "$LAZARET_FAILURE_FILE"'])
def test_a_command_says_more_of_its_failure(maps, where):
    maps.map("--input", maps.lines("x"), "--policy", maps.policy(), *sh(f"echo '{json.dumps(SAID)}' {where}; exit 5"))
    (failure,) = maps.letter()["failure_history"]
    assert failure["error_message"] == "the key was refused" and failure["class"] == "permission_denied"
    assert failure["error_type"] == {"CommandFailed": {"exit_code": 5}}
    assert failure["artifacts"]["key"] == "k7" and failure["decision"]["action"] == "quarantine"


def test_a_command_that_says_it_failed_has_failed_whatever_its_exit_code(maps):
    failure = maps.failure(command=sh("echo '{\"message\":\"half of it\"}' >&3"))
    assert failure["error_message"] == "half of it"


def test_a_retry_after_is_honoured(maps):
    maps.map("--input", maps.json([{"id": "x"}]), "--id-field", "id", "--policy", maps.policy(max_attempts=2), "--job-id", "r",
             *sh('test $LAZARET_ATTEMPT = 2 || { echo "{\\"message\\":\\"wait\\",\\"class\\":\\"rate_limited\\",\\"retry_after_seconds\\":0.3}" >&3; exit 1; }'))
    assert maps.states()["done"] == 1
    (decided,) = [event for event in maps.lz.json("audit", "show", "--job-id", "r/x") if event["what"] == "retry-scheduled"]
    assert decided["why"]["delay_seconds"] >= 0.3


@pytest.mark.parametrize("said", ["no JSON at all", "[1]", '{"class": 7}'])
def test_nonsense_that_a_command_says_is_kept_as_text(maps, said):
    failure = maps.failure(command=sh(f"echo '{said}' >&3; echo real >&2; exit 2"))
    assert failure["error_message"] == "real" and failure["artifacts"]["said"].strip() == said
    assert any("cannot be used" in line for line in failure["error_context"])
