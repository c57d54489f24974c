"""`lazaret work --supervise`: an agent is kept up, or dead-lettered with what happened to it."""

import http.client
import json
import os
import queue
import shlex
import signal
import socket
import subprocess
import threading
import time
import urllib.parse

import pytest
from conftest import PROGRAM, own_only

QUICK = ["--restart-delay", "10ms"]
FOREVER = "sleep 100000"


class Supervisor:
    """`lazaret work --supervise -o json` and the events that it prints."""

    def __init__(self, lz, *args):
        self.process = subprocess.Popen(
            [PROGRAM, "work", "--supervise", "-o", "json", *map(str, args)], env=lz.env, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pid = self.process.pid
        self.lines = queue.Queue()
        self.stderr = []
        self.threads = [threading.Thread(target=self.read_events), threading.Thread(target=self.read_words)]
        for thread in self.threads:
            thread.start()

    def read_events(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def read_words(self):
        self.stderr += self.process.stderr

    def event(self, name):
        """Waits for the next event of this name."""
        while True:
            event = self.lines.get(timeout=60)
            assert event is not None, f"it ended before it was {name}: {self.said()}"
            if event["event"] == name:
                return event

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def end(self):
        """Waits for its end; returns the exit code and the events that nobody waited for."""
        code = self.process.wait(timeout=60)
        for thread in self.threads:
            thread.join(timeout=60)
        events = []
        while (event := self.lines.get(timeout=60)) is not None:
            events.append(event)
        return code, events

    def said(self):
        return "".join(self.stderr)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=60)
        for thread in self.threads:
            thread.join(timeout=60)


@pytest.fixture
def supervise(lz):
    made = []

    def start(*args):
        made.append(Supervisor(lz, *args))
        return made[-1]

    yield start
    for supervisor in made:
        supervisor.kill()


class OwnerConnection(http.client.HTTPConnection):
    """To whoever owns the directory."""

    def __init__(self, data):
        super().__init__("localhost", timeout=60)
        self.place = str(data / "lazaret.sock")

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self.place)


def ask(lz, method, path):
    connection = OwnerConnection(lz.data)
    connection.request(method, path)
    answer = connection.getresponse()
    value = json.loads(answer.read())
    connection.close()
    return value


def job_path(job_id, after=""):
    return "/api/v1/jobs/" + urllib.parse.quote(job_id, safe="") + after


def with_server(lz, serve):
    """Makes sure that somebody owns the directory for as long as the test runs."""
    if lz.mode == "own":
        serve()


def until(condition):
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit, "it did not come to that"
        time.sleep(0.01)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def only_letter(lz):
    letters = lz.json("dlq", "list", "--state", "all")
    assert len(letters) == 1, letters
    return letters[0]


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


# ---- crash_loop -----------------------------------------------------------------------------------------------------


def test_an_agent_that_keeps_crashing_is_dead_lettered_as_a_crash_loop(lz, tmp_path):
    starts = tmp_path / "starts"
    done = lz.run("work", "--supervise", *QUICK, "--worker-id", "web", "--", "sh", "-c",
                  f"echo up >> {starts}; echo no port >&2; exit 3")
    letter = only_letter(lz)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"lazaret: agent web: crash_loop: dead-lettered as {letter['dlq_id']}; "
        f"look: lazaret dlq show {letter['dlq_id']}")
    assert len(lines(starts)) == 6  # the first start, and five restarts
    assert (letter["reason"], letter["reason_detail"]) == ("crash_loop", "5 restarts within 10 minutes")
    assert (letter["source"], letter["recoverable"], letter["failure_count"]) == ("warren", False, 6)
    assert letter["job_id"].startswith("agent/web/")
    assert [h["error_message"] for h in letter["failure_history"]] == ["no port"] * 6
    assert all(h["error_type"] == {"CommandFailed": {"exit_code": 3}} for h in letter["failure_history"])


def test_every_restart_is_a_decision_of_the_policy_with_its_delay(lz):
    assert lz.run("work", "--supervise", *QUICK, "--", "false").returncode == 1
    decisions = [h["decision"] for h in only_letter(lz)["failure_history"]]
    assert [d["action"] for d in decisions] == ["retry"] * 5 + ["quarantine"]
    assert [d["delay_seconds"] for d in decisions[:5]] == [0.01, 0.02, 0.04, 0.08, 0.16]
    assert {d["class"] for d in decisions} == {"crashed"}


