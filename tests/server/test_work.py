"""`lazaret work` beside a server: what a command gets and says, how leases are kept and lost, how a worker ends.

Most jobs here are shell scripts: the worker's command is `sh -c {script}`, and the script is an input of the job.  A script
that is to run for as long as a test wants waits for a file.
"""

import datetime
import json
import os
import pathlib
import shlex
import signal
import subprocess
import urllib.parse
import uuid

import pytest
from conftest import ONCE, PROGRAM, SANITIZER, TWICE, Server, environment, wait_until

SCRIPT = ["--", "sh", "-c", "{script}"]
ENDED = ("done", "dead", "cancelled")
THRICE = {**TWICE, "max_attempts": 3}
NEVER = "/nonexistent/never"


def hold(go):
    """A script that runs until the file `go` is there."""
    return f"while [ ! -e {shlex.quote(str(go))} ]; do sleep 0.02; done"


def alive(pid):
    """Whether a process is there and has not ended: a zombie is not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pid_in(path):
    """The process id that a script has written to a file, when it is there."""
    return wait_until(lambda: path.exists() and path.read_text().endswith("\n") and int(path.read_text()), f"{path}")


class Worker:
    """`lazaret work -o json` that goes on in the background, and the events that it prints."""

    def __init__(self, folder, args, env=None):
        self.out, self.err = folder / f"{uuid.uuid4()}.out", folder / f"{uuid.uuid4()}.err"
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen([PROGRAM, "work", "-o", "json", *map(str, args)], stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=err, env=environment(folder, env), cwd=folder)

    def events(self, what=None):
        """What it has told so far; the last line may be on its way."""
        lines = self.out.read_text().splitlines(keepends=True)
        events = [json.loads(line) for line in lines if line.endswith("\n")]
        return [event for event in events if what in (None, event["event"])]

    def told(self, what, count=1):
        """Waits until it has told so many events of a kind, and returns them."""
        return wait_until(lambda: len(found := self.events(what)) >= count and found, f"{what} of {self.events()} {self.stderr}")

    @property
    def stderr(self):
        return self.err.read_text(errors="replace")

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def end(self, code=0):
        """Waits for its end and returns its events."""
        assert self.process.wait(120) == code, (self.process.returncode, self.events(), self.stderr)
        self.check()
        return self.events()

    def check(self):
        assert not SANITIZER.search(self.stderr), self.stderr

    def kill(self):
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        self.check()


@pytest.fixture(scope="module")
def station(tmp_path_factory):
    """One server for the tests that leave it as it is.  Each has queues of its own."""
    server = Server(tmp_path_factory.mktemp("station") / "data").start()
    yield server
    server.finish()


@pytest.fixture
def queue(request):
    return request.node.name[:100]


@pytest.fixture
def hire(tmp_path):
    """Starts workers: hire(server, *args) by its data directory, hire(url, *args) by its URL."""
    made = []

    def start(where, *args, env=None):
        where = ["--server", where] if isinstance(where, str) else ["--data", where.data]
        made.append(Worker(tmp_path, [*where, *args], env))
        return made[-1]

    yield start
    for worker in made:
        worker.kill()


@pytest.fixture(scope="module")
def clerk(station, tmp_path_factory):
    """One worker for all scripts of the queue "scripts", started by somebody who is the command of a job himself."""
    outer = {"LAZARET_RETRY_KEY": "outer", "LAZARET_IDEMPOTENCY_KEY": "outer", "LAZARET_QUEUE": "outer", "LAZARET_ATTEMPT": "7",
             "LAZARET_INPUT_OLD": "outer", "LAZARET_ITEM_FILE": "outer", "MINE": "kept"}
    worker = Worker(tmp_path_factory.mktemp("clerk"), ["--data", station.data, "--queue", "scripts", "--parallel", 4, "--grace", "200ms",
                                                       "--worker-id", "clerk", *SCRIPT], outer)
    yield worker
    worker.kill()


def job_of(server, job_id):
    return server.get(f"/api/v1/jobs/{urllib.parse.quote(job_id, safe='')}").expect(200)


def state_of(server, job_id):
    return job_of(server, job_id)["state"]


def ended(server, job_id):
    """Waits for the end of a job, and returns it."""
    wait_until(lambda: state_of(server, job_id) in ENDED, f"the end of {job_of(server, job_id)}")
    return job_of(server, job_id)


def letter_of(server, job_id):
    return server.get(f"/api/v1/dlq/{ended(server, job_id)['dlq_id']}").expect(200)


def history(server, job_id):
    """What happened to a job, by the evidence."""
    return [event["what"] for event in server.get(f"/api/v1/audit?job_id={job_id}").expect(200)]


@pytest.fixture
def run(station, clerk):
    """Has the clerk run a script, and returns the job when it has ended: run(script, inputs={...}, **envelope)."""
    def push(script, inputs=None, **envelope):
        job_id = station.push(**{"queue": "scripts", "retry_policy": ONCE, **envelope, "inputs": {"script": script, **(inputs or {})}})
        return ended(station, job_id)

    return push


# ---- what a command gets ---------------------------------------------------------------------------------------------

def test_the_envelope_is_on_standard_input_byte_for_byte(station, clerk, tmp_path):
    out = tmp_path / "stdin"
    body = ('{ "action" : "caf\\u00e9 é",\n\t"inputs":{"script":"cat > \\"$LAZARET_INPUT_OUT\\"",'
            f'"out":"{out}", "n":1.50e1,  "list":[ ]}},\r\n "queue":"scripts", "extra":[ null,-0 ]}}').encode()
    job_id = station.post("/api/v1/jobs", body).expect(201)["job_id"]
    assert ended(station, job_id)["state"] == "done"
    assert out.read_bytes() == body


def test_an_envelope_that_is_larger_than_a_pipe_arrives_whole_and_need_not_be_read(run, tmp_path):
    blob = "x\n" * 200000
    assert run("true", {"blob": blob})["state"] == "done"
    job = run('cat > "$LAZARET_INPUT_OUT"; test -z "${LAZARET_ITEM+set}" && cp "$LAZARET_ITEM_FILE" "$LAZARET_INPUT_OUT.item"',
              {"blob": blob, "out": str(tmp_path / "stdin")})
    assert job["state"] == "done", job
    assert json.loads((tmp_path / "stdin").read_text())["inputs"]["blob"] == blob
    assert json.loads((tmp_path / "stdin.item").read_text())["blob"] == blob


def test_fields_are_in_the_environment_whatever_is_in_them(run, tmp_path):
    nasty = "a\nb\"c'd $(touch x) `id` \\ \t é\x1b[2J=\n"
    out = tmp_path / "env"
    job = run('env -0 > "$LAZARET_INPUT_OUT"', {
        "out": str(out), "text": nasty, "Some.Number": 12.5, "flag": True, "nested": {"a": 1}, "list": [1], "nul": "a\0b",
        "large": "x" * 140000, "a-b": "first", "a_b": "second", "ünï": "umlauts"},
        job_id="job\n1", trace_id=nasty, requested_by="human:ada", scope_lock="treasury", source="dispatch", action="send invoice",
        idempotency_key="key-1", item_id="item 1")
    assert job["state"] == "done", job
    found = [variable.split("=", 1) for variable in out.read_bytes().decode().split("\0") if variable]
    env = {name: value for name, value in found if name.startswith("LAZARET_")}
    assert len({name for name, _ in found}) == len(found)  # nothing is there twice
    assert env.pop("LAZARET_ITEM_FILE") != env.pop("LAZARET_FAILURE_FILE")
    assert env.pop("LAZARET_LEASE_ID") and env.pop("LAZARET_INPUT_SCRIPT").startswith("env -0")
    assert env == {
        "LAZARET_JOB_ID": "job\n1", "LAZARET_ITEM_ID": "item 1", "LAZARET_ATTEMPT": "1", "LAZARET_QUEUE": "scripts", "LAZARET_MATCH": "best",
        "LAZARET_ACTION": "send invoice", "LAZARET_TRACE_ID": nasty, "LAZARET_REQUESTED_BY": "human:ada", "LAZARET_SCOPE_LOCK": "treasury",
        "LAZARET_SOURCE": "dispatch", "LAZARET_IDEMPOTENCY_KEY": "key-1", "LAZARET_INPUT_OUT": str(out), "LAZARET_INPUT_TEXT": nasty,
        "LAZARET_INPUT_SOME_NUMBER": "12.5", "LAZARET_INPUT_FLAG": "true", "LAZARET_INPUT_A_B": "first", "LAZARET_INPUT___N__": "umlauts"}
    assert ["MINE", "kept"] in found


def test_nothing_of_the_job_that_the_worker_itself_runs_for_is_handed_on(run):
    job = run("env | grep [o]uter || echo none")
    assert job["result"]["stdout"] == "none\n"


def test_places_in_the_command_are_the_inputs_and_no_shell_sees_them(station, hire, queue):
    worker = hire(station, "--queue", queue, "--until-empty", "--", "printf", r"[%s]\n", "{}", "{a.0.b}", "to {name}", "{print $1}")
    job_id = station.push(queue=queue, inputs={"a": [{"b": "x y"}], "name": "$(id) 'q'\n"})
    worker.end()
    assert ended(station, job_id)["result"]["stdout"] == (
        '[{"a":[{"b":"x y"}],"name":"$(id) \'q\'\\n"}]\n[x y]\n[to $(id) \'q\'\n]\n[{print $1}]\n')


def test_a_place_that_the_job_has_nothing_for_is_its_fault_and_nothing_is_run(station, hire, queue, tmp_path):
    worker = hire(station, "--queue", queue, "--until-empty", "--", "touch", "{file}", tmp_path / "made")
    job_id = station.push(queue=queue, retry_policy=THRICE, inputs={"other": 1})
    worker.end()
    [failure] = letter_of(station, job_id)["failure_history"]
    assert (failure["class"], failure["decision"]["action"]) == ("invalid_input", "quarantine")
    assert "file" in failure["error_message"] and not (tmp_path / "made").exists()


# ---- how it ends -----------------------------------------------------------------------------------------------------

def test_a_result_has_what_was_written_the_exit_code_and_the_usage(station, run):
    job = run("echo out; echo err >&2")
    result = job["result"]
    assert (job["state"], job["attempts"], job["attempt"]) == ("done", [], 1)
    assert (result["exit_code"], result["stdout"], result["stdout_bytes"]) == (0, "out\n", 4)
    assert {"duration_ms", "cpu_user_ms", "cpu_system_ms"} <= result.keys()
    assert sorted(pathlib.Path(result["json_log_location"]).read_text().splitlines()) == ["err", "out"]
    assert history(station, job["job_id"]) == ["pushed", "leased", "completed"]


def test_a_failure_has_its_evidence_and_the_decision_of_the_engine(station, run):
    job = run('echo out; echo first >&2; echo "no such invoice" >&2; exit 3', retry_policy=TWICE)
    letter = letter_of(station, job["job_id"])
    first, second = letter["failure_history"]
    assert (letter["reason"], letter["failure_count"]) == ("retries_exhausted", 2)
    assert [failure["attempt_number"] for failure in (first, second)] == [1, 2]
    assert [failure["decision"]["action"] for failure in (first, second)] == ["retry", "quarantine"]
    assert [failure["decision"]["rule"] for failure in (first, second)] == ["retry_permitted", "attempts_exhausted"]
    assert (first["error_type"], first["error_message"]) == ({"CommandFailed": {"exit_code": 3}}, "no such invoice")
    assert first["stack_trace"] == "first\nno such invoice\n"
    assert (first["step_failed"], first["agent_id"].rsplit("#")[0]) == ("sh -c {script}", "clerk")
    assert first["error_context"][0] == f"Processing work item {job['job_id']}, attempt 1"
    assert (first["artifacts"]["exit_code"], first["artifacts"]["stdout"]) == (3, "out\n")
    assert "cpu_user_ms" in first["artifacts"] and "duration_ms" in first
    assert pathlib.Path(second["json_log_location"]).read_text() == "out\nfirst\nno such invoice\n"
    assert first["json_log_location"] != second["json_log_location"]


def test_a_signal_is_told_by_its_name(station, run):
    [failure] = run("kill -SEGV $$")["attempts"]
    assert failure["error_type"] == {"CommandFailed": {"exit_code": 139, "signal": "SIGSEGV"}}


def test_what_fails_is_run_again_by_its_policy_until_it_succeeds(station, run, tmp_path):
    log = tmp_path / "log"
    job = run('echo "$LAZARET_ATTEMPT" >> "$LAZARET_INPUT_LOG"; test "$LAZARET_ATTEMPT" = 3', {"log": str(log)}, retry_policy=THRICE)
    assert (job["state"], job["attempt"], len(job["attempts"])) == ("done", 3, 2)
    assert log.read_text() == "1\n2\n3\n"


@pytest.mark.parametrize("where", [">&3", '> "$LAZARET_FAILURE_FILE"'])
def test_a_command_may_say_more_of_its_failure(station, clerk, where):
    said = {"class": "rate_limited", "message": "the quota is used up", "retry_after_seconds": 45, "side_effects": "none",
            "policy_checks": ["quota"], "artifacts": {"window": "daily"}}
    job_id = station.push(queue="scripts", inputs={"script": f'printf %s "$LAZARET_INPUT_SAID" {where}; echo noise >&2; exit 1',
                                                   "said": json.dumps(said)})
    wait_until(lambda: state_of(station, job_id) == "scheduled", "the retry")
    [failure] = job_of(station, job_id)["attempts"]
    assert (failure["class"], failure["error_message"], failure["side_effects"]) == ("rate_limited", "the quota is used up", "none")
    assert failure["policy_checks"] == ["quota"]
    assert (failure["artifacts"]["window"], failure["artifacts"]["exit_code"]) == ("daily", 1)
    assert (failure["decision"]["action"], failure["decision"]["delay_seconds"]) == ("retry", 45)
    station.post(f"/api/v1/jobs/{job_id}/cancel").expect(200)


def test_side_effects_without_an_idempotency_key_are_not_repeated(station, run):
    script = """echo '{"message":"half done","side_effects":"committed"}' >&3; exit 1"""
    letter = letter_of(station, run(script, retry_policy=THRICE)["job_id"])
    assert (letter["reason"], letter["failure_count"]) == ("not_idempotent", 1)
    letter = letter_of(station, run(script, retry_policy=THRICE, idempotency_key="key-2")["job_id"])
    assert (letter["reason"], letter["failure_count"]) == ("retries_exhausted", 3)


def test_a_class_that_is_not_retryable_goes_straight_to_the_quarantine(station, run):
    letter = letter_of(station, run("""echo '{"class":"invalid_input","message":"no amount"}' >&3; exit 1""", retry_policy=THRICE)["job_id"])
    assert (letter["reason"], letter["failure_count"], letter["recoverable"]) == ("not_retryable", 1, False)


def test_a_failure_that_was_said_is_one_whatever_the_exit_code(station, run):
    job = run("""echo fine; echo '{"class":"timeout","message":"the gateway"}' >&3; exit 0""")
    [failure] = job["attempts"]
    assert (job["state"], failure["class"], failure["error_message"]) == ("dead", "timeout", "the gateway")
    assert (failure["artifacts"]["exit_code"], failure["artifacts"]["stdout"]) == (0, "fine\n")


@pytest.mark.parametrize("said", ["no JSON {", '["a"]', '{"class":"made up"}', '{"message":7}'])
def test_what_is_no_failure_object_is_kept_as_a_text(run, said):
    [failure] = run('printf %s "$LAZARET_INPUT_SAID" >&3; echo "my last words" >&2; exit 4', {"said": said})["attempts"]
    assert (failure["error_message"], failure["artifacts"]["said"]) == ("my last words", said)
    assert failure["error_context"][-1].startswith("What the command said of its failure cannot be used: ")


def test_a_job_that_runs_for_longer_than_it_may_is_ended_with_all_it_started_and_reported(station, run, tmp_path):
    pid = tmp_path / "pid"
    script = 'echo begun; sleep 1000 & echo $! > "$LAZARET_INPUT_PID"; wait'

    def reported():
        """On a machine that is very slow the engine takes the job away before there was a report: one of several is enough."""
        pid.unlink(missing_ok=True)
        job = run(script, {"pid": str(pid)}, constraints={"max_runtime_seconds": 1})
        letter = letter_of(station, job["job_id"])
        [failure] = letter["failure_history"]
        assert (letter["reason"], failure["error_type"], failure["class"]) == ("timeout_in_progress", "Timeout", "timeout")
        wait_until(lambda: not alive(pid_in(pid)), "the end of what it started")
        return failure.get("artifacts", {}).get("stdout") == "begun\n" and failure["error_message"] == "timed out after 1 s"

    wait_until(reported, "a report in time")


def test_a_time_out_of_the_worker_ends_one_that_ignores_being_asked(station, hire, queue, tmp_path):
    worker = hire(station, "--queue", queue, "--until-empty", "--timeout", "300ms", "--grace", "100ms", *SCRIPT)
    job_id = station.push(queue=queue, retry_policy=ONCE, inputs={"script": f"trap '' TERM; echo $$ > {tmp_path}/pid; {hold(NEVER)}"})
    worker.end()
    [failure] = ended(station, job_id)["attempts"]
    assert (failure["error_type"], failure["error_message"]) == ("Timeout", "timed out after 0.3 s")
    assert failure["artifacts"]["signal"] == "SIGKILL" and not alive(pid_in(tmp_path / "pid"))


# ---- which jobs, and how many ----------------------------------------------------------------------------------------

def test_only_jobs_of_its_queues_are_taken(station, hire, queue):
    ids = {name: station.push(queue=f"{queue}/{name}") for name in "abcd"}
    hire(station, "--queue", f"{queue}/a,{queue}/b", "--queue", f"{queue}/c", "--until-empty", "--", "true").end()
    assert {name: state_of(station, job_id) for name, job_id in ids.items()} == {"a": "done", "b": "done", "c": "done", "d": "pending"}


def test_jobs_that_need_what_the_worker_cannot_do_are_left(station, hire, queue):
    needs = {"plain": [], "one": ["sum"], "both": ["sum", "pay"], "other": ["pay"]}
    ids = {name: station.push(queue=queue, required_capabilities=needed) for name, needed in needs.items()}
    hire(station, "--queue", queue, "--capabilities", "sum,draw", "--until-empty", "--", "true").end()
    assert {name: state_of(station, job_id) for name, job_id in ids.items()} == {
        "plain": "done", "one": "done", "both": "pending", "other": "pending"}
    hire(station, "--queue", queue, "--capabilities", "sum", "--capabilities", "pay", "--until-empty", "--", "true").end()
    assert all(state_of(station, job_id) == "done" for job_id in ids.values())


def test_so_many_run_at_once_and_the_rest_is_left_to_others(station, hire, queue, tmp_path):
    meet = f'touch {tmp_path}/$LAZARET_INPUT_ME; while [ ! -e {tmp_path}/$LAZARET_INPUT_OTHER ]; do sleep 0.02; done; {hold(tmp_path / "go")}'
    ids = [station.push(queue=queue, inputs={"script": meet, "me": me, "other": other}) for me, other in ["ab", "ba"]]
    third = station.push(queue=queue, inputs={"script": "true"})
    busy = hire(station, "--queue", queue, "--parallel", "2", *SCRIPT)
    wait_until(lambda: (tmp_path / "a").exists() and (tmp_path / "b").exists(), "two at once")
    # Somebody else can have the third at once.
    hire(station, "--queue", queue, "--worker-id", "other", "--until-empty", *SCRIPT).end()
    assert state_of(station, third) == "done" and [state_of(station, job_id) for job_id in ids] == ["running"] * 2
    (tmp_path / "go").touch()
    assert [ended(station, job_id)["state"] for job_id in ids] == ["done"] * 2
    busy.signal()
    assert len([event for event in busy.end() if event["event"] == "succeeded"]) == 2


def test_what_was_taken_ahead_of_need_is_given_back_when_a_command_is_slow(station, hire, queue, tmp_path):
    # Quick commands make a worker take leases ahead; then one comes that does not end.
    quick = [station.push(queue=queue, priority=9, inputs={"script": "true"}) for _ in range(40)]
    slow = station.push(queue=queue, priority=5, inputs={"script": f"touch {tmp_path}/slow; {hold(tmp_path / 'go')}"})
    behind = [station.push(queue=queue, priority=1, inputs={"script": "true"}) for _ in range(20)]
    hire(station, "--queue", queue, "--worker-id", "slow", *SCRIPT)
    wait_until((tmp_path / "slow").exists, "the slow one")
    hire(station, "--queue", queue, "--worker-id", "quick", *SCRIPT)
    assert all(ended(station, job_id)["attempt"] == 1 for job_id in quick + behind)
    assert state_of(station, slow) == "running"
    (tmp_path / "go").touch()
    assert ended(station, slow)["state"] == "done"


def test_two_workers_run_every_job_once(station, hire, queue, tmp_path):
    body = [{"action": "a", "queue": queue, "inputs": {"script": f"echo {n} >> {tmp_path}/log"}} for n in range(60)]
    station.post("/api/v1/jobs", body).expect(200)
    workers = [hire(station, "--queue", queue, "--parallel", "2", "--until-empty", *SCRIPT) for _ in range(2)]
    done = [event["job_id"] for worker in workers for event in worker.end() if event["event"] == "succeeded"]
    assert len(done) == len(set(done)) == 60
    assert sorted((tmp_path / "log").read_text().split(), key=int) == [str(n) for n in range(60)]


# ---- leases ----------------------------------------------------------------------------------------------------------

def test_heartbeats_keep_the_lease_of_a_long_command(station, hire, queue, tmp_path):
    job_id = station.push(queue=queue, inputs={"script": hold(tmp_path / "go")})
    worker = hire(station, "--queue", queue, "--lease", "1s", *SCRIPT)
    worker.told("started")
    first = datetime.datetime.fromisoformat(job_of(station, job_id)["lease_expires_at"].replace("Z", "+00:00"))
    wait_until(lambda: datetime.datetime.now(datetime.timezone.utc) > first + datetime.timedelta(seconds=0.5), "the end of the first lease")
    assert job_of(station, job_id)["started"]
    (tmp_path / "go").touch()
    job = ended(station, job_id)
    assert (job["state"], job["attempt"], job["attempts"]) == ("done", 1, [])
    assert history(station, job_id) == ["pushed", "leased", "started", "completed"]


def test_the_command_of_a_cancelled_job_is_ended(station, hire, queue, tmp_path):
    script = f"trap 'echo asked > {tmp_path}/asked; exit 0' TERM; echo $$ > {tmp_path}/pid; {hold(NEVER)}"
    job_id = station.push(queue=queue, inputs={"script": script})
    worker = hire(station, "--queue", queue, "--lease", "1500ms", *SCRIPT)
    pid = pid_in(tmp_path / "pid")
    station.post(f"/api/v1/jobs/{job_id}/cancel").expect(200)
    job = ended(station, job_id)
    assert (job["state"], job["dlq_id"], job["attempt"]) == ("cancelled", None, 1)
    assert (tmp_path / "asked").exists() and not alive(pid)
    assert [event["job_id"] for event in worker.told("cancelled")] == [job_id]
    # The worker goes on.
    assert ended(station, station.push(queue=queue, inputs={"script": "true"}))["state"] == "done"
    worker.signal()
    assert worker.end()[-1]["cancelled"] == 1


def test_a_worker_that_was_away_for_too_long_ends_its_command_and_reports_nothing(station, hire, queue, tmp_path):
    script = f"echo $$ > {tmp_path}/pid$LAZARET_ATTEMPT; test $LAZARET_ATTEMPT = 2 || {{ {hold(NEVER)}; }}"
    job_id = station.push(queue=queue, retry_policy=TWICE, inputs={"script": script})
    away = hire(station, "--queue", queue, "--worker-id", "away", "--lease", "1s", *SCRIPT)
    pid = pid_in(tmp_path / "pid1")
    wait_until(lambda: job_of(station, job_id)["started"], "a heartbeat")
    away.signal(signal.SIGSTOP)
    wait_until(lambda: state_of(station, job_id) != "running", "the end of the lease")
    hire(station, "--queue", queue, "--worker-id", "there", "--until-empty", *SCRIPT).end()
    job = ended(station, job_id)
    assert (job["state"], job["attempt"]) == ("done", 2) and alive(pid)
    away.signal(signal.SIGCONT)
    assert [event["job_id"] for event in away.told("lost")] == [job_id]
    assert not alive(pid)
    away.signal()
    assert away.end()[-1]["total"] == 0
    assert history(station, job_id) == ["pushed", "leased", "started", "retry-scheduled", "leased", "completed"]
    [failure] = job_of(station, job_id)["attempts"]
    assert (failure["class"], failure["error_message"]) == ("crashed", "the worker was lost: its lease ended without a result")


def test_the_job_of_a_worker_that_was_killed_is_run_again_as_crashed(station, hire, queue, tmp_path):
    script = f"echo $$ > {tmp_path}/pid$LAZARET_ATTEMPT; test $LAZARET_ATTEMPT = 2 || {{ {hold(NEVER)}; }}"
    job_id = station.push(queue=queue, retry_policy=TWICE, inputs={"script": script})
    victim = hire(station, "--queue", queue, "--lease", "1s", *SCRIPT)
    pid = pid_in(tmp_path / "pid1")
    wait_until(lambda: job_of(station, job_id)["started"], "a heartbeat")
    victim.signal(signal.SIGKILL)
    wait_until(lambda: not alive(pid), "the end of its command")
    hire(station, "--queue", queue, *SCRIPT)
    job = ended(station, job_id)
    assert (job["state"], job["attempt"], job["attempts"][0]["class"]) == ("done", 2, "crashed")


def test_a_job_is_marked_as_started_while_its_lease_is_still_new(station, hire, queue, tmp_path):
    job_id = station.push(queue=queue, inputs={"script": hold(tmp_path / "go")})
    hire(station, "--queue", queue, "--lease", "12h", *SCRIPT)
    wait_until(lambda: job_of(station, job_id)["started"], "the first heartbeat")
    (tmp_path / "go").touch()
    assert ended(station, job_id)["state"] == "done"


# ---- stopping --------------------------------------------------------------------------------------------------------

def test_the_first_signal_lets_what_runs_finish_and_takes_nothing_more(station, hire, queue, tmp_path):
    running = station.push(queue=queue, inputs={"script": hold(tmp_path / "go")})
    worker = hire(station, "--queue", queue, *SCRIPT)
    worker.told("started")
    worker.signal()
    [note] = worker.told("note")
    assert note["message"] == "stopping: 1 job is still running; once more to end it at once"
    later = station.push(queue=queue, inputs={"script": "true"})
    (tmp_path / "go").touch()
    assert worker.end()[-1]["done"] == 1
    assert state_of(station, running) == "done"
    assert (state_of(station, later), history(station, later)) == ("pending", ["pushed"])


def test_an_idle_worker_ends_at_once_with_0(station, hire, queue):
    workers = [hire(station, "--queue", queue, "--", "true") for _ in range(3)]
    for worker in workers:
        wait_until(lambda: (pathlib.Path(f"/proc/{worker.process.pid}/task") / "").exists() and
                   len(os.listdir(f"/proc/{worker.process.pid}/task")) > 3, "its threads")
    for worker, number in zip(workers, [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]):
        worker.signal(number)
        assert [event["event"] for event in worker.end()] == ["summary"]


def test_the_second_signal_ends_what_runs_without_counting_it(station, hire, queue, tmp_path):
    script = f"echo $$ > {tmp_path}/pid; trap '' TERM; {hold(NEVER)}"
    job_id = station.push(queue=queue, retry_policy=ONCE, inputs={"script": script})
    worker = hire(station, "--queue", queue, *SCRIPT)
    pid = pid_in(tmp_path / "pid")
    worker.signal()
    worker.told("note")
    worker.signal()
    assert [event["event"] for event in worker.end()] == ["started", "note", "interrupted", "summary"]
    assert not alive(pid)
    job = job_of(station, job_id)
    [failure] = job["attempts"]
    assert job["state"] in ("pending", "scheduled")  # though it may be run only once
    assert failure["interrupted"] and failure["decision"]["rule"] == "interrupted"
    assert failure["error_message"] == "interrupted: the runner was stopped"
    hire(station, "--queue", queue, "--until-empty", "--", "true").end()
    assert (state_of(station, job_id), job_of(station, job_id)["attempt"]) == ("done", 2)


def test_a_drain_that_takes_too_long_ends_what_runs_politely(station, hire, queue, tmp_path):
    script = f"trap 'echo asked > {tmp_path}/asked; exit 0' TERM; echo $$ > {tmp_path}/pid; {hold(NEVER)}"
    job_id = station.push(queue=queue, retry_policy=ONCE, inputs={"script": script})
    worker = hire(station, "--queue", queue, "--drain-timeout", "200ms", *SCRIPT)
    pid_in(tmp_path / "pid")
    worker.signal()
    events = worker.end()
    assert [event["event"] for event in events[-2:]] == ["interrupted", "summary"] and (tmp_path / "asked").exists()
    assert job_of(station, job_id)["attempts"][0]["interrupted"]


# ---- servers ---------------------------------------------------------------------------------------------------------

def test_a_worker_works_with_a_token_that_is_known_for_as_long_as_it_is(serve, hire, tmp_path):
    server = serve()
    server.token = server.make_token("root", "admin")
    wait_until(lambda: server.get("/api/v1/queues", token=None).status == 401, "that the token is wanted")
    tokens = {name: server.make_token(name, role) for name, role in [("lost", "worker"), ("eyes", "viewer")]}
    held = server.push(queue="vault", retry_policy=TWICE, inputs={"script": f"echo $$ > {tmp_path}/pid; {hold(NEVER)}"})
    workers = [(hire(server.url, "--queue", "vault", "--lease", "1s", *SCRIPT, env={"LAZARET_TOKEN": token} if token else {}), said)
               for token, said in [("lzt_wrong", "the server does not know this token: it may have been revoked"),
                                   (tokens["lost"], "the server does not know this token: it may have been revoked"),
                                   (tokens["eyes"], "this needs the role worker; the token has viewer"),
                                   (None, "the server asks for a token: give --token or set LAZARET_TOKEN")]]
    pid = pid_in(tmp_path / "pid")
    assert server.cli("token", "revoke", "lost").returncode == 0

    # A token that was made a moment ago will do, though the server does not know it at once.
    job_id = server.push(inputs={"script": "echo $LAZARET_ACTION"})
    hire(server.url, "--queue", "default", "--until-empty", *SCRIPT, env={"LAZARET_TOKEN": server.make_token("hands", "worker")}).end()
    job = job_of(server, job_id)
    assert (job["state"], job["result"]["stdout"]) == ("done", "send_invoice\n")
    assert "json_log_location" not in job["result"]  # a server's directory is not ours to write to
    assert {event["actor"] for event in server.get(f"/api/v1/audit?job_id={job_id}").json[1:]} == {"hands"}

    for worker, said in workers:
        worker.end(4)
        assert worker.stderr == f"lazaret: {said}\n"
    assert not alive(pid)
    wait_until(lambda: state_of(server, held) in ("pending", "scheduled"), "that others can have the job")


def test_a_worker_survives_the_death_of_its_server_and_loses_no_outcome(serve, hire, tmp_path):
    server = serve()
    outside = server.push(queue="q", priority=9, inputs={"script": f"touch {tmp_path}/first; {hold(tmp_path / 'go')}"})
    across = server.push(queue="q", priority=8, inputs={"script": f"touch {tmp_path}/second; {hold(tmp_path / 'later')}"})
    worker = hire(server.url, "--queue", "q", "--parallel", "3", *SCRIPT)
    wait_until(lambda: (tmp_path / "first").exists() and (tmp_path / "second").exists(), "both to run")
    server.listen = f"127.0.0.1:{server.port}"
    server.kill()
    [note] = worker.told("note")
    assert "no server answers" in note["message"] or "not known" in note["message"], note
    (tmp_path / "go").touch()  # it ends while nobody is there to be told
    wait_until(lambda: not pathlib.Path(f"/proc/{worker.process.pid}/task/{worker.process.pid}/children").read_text().split()[1:],
               "the end of the first command")
    server.start()
    (tmp_path / "later").touch()
    for job_id in [outside, across]:
        job = ended(server, job_id)
        assert (job["state"], job["attempt"], job["attempts"]) == ("done", 1, [])
    assert ended(server, server.push(queue="q", inputs={"script": "true"}))["state"] == "done"
    worker.signal()
    events = worker.end()
    assert len([event for event in events if event["event"] == "note"]) == 2  # that it was gone, and that it is back
    assert events[-1]["done"] == 3


def test_a_worker_that_is_started_before_its_server_waits_for_it(serve, hire):
    server = serve()
    server.listen = f"127.0.0.1:{server.port}"
    job_id = server.push(inputs={"script": "true"})
    server.stop()
    worker = hire(server.url, "--lease", "600ms", *SCRIPT)
    [note] = worker.told("note")
    assert note["message"].startswith(f"no server answers at {server.url}")
    server.start()
    assert ended(server, job_id)["state"] == "done"
    worker.signal()
    notes = [event["message"] for event in worker.end() if event["event"] == "note"]
    assert notes == [note["message"], "there is an answer again"]


def test_a_worker_whose_server_is_gone_ends_when_it_is_told_to(serve, hire, tmp_path):
    server = serve()
    server.push(inputs={"script": f"touch {tmp_path}/begun; {hold(tmp_path / 'go')}"})
    worker = hire(server.url, "--drain-timeout", "500ms", *SCRIPT)
    wait_until((tmp_path / "begun").exists, "the command")
    server.kill()
    worker.signal()
    worker.end(5)
    assert worker.stderr == "lazaret: what ran last could not be reported: its runs count as crashed when their leases end\n"
    idle = hire(server.url, *SCRIPT)
    idle.told("note")
    idle.signal()
    assert idle.end()[-1]["total"] == 0


def test_workers_take_over_the_directory_when_its_server_is_gone(serve, hire, tmp_path):
    server = serve()
    job_id = server.push(inputs={"script": f"touch {tmp_path}/begun; {hold(tmp_path / 'go')}"})
    worker = hire(server, *SCRIPT)
    wait_until((tmp_path / "begun").exists, "the command")
    server.kill()
    (tmp_path / "go").touch()
    worker.told("succeeded")  # it owns the directory from here on
    worker.signal()
    worker.end()
    server.start()
    assert (state_of(server, job_id), job_of(server, job_id)["attempt"]) == ("done", 1)
