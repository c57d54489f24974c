"""`lazaret work` on a directory of its own, and as a person or a program sees it; with a server it is in tests/server."""

import json
import os
import re
import signal
import subprocess

import pexpect
import pytest
from conftest import ONCE, PROGRAM, TWICE, own_only
from map_runs import alive, check, until

pytestmark = own_only

SCRIPT = ["--", "sh", "-c", "{script}"]


def push(lz, script="true", **envelope):
    """Pushes a job that is a script, and returns its id."""
    envelope = {"action": "a", "retry_policy": ONCE, **envelope, "inputs": {"script": script}}
    return lz.json("push", "-", input=envelope)["job_id"]


def work(lz, *args, code=0, command=SCRIPT, **kw):
    """Runs a worker until there is nothing to do, and returns its events, of which the last is the summary."""
    done = lz.run("work", "--until-empty", "-o", "json", *args, *command, **kw)
    check(done.stderr)
    assert done.returncode == code, done
    return [json.loads(line) for line in done.stdout.splitlines()]


def history(lz, job_id):
    return [(event["what"], event["actor"]) for event in lz.json("audit", "show", "--job-id", job_id)]


@pytest.fixture
def start(lz):
    """Starts workers; those that a test leaves are killed."""
    made = []

    def run(*args):
        made.append(subprocess.Popen([PROGRAM, "work", *map(str, args)], env=lz.env, text=True, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return made[-1]

    yield run
    for process in made:
        if process.returncode is None:
            process.kill()
        process.communicate(timeout=60)


# ---- its own directory -----------------------------------------------------------------------------------------------

def test_jobs_of_a_directory_that_nobody_serves_are_run(lz):
    job_id = push(lz)
    assert work(lz, "--worker-id", "hands")[-1]["done"] == 1
    assert history(lz, job_id) == [("pushed", "human:ada"), ("leased", "worker:hands"), ("completed", "worker:hands")]
    assert history(lz, push(lz)) == [("pushed", "human:ada")]


def test_while_a_worker_owns_the_directory_others_push_to_it_and_work_with_it(lz, start, tmp_path):
    worker = start("--worker-id", "one", *SCRIPT)
    until((lz.data / "lazaret.sock").exists)
    push(lz, f"touch {tmp_path}/first; while [ ! -e {tmp_path}/second ]; do sleep 0.02; done")
    until((tmp_path / "first").exists)
    push(lz, f"touch {tmp_path}/second")
    work(lz, "--worker-id", "two")
    until(lambda: lz.json("status")["states"]["done"] == 2)
    worker.send_signal(signal.SIGTERM)
    out, err = worker.communicate(timeout=60)
    assert (worker.returncode, err) == (0, "") and out.startswith("1 job: 1 done, in ")


def test_a_worker_of_a_directory_is_killed_and_the_next_one_goes_on(lz, start, tmp_path):
    job_id = push(lz, f"echo $$ > {tmp_path}/pid$LAZARET_ATTEMPT; test $LAZARET_ATTEMPT = 2 || exec sleep 1000", retry_policy=TWICE)
    worker = start("--lease", "1s", *SCRIPT)
    pid = int(until(lambda: (tmp_path / "pid1").exists() and (tmp_path / "pid1").read_text()))
    until(lambda: ("started" in dict(history(lz, job_id))))
    worker.send_signal(signal.SIGKILL)
    until(lambda: not alive(pid))
    until(lambda: work(lz)[-1]["done"] == 1)
    events = [event["what"] for event in lz.json("audit", "show", "--job-id", job_id)]
    assert events == ["pushed", "leased", "started", "retry-scheduled", "leased", "completed"]


# ---- what is kept ----------------------------------------------------------------------------------------------------

def test_the_whole_output_of_each_job_is_kept_in_a_file_of_its_own(lz, tmp_path):
    for n in "12":
        push(lz, f"echo out {n}", job_id=f"../{n}", item_id="the same")
    paths = {event["job_id"]: event["artifact"] for event in work(lz) if event["event"] == "succeeded"}
    assert {job_id: open(path).read() for job_id, path in paths.items()} == {"../1": "out 1\n", "../2": "out 2\n"}
    assert all(path.startswith(f"{lz.data}/artifacts/work/") for path in paths.values())
    push(lz, "echo out 3; exit 3")
    [failed] = [event for event in work(lz, "--artifacts", tmp_path / "kept") if event["event"] == "quarantined"]
    assert failed["artifact"].startswith(f"{tmp_path}/kept/") and open(failed["artifact"]).read() == "out 3\n"
    assert lz.json("dlq", "show", failed["dlq_id"])["failure_history"][0]["json_log_location"] == failed["artifact"]
    push(lz)
    assert "artifact" not in work(lz)[1]  # a silent command leaves no file


# ---- what is told ----------------------------------------------------------------------------------------------------

def test_a_program_gets_an_event_a_line(lz):
    push(lz, "echo no >&2; exit 3", job_id="bad", priority=9, retry_policy=TWICE)
    push(lz, job_id="good")
    events = work(lz)
    keys = {(event["event"], event.get("job_id"), event.get("attempt")): event for event in events}
    assert [key for key in keys if key[1] == "bad"] == [("started", "bad", 1), ("retrying", "bad", 1), ("started", "bad", 2), ("quarantined", "bad", 2)]
    assert [key for key in keys if key[1] == "good"] == [("started", "good", 1), ("succeeded", "good", 1)]
    assert keys["started", "bad", 1] == {"event": "started", "job_id": "bad", "item_id": "bad", "attempt": 1}
    retrying, dead = keys["retrying", "bad", 1], keys["quarantined", "bad", 2]
    assert (retrying["error_type"], retrying["message"], retrying["retry_at"][-1]) == ("CommandFailed", "no", "Z")
    assert retrying["duration_ms"] >= 0 and os.path.exists(retrying["artifact"])
    assert lz.json("dlq", "show", dead["dlq_id"])["job_id"] == "bad"
    summary = events[-1]
    assert summary["event"] == "summary"
    assert [summary[name] for name in ("total", "done", "quarantined", "cancelled", "failed_attempts")] == [2, 1, 1, 0, 2]


def test_a_person_without_a_terminal_gets_a_line_for_each_failure(lz):
    push(lz, "echo 'no \x1b[31mred\x1b[0m ink' >&2; exit 3", job_id="bad", retry_policy=TWICE)
    push(lz, job_id="good")
    done = lz.run("work", "--until-empty", *SCRIPT)
    letter = lz.json("dlq", "list")[0]["dlq_id"]
    assert done.returncode == 0
    assert re.fullmatch(r"2 jobs: 1 done, 1 quarantined, in \d+\.\d s \(.*\)\n", done.stdout), done.stdout
    first, second = done.stderr.splitlines()
    assert re.fullmatch("job bad: attempt 1 failed: no red ink; again (at once|in .*)", first), first
    assert second.startswith("job bad: attempt 2 failed: no red ink; quarantined as ") and letter.startswith(second.split()[-1])


def test_a_terminal_is_not_at_the_mercy_of_what_commands_write(lz):
    push(lz, r"printf '\033]0;owned\007\033[2J\rboo' >&2; printf '\033[31mout'; exit 3", job_id="\x1b[2Jbad")
    shown = lz.on_terminal("work", "--until-empty", *SCRIPT, env={"NO_COLOR": "1"})
    assert "bad:  boo (attempt 1, quarantined as " in shown and "1 job: 0 done, 1 quarantined, in " in shown
    assert set(re.findall("\x1b.{0,2}", shown)) <= {"\x1b[K"} and "\x07" not in shown  # but for the live line


def test_ctrl_c_on_a_terminal_says_what_a_second_one_would_do(lz, tmp_path):
    push(lz, f"touch {tmp_path}/begun; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done")
    child = lz.terminal("work", *SCRIPT)
    until((tmp_path / "begun").exists)
    child.sendintr()
    child.expect_exact("stopping: 1 job is still running; once more to end it at once")
    (tmp_path / "go").touch()
    child.expect_exact("1 job: 1 done")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


# ---- what is refused -------------------------------------------------------------------------------------------------

REFUSED = {
    "no command": ([], '"work" needs -- COMMAND ARG...'),
    "nothing after --": (["--"], '"work" needs -- COMMAND ARG...'),
    "an unknown flag": (["--paralel", "2", "--", "true"], "no flag --paralel; did you mean --parallel?"),
    "a lease that is no time": (["--lease", "soon", "--", "true"], '--lease: must be a time such as 90s, 10m, 2h or 7d, not "soon"'),
    "a lease that is too short": (["--lease", "299ms", "--", "true"], "--lease: must be 300ms to 12h"),
    "a lease that is too long": (["--lease", "13h", "--", "true"], "--lease: must be 300ms to 12h"),
    "nobody at work": (["--parallel", "0", "--", "true"], '--parallel: must be a whole number from 1 to 1000, not "0"'),
    "a queue without a name": (["--queue", "", "--", "true"], "--queue: the name is empty; without the flag it is any queue"),
    "a worker without a name": (["--worker-id", "", "--", "true"], "--worker-id: must not be empty"),
    "a worker of two lines": (["--worker-id", "a\nb", "--", "true"], "--worker-id: must not have control characters"),
    "a command that is not there": (["--", "./no-such-command", "{}"], '"./no-such-command" is no command that can be run here'),
    "a command that is not in PATH": (["--", "no-such-command"], '"no-such-command" is no command that can be run here'),
    "a command that is a directory": (["--", "/"], '"/" is no command that can be run here'),
    "an empty command": (["--", ""], '"" is no command that can be run here'),
    "a flag of --supervise": (["--health", "true", "--", "true"], None),
}


@pytest.mark.parametrize("args, sentence", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_meant_is_refused_and_nothing_is_made(lz, args, sentence):
    done = lz.run("work", "--until-empty", *args)
    assert (done.returncode, done.stdout) == (2, "")
    first = done.stderr.splitlines()[0]
    assert first == f"lazaret: {sentence}" if sentence else first.startswith("lazaret: --health"), first
    assert not lz.data.exists()


def test_a_name_that_no_queue_can_have_ends_the_worker(lz):
    assert work(lz, "--queue", "q" * 200, code=2) == []
    assert lz.fails(2, "work", "--queue", "q" * 200, "--", "true") == "lazaret: entry 0 of queues: must have at most 128 bytes, not 200\n"


def test_a_command_may_have_a_place_in_its_name(lz):
    lz.ok("push", "-", input={"action": "a", "inputs": {"tool": "/bin/true"}})
    lz.ok("push", "-", input={"action": "a", "inputs": {"tool": "/bin/no-such-tool"}, "retry_policy": TWICE})
    summary = work(lz, command=["--", "{tool}"])[-1]
    assert [summary[name] for name in ("done", "quarantined", "failed_attempts")] == [1, 1, 1]
    [failure] = lz.json("dlq", "list")[0]["failure_history"]
    assert failure["error_type"] == {"CommandFailed": {"exit_code": 127}}