def test_an_agent_that_ends_with_0_has_ended_too(lz):
    assert lz.run("work", "--supervise", *QUICK, "--", "true").returncode == 1
    letter = only_letter(lz)
    assert letter["reason"] == "crash_loop"
    assert letter["failure_history"][0]["error_message"] == "the agent ended with exit code 0"


def test_restarts_that_are_far_apart_are_no_crash_loop(lz, tmp_path, supervise):
    starts = tmp_path / "starts"
    # 10, 20, 40, 80 and 160 ms between them are never five within 100 ms.
    agent = supervise(*QUICK, "--restart-window", "100ms", "--", "sh", "-c",
                      f"echo up >> {starts}; [ $(wc -l < {starts}) -lt 8 ] || exec {FOREVER}; exit 1")
    until(lambda: len(lines(starts)) == 8)
    agent.signal()
    assert agent.end()[0] == 0
    assert lz.json("dlq", "list") == []


def test_after_it_was_up_for_long_enough_an_agent_begins_anew(lz, tmp_path, supervise):
    starts = tmp_path / "starts"
    agent = supervise(*QUICK, "--restart-window", "50ms", "--", "sh", "-c",
                      f"echo up >> {starts}; sleep 0.2; [ $(wc -l < {starts}) -lt 8 ] || exec {FOREVER}; exit 1")
    until(lambda: len(lines(starts)) == 8)
    agent.signal()
    code, events = agent.end()
    started = [e for e in events if e["event"] == "started"]
    assert code == 0
    assert {e["attempt"] for e in started} == {1} and len({e["job_id"] for e in started}) == 8


def test_a_command_that_is_not_there_is_not_tried_again(lz):
    done = lz.run("work", "--supervise", "--", "no-such-agent")
    letter = only_letter(lz)
    assert done.returncode == 1 and "no-such-agent: command not found" in done.stderr
    assert (letter["reason"], letter["failure_count"]) == ("not_retryable", 1)
    assert f": not_retryable: dead-lettered as {letter['dlq_id']}" in done.stderr


def test_an_agent_can_say_that_there_is_no_use_in_a_restart(lz):
    said = '{"class": "permission_denied", "message": "the key is revoked"}'
    done = lz.run("work", "--supervise", *QUICK, "--", "sh", "-c", f"echo '{said}' >&3; exit 1")
    letter = only_letter(lz)
    assert (done.returncode, letter["failure_count"]) == (1, 1)
    assert letter["failure_history"][0]["error_message"] == "the key is revoked"


# ---- pull_failure ---------------------------------------------------------------------------------------------------


def test_a_pull_that_fails_is_dead_lettered_and_nothing_is_started(lz, tmp_path):
    done = lz.run("work", "--supervise", "--pull", "echo no soul here >&2; exit 4", "--", "touch", tmp_path / "started")
    letter = only_letter(lz)
    assert done.returncode == 1
    assert f": pull_failure: dead-lettered as {letter['dlq_id']}" in done.stderr
    assert not (tmp_path / "started").exists()
    assert (letter["reason"], letter["failure_count"]) == ("pull_failure", 1)
    failure = letter["failure_history"][0]
    assert failure["error_message"] == "no soul here"
    assert failure["step_failed"] == "pull: echo no soul here >&2; exit 4"


def test_the_pull_comes_before_each_start(lz, tmp_path):
    order = tmp_path / "order"
    lz.run("work", "--supervise", *QUICK, "--pull", f"echo pull >> {order}", "--", "sh", "-c",
           f"echo agent >> {order}; exit 1")
    assert lines(order) == ["pull", "agent"] * 6


def test_a_pull_can_be_stopped(lz, tmp_path, supervise):
    agent = supervise("--pull", f"touch {tmp_path}/pulling; exec {FOREVER}", "--", "touch", tmp_path / "started")
    until((tmp_path / "pulling").exists)
    agent.signal()
    assert agent.end()[0] == 0
    assert not (tmp_path / "started").exists()
    assert lz.json("dlq", "list") == []


# ---- boot_failure ---------------------------------------------------------------------------------------------------


def test_three_failed_health_checks_in_a_row_are_a_boot_failure(lz, supervise):
    agent = supervise("--worker-id", "web", "--health", "echo connection refused >&2; exit 7",
                      "--health-interval", "500ms", "--", "sh", "-c", f"echo booting >&2; {FOREVER} & wait")
    pid = agent.event("started")["pid"]
    code, events = agent.end()
    letter = only_letter(lz)
    assert code == 1
    assert [e["failed"] for e in events if e["event"] == "unhealthy"] == [1, 2, 3]
    assert events[-1] == {"event": "dead_lettered", "agent": "web", "job_id": letter["job_id"], "attempt": 1,
                          "restarts": 0, "reason": "boot_failure", "dlq_id": letter["dlq_id"]}
    assert not alive(pid)
    assert (letter["reason"], letter["source"], letter["failure_count"]) == ("boot_failure", "warren", 1)
    failure = letter["failure_history"][0]
    assert failure["error_message"] == "3 health checks in a row failed: connection refused"
    assert failure["error_type"] == "ValidationFailed"
    assert failure["error_context"][1:4] == [f"Health check {n} of 3 failed: connection refused" for n in (1, 2, 3)]
    assert failure["artifacts"]["health"]["stderr"] == "connection refused\n"
    assert failure["artifacts"]["stderr"] == "booting\n"


def test_a_health_check_that_hangs_has_failed(lz):
    done = lz.run("work", "--supervise", "--health", FOREVER, "--health-interval", "50ms", "--", "sleep", "100000")
    assert done.returncode == 1
    assert only_letter(lz)["failure_history"][0]["error_message"] == (
        "3 health checks in a row failed: timed out after 0.05 s")


def test_an_agent_that_recovers_stays_up(lz, tmp_path, supervise):
    checks = tmp_path / "checks"
    checks.write_text("0\n")
    agent = supervise("--health", f"read n < {checks}; echo $((n + 1)) > {checks}; [ $((n % 3)) = 2 ]",
                      "--health-interval", "500ms", "--", "sleep", "100000")
    assert [agent.event("unhealthy")["failed"] for _ in range(4)] == [1, 2] * 2
    agent.signal()
    assert agent.end()[0] == 0
    assert lz.json("dlq", "list") == []


def test_a_health_check_knows_the_agent_and_its_job(lz, tmp_path, supervise):
    seen = tmp_path / "seen"
    agent = supervise("--health", f"echo $LAZARET_AGENT_PID $LAZARET_JOB_ID $LAZARET_ATTEMPT > {seen}.new; "
                      f"mv {seen}.new {seen}", "--health-interval", "500ms", "--", "sleep", "100000")
    started = agent.event("started")
    until(seen.exists)
    assert seen.read_text().split() == [str(started["pid"]), started["job_id"], "1"]
    agent.signal()
    assert agent.end()[0] == 0


# ---- stopping -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_agent_and_its_children(lz, serve, tmp_path, supervise, number):
    with_server(lz, serve)
    child = tmp_path / "child"
    agent = supervise("--", "sh", "-c", f"{FOREVER} & echo $! > {child}.new; mv {child}.new {child}; wait")
    started = agent.event("started")
    until(child.exists)
    agent.signal(number)
    code, events = agent.end()
    assert (code, events[-1]["event"]) == (0, "stopped")
    assert not alive(started["pid"]) and not alive(int(child.read_text()))
    job = ask(lz, "GET", job_path(started["job_id"]))
    assert (job["state"], job["result"]["stopped"], job["result"]["signal"]) == ("done", True, "SIGTERM")
    assert lz.json("dlq", "list") == []


def test_an_agent_that_does_not_heed_the_signal_is_killed_after_the_grace(tmp_path, supervise):
    agent = supervise("--grace", "50ms", "--", "sh", "-c", f"trap '' TERM; touch {tmp_path}/up; while :; do sleep 0.01; done")
    pid = agent.event("started")["pid"]
    until((tmp_path / "up").exists)
    agent.signal()
    assert agent.end()[0] == 0
    assert not alive(pid)


def test_a_second_signal_kills_at_once(tmp_path, supervise):
    agent = supervise("--grace", "1h", "--", "sh", "-c",
                      f"trap 'touch {tmp_path}/asked' TERM; touch {tmp_path}/up; while :; do sleep 0.01; done")
    pid = agent.event("started")["pid"]
    until((tmp_path / "up").exists)
    agent.signal()
    until((tmp_path / "asked").exists)
    agent.signal()
    assert agent.end()[0] == 0
    assert not alive(pid)


def test_a_signal_between_two_starts_ends_it(lz, serve, supervise):
    with_server(lz, serve)
    agent = supervise("--restart-delay", "1h", "--", "false")
    job_id = agent.event("restarting")["job_id"]
    agent.signal()
    code, events = agent.end()
    assert (code, [e["event"] for e in events]) == (0, ["stopped"])
    assert ask(lz, "GET", job_path(job_id))["state"] == "cancelled"


def test_an_agent_dies_with_its_supervisor(supervise):
    agent = supervise("--", "sleep", "100000")
    pid = agent.event("started")["pid"]
    agent.signal(signal.SIGKILL)
    agent.end()
    until(lambda: not alive(pid))


# ---- who else has a say ---------------------------------------------------------------------------------------------


def test_a_job_that_is_cancelled_has_its_agent_ended(lz, serve, supervise):
    with_server(lz, serve)
    agent = supervise("--lease", "300ms", "--", "sleep", "100000")
    started = agent.event("started")
    assert ask(lz, "POST", job_path(started["job_id"], "/cancel"))["state"] == "running"
    code, events = agent.end()
    assert (code, events[-1]["event"]) == (0, "cancelled")
    assert not alive(started["pid"])
    assert ask(lz, "GET", job_path(started["job_id"]))["state"] == "cancelled"


def test_a_job_that_is_cancelled_between_two_starts_is_not_started_again(lz, serve, supervise):
    with_server(lz, serve)
    agent = supervise("--restart-delay", "1h", "--", "false")
    job_id = agent.event("restarting")["job_id"]
    assert ask(lz, "POST", job_path(job_id, "/cancel"))["state"] == "cancelled"
    code, events = agent.end()
    assert (code, [e["event"] for e in events]) == (0, ["cancelled"])


def test_who_asks_the_directory_is_answered_while_an_agent_is_kept_up(lz, supervise):
    agent = supervise("--", "sleep", "100000")
    agent.event("started")
    assert lz.json("status")["live"] == 1
    agent.signal()
    assert agent.end()[0] == 0
    assert lz.json("status")["live"] == 0


def test_a_lease_that_was_lost_ends_the_agent_and_the_engine_has_it_restarted(lz, serve, supervise):
    with_server(lz, serve)
    agent = supervise("--lease", "300ms", *QUICK, "--", "sleep", "100000")
    started = agent.event("started")
    until(lambda: ask(lz, "GET", job_path(started["job_id"]))["started"])
    agent.signal(signal.SIGSTOP)
    until(lambda: ask(lz, "GET", job_path(started["job_id"]))["state"] != "running")
    agent.signal(signal.SIGCONT)
    agent.event("lost")
    again = agent.event("started")
    assert not alive(started["pid"]) and again["pid"] != started["pid"]
    assert (again["job_id"], again["attempt"], again["restarts"]) == (started["job_id"], 2, 1)
    agent.signal()
    assert agent.end()[0] == 0
    failure = ask(lz, "GET", job_path(started["job_id"]))["attempts"][0]
    assert (failure["decision"]["class"], failure["decision"]["action"]) == ("crashed", "retry")


def test_the_job_of_a_supervisor_that_was_killed_is_taken_up(supervise):
    first = supervise("--lease", "300ms", *QUICK, "--", "sleep", "100000")
    before = first.event("started")
    first.signal(signal.SIGKILL)
    first.end()
    second = supervise("--lease", "300ms", *QUICK, "--", "sleep", "100000")
    after = second.event("started")
    assert (after["job_id"], after["attempt"]) == (before["job_id"], 2)
    second.signal()
    assert second.end()[0] == 0


def test_a_second_supervisor_of_an_agent_waits_for_its_turn(supervise):
    first = supervise("--worker-id", "web", "--lease", "300ms", *QUICK, "--", "sleep", "100000")
    before = first.event("started")
    second = supervise("--worker-id", "web", "--lease", "300ms", *QUICK, "--", "sleep", "100000")
    waiting = second.event("waiting")
    assert (waiting["job_id"], waiting["worker"]) == (before["job_id"], "web")
    assert alive(before["pid"])
    first.signal(signal.SIGKILL)
    first.end()
    assert second.event("started")["attempt"] == 2
    second.signal()
    assert second.end()[0] == 0


def test_a_letter_that_is_brought_back_goes_on_with_its_history(lz, tmp_path, supervise):
    command = ["--", "sh", "-c", f"[ -e {tmp_path}/repaired ] && exec {FOREVER}; exit 1"]
    assert lz.run("work", "--supervise", *QUICK, *command).returncode == 1
    letter = only_letter(lz)
    (tmp_path / "repaired").touch()
    lz.run("dlq", "retry", letter["dlq_id"])
    agent = supervise(*QUICK, *command)
    started = agent.event("started")
    assert (started["job_id"], started["attempt"]) == (letter["job_id"], 7)
    agent.signal()
    assert agent.end()[0] == 0
    assert only_letter(lz)["state"] == "recovered"


def test_a_job_that_strayed_into_the_queue_is_not_touched(lz, serve, supervise):
    with_server(lz, serve)
    lz.ok("push", "--action", "mail", "--queue", "supervised", "--job-id", "stray")
    agent = supervise("--restart-delay", "1h", "--", "false")
    agent.event("restarting")
    until(lambda: "\"stray\"" in agent.said())
    agent.signal()
    assert agent.end()[0] == 0
    assert ask(lz, "GET", job_path("stray"))["state"] == "pending"
    assert ask(lz, "GET", job_path("stray"))["attempts"] == []


# ---- an engine that goes away ---------------------------------------------------------------------------------------


@own_only
def test_an_agent_stays_up_when_the_owner_goes(lz, serve, supervise):
    server = serve()
    agent = supervise("--", "sleep", "100000")
    started = agent.event("started")
    server.stop()
    assert lz.json("status")["live"] == 1 and alive(started["pid"])
    agent.signal()
    code, events = agent.end()
    assert (code, [e["event"] for e in events]) == (0, ["stopped"])


@own_only
def test_a_report_is_delivered_when_the_server_is_back(lz, serve, tmp_path, supervise):
    server = serve()
    agent = supervise("--server", server.url, "--", "sh", "-c", f"[ -e {tmp_path}/fail ] && exec {FOREVER}; "
                      f"while ! [ -e {tmp_path}/fail ]; do sleep 0.01; done; exit 1")
    started = agent.event("started")
    server.kill()
    (tmp_path / "fail").touch()
    agent.event("ended")
    until(lambda: agent.said())  # the trouble is told
    serve("--listen", server.url.removeprefix("http://"))
    again = agent.event("started")
    assert (again["job_id"], again["attempt"]) == (started["job_id"], 2)
    agent.signal()
    assert agent.end()[0] == 0


@own_only
def test_a_second_signal_gives_up_a_report_that_cannot_be_delivered(serve, tmp_path, supervise):
    server = serve()
    agent = supervise("--server", server.url, "--worker-id", "web", "--", "sh", "-c",
                      f"while ! [ -e {tmp_path}/fail ]; do sleep 0.01; done; exit 1")
    agent.event("started")
    server.kill()
    (tmp_path / "fail").touch()
    agent.event("ended")
    agent.signal()
    agent.signal(signal.SIGINT)
    assert agent.end()[0] == 5
    assert agent.said().splitlines()[-1].startswith("lazaret: agent web: ")


# ---- what is seen ---------------------------------------------------------------------------------------------------


def test_what_the_agent_writes_is_passed_on_and_kept(lz, tmp_path):
    done = lz.run("work", "--supervise", *QUICK, "--artifacts", tmp_path / "kept", "--pull", "echo pulling", "--",
                  "sh", "-c", "printf 'line\\001\\n'; echo trouble >&2; exit 1")
    assert done.stdout == "pulling\nline\x01\n" * 6
    assert done.stderr.splitlines().count("trouble") == 6
    log = only_letter(lz)["failure_history"][5]["json_log_location"]
    assert log.startswith(str(tmp_path / "kept"))
    assert sorted(open(log).read().split("\n")) == ["", "line\x01", "pulling", "trouble"]


def test_events_are_alone_on_standard_output(lz):
    done = lz.run("work", "--supervise", *QUICK, "-o", "json", "--worker-id", "web", "--", "sh", "-c",
                  "echo hello; exit 1")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [e["event"] for e in events] == ["started", "ended", "restarting"] * 5 + ["started", "ended", "dead_lettered"]
    assert [e["restarts"] for e in events if e["event"] == "started"] == [0, 1, 2, 3, 4, 5]
    assert {e["agent"] for e in events} == {"web"} and len({e["job_id"] for e in events}) == 1
    assert done.stderr.splitlines() == ["hello"] * 6


def test_a_person_reads_what_happens(lz, tmp_path):
    done = lz.run("work", "--supervise", *QUICK, "--worker-id", "web", "--", "sh", "-c",
                  r"printf 'bad \033[31m thing\n' >&2; exit 1")
    words = [line for line in done.stderr.splitlines() if line.startswith("lazaret: ")]
    assert words[0].startswith("lazaret: agent web: started as process ")
    assert words[1].startswith("lazaret: agent web: ended after ") and words[1].endswith(": bad  thing")
    assert words[2].startswith("lazaret: agent web: restarting in ")
    assert done.stdout == ""


def test_nobody_reading_does_not_hold_the_agent_up(lz, tmp_path):
    written = tmp_path / "written"
    script = f"head -c 1000000 /dev/zero | tr '\\0' x; touch {written}; exec {FOREVER}"
    process = subprocess.Popen([PROGRAM, "work", "--supervise", "--artifacts", str(tmp_path / "kept"), "--", "sh", "-c",
                                script], env=lz.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
    try:
        until(written.exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
        assert len(process.stdout.read()) < 1000000
    finally:
        process.kill()
        process.communicate(timeout=60)
    kept = [p for p in (tmp_path / "kept").rglob("*.log")]
    assert [p.stat().st_size for p in kept] == [1000000]


def test_a_reader_that_goes_away_does_not_end_the_agent(lz, tmp_path):
    script = f"while ! [ -e {tmp_path}/gone ]; do sleep 0.01; done; echo one; echo two; touch {tmp_path}/said; exec {FOREVER}"
    process = subprocess.Popen([PROGRAM, "work", "--supervise", "--", "sh", "-c", script], env=lz.env,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        process.stdout.close()
        (tmp_path / "gone").touch()
        until((tmp_path / "said").exists)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait(timeout=60)


def test_the_agents_arguments_are_passed_as_they_are(lz, tmp_path):
    out = tmp_path / "out"
    odd = ["a b", "$(touch x)", "{}", "--health", "'", ""]
    lz.run("work", "--supervise", "--pull", f"[ ! -s {out} ]", "--", "sh", "-c",
           f'printf "%s\\n" "$@" > {shlex.quote(str(out))}; exit 1', "agent", *odd, cwd=tmp_path)
    assert out.read_text() == "".join(f"{word}\n" for word in odd)
    assert not (tmp_path / "x").exists()


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", [["--health", "true"], ["--pull", "true"], ["--health-interval", "1s"],
                                  ["--restart-delay", "1s"], ["--restart-window", "1s"]])
def test_flags_about_an_agent_need_supervise(lz, flag):
    err = lz.fails(2, "work", *flag, "--", "true")
    assert err == f"lazaret: {flag[0]} needs --supervise: it is about an agent that is kept up\n"


@pytest.mark.parametrize("flag", [["--parallel", "2"], ["--queue", "q"], ["--until-empty"], ["--capabilities", "a"],
                                  ["--timeout", "1s"], ["--drain-timeout", "1s"], ["--scopes", "a"],
                                  ["--permissions", "a"]])
def test_flags_about_jobs_do_not_go_with_supervise(lz, flag):
    err = lz.fails(2, "work", "--supervise", *flag, "--", "true")
    assert err == (f"lazaret: {flag[0]} does not go with --supervise: one agent is kept up, and no jobs are run\n")


@pytest.mark.parametrize("flags, words", [
    (["--health", "true", "--health-interval", "0"], "--health-interval: must be 1ms or more"),
    (["--health-interval", "1s"], "--health-interval needs --health"),
    (["--restart-window", "0"], "--restart-window: must be 1ms or more"),
    (["--restart-delay", "soon"], "--restart-delay: must be a time"),
    (["--worker-id", "w" * 121], "--worker-id: the name of an agent has at most 120 bytes"),
])
def test_values_that_cannot_be_are_refused(lz, flags, words):
    assert words in lz.fails(2, "work", "--supervise", *flags, "--", "true")
    assert not (lz.data / "lazaret.db").exists() or lz.json("status")["live"] == 0


@own_only
def test_a_server_that_is_not_there_is_exit_code_5(lz):
    err = lz.fails(5, "work", "--supervise", "--server", "http://127.0.0.1:9", "--", "true")
    assert err.startswith("lazaret: agent true-")
