"""Several processes on one directory: one owns it, the others ask the owner, and one takes over when it is gone."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import PROGRAM, SEED, Lazaret, own_only

pytestmark = own_only

HOLD = """import fcntl, os, sys
os.makedirs(sys.argv[1], exist_ok=True)
lock = open(sys.argv[1] + "/lazaret.lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
lock.write(f"{os.getpid()}\\n"); lock.flush()
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def holder(lz):
    """A process that has the lock and answers nobody, until it is told to let go."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(lz.data)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    if process.poll() is None:
        process.communicate("\n", timeout=60)


@pytest.fixture
def server(serve):
    return serve()


def start(lz, *args):
    return subprocess.Popen([PROGRAM, *args], env=lz.env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def end(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def until(condition):
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit, "it did not come to that"
        time.sleep(0.01)


def connections(lz):
    """How many ends of connections to the owner's socket there are, the listening one included."""
    with open("/proc/net/unix") as table:
        return sum(line.rstrip().endswith(str(lz.data / "lazaret.sock")) for line in table)


def at_once(*calls):
    results = [None] * len(calls)

    def run(n):
        results[n] = calls[n]()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


# ---- an owner that answers ------------------------------------------------------------------------------------------


def test_commands_work_while_a_server_runs(lz, server):
    assert lz.ok("push", "--action", "a", "--job-id", "j") == "j\tpending\tcreated\n"
    assert lz.ok("push", "--action", "a", "--job-id", "j") == "j\tpending\tknown\n"
    assert lz.json("status")["live"] == 1
    assert lz.json("status", "--server", server.url)["live"] == 1
    server.stop()
    assert lz.json("status")["live"] == 1


def test_who_asks_over_the_socket_stands_in_the_evidence(lz, server):
    lz.ok("push", "--action", "a", "--job-id", "j", "--actor", "human:Zoë")
    assert [event["actor"] for event in lz.json("audit", "show")] == ["human:Zoë"]


def test_a_command_that_waits_for_an_answer_of_its_user_holds_nobody_up(lz):
    first, second = lz.dead(), lz.dead()
    child = lz.terminal("dlq", "discard", first, second)
    child.expect("y/N")
    assert lz.json("dlq", "stats")["unrecovered"] == 2
    child.sendline("y")
    child.expect("2 discarded")
    child.wait()


def test_a_program_that_embeds_the_library_answers_too(lz):
    owner = subprocess.Popen([SEED, "--data", str(lz.data), "--wait-for-line"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True, env=lz.env)
    assert owner.stdout.readline() == "waiting\n"
    lz.ok("push", "--action", "a")
    assert lz.json("status")["live"] == 1
    owner.communicate("\n", timeout=60)
    assert owner.returncode == 0


def test_a_second_server_names_the_first_and_gives_up(lz, server):
    done = lz.run("serve", "--data", lz.data, "--listen", "127.0.0.1:0")
    assert (done.returncode, done.stdout) == (5, "")
    assert str(server.pid) in done.stderr and server.url in done.stderr


def test_nobody_else_can_open_the_socket(lz, server):
    assert (lz.data / "lazaret.sock").stat().st_mode & 0o777 == 0o600


# ---- an owner that does not -----------------------------------------------------------------------------------------


def test_a_directory_that_stays_taken_is_exit_code_5_and_names_the_owner(lz, holder, tmp_path):
    (tmp_path / "quick.yml").write_text("lock_wait_seconds: 0.05\n")
    err = lz.fails(5, "dlq", "list", "--config", tmp_path / "quick.yml")
    assert str(holder.pid) in err and "hint:" in err


def test_an_owner_or_a_server_that_hangs_is_exit_code_5(lz, server, tmp_path):
    (tmp_path / "quick.yml").write_text("lock_wait_seconds: 0.5\n")
    os.kill(server.pid, signal.SIGSTOP)
    try:
        err = lz.fails(5, "dlq", "list", "--config", tmp_path / "quick.yml")
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert str(server.pid) in err


def test_a_directory_with_a_long_name_has_a_socket_too(tmp_path):
    lz = Lazaret(tmp_path / ("e" * 120) / "data", mode="own")
    server = subprocess.Popen([PROGRAM, "serve", "--data", str(lz.data), "--listen", "127.0.0.1:0"], env=lz.env,
                              stdout=subprocess.PIPE, text=True)
    assert "ready" in server.stdout.readline()
    assert lz.ok("push", "--action", "a", "--job-id", "j") == "j\tpending\tcreated\n"
    server.terminate()
    assert server.wait(timeout=60) == 0


def test_a_command_waits_until_the_owner_lets_go(lz, holder):
    waiting = start(lz, "push", "--action", "a", "--job-id", "j")
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(timeout=0.3)
    holder.communicate("\n", timeout=60)
    assert end(waiting) == (0, "j\tpending\tcreated\n", "")


def test_a_command_takes_over_from_an_owner_that_was_killed(lz, holder):
    waiting = start(lz, "push", "--action", "a", "--job-id", "j")
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(timeout=0.3)
    holder.kill()
    assert end(waiting) == (0, "j\tpending\tcreated\n", "")


def test_help_does_not_wait(lz, holder):
    lz.ok("dlq", "list", "--help")
    lz.fails(2, "dlq", "list", "--nonsense")


# ---- an owner that goes away ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("args, out", [
    (["push", "--action", "a", "--job-id", "j"], "j\tpending\tcreated\n"),
    (["dlq", "list"], ""),
    (["policy", "explain", "dispatch", "-o", "json"], None),
])
def test_a_request_that_an_owner_never_answered_is_carried_out_by_who_takes_over(lz, server, args, out):
    before = connections(lz)
    os.kill(server.pid, signal.SIGSTOP)
    waiting = start(lz, *args)
    until(lambda: connections(lz) > before)
    server.kill()
    code, said, err = end(waiting)
    assert (code, err) == (0, "") and (out is None or said == out)


def test_a_review_that_an_owner_never_began_is_carried_out_once(lz, serve):
    letter = lz.dead()
    server = serve()
    before = connections(lz)
    os.kill(server.pid, signal.SIGSTOP)
    waiting = start(lz, "dlq", "discard", letter)
    until(lambda: connections(lz) > before)
    server.kill()
    assert end(waiting) == (0, f"{letter}\tdiscarded\n", "")
    assert [event["what"] for event in lz.json("audit", "show")].count("discarded") == 1


def test_what_an_owner_that_was_killed_left_behind_is_no_obstacle(lz, serve):
    server = serve()
    lz.ok("push", "--action", "a")
    server.kill()
    assert (lz.data / "lazaret.sock").exists()
    assert lz.json("status")["live"] == 1
    server = serve()
    assert lz.json("status")["live"] == 1
    server.stop()
    assert not (lz.data / "lazaret.sock").exists()


def test_a_file_that_is_no_socket_is_no_obstacle(lz, serve):
    lz.data.mkdir()
    (lz.data / "lazaret.sock").write_text("not a socket")
    lz.ok("push", "--action", "a")
    server = serve()
    assert lz.json("status")["live"] == 1
    server.stop()


# ---- many at once ---------------------------------------------------------------------------------------------------


def test_many_at_once_all_get_their_turn(lz):
    done = at_once(*[lambda n=n: lz.run("push", "--action", "a", "--job-id", f"j{n}") for n in range(8)])
    assert [(d.returncode, d.stdout, d.stderr) for d in done] == [(0, f"j{n}\tpending\tcreated\n", "") for n in range(8)]
    assert lz.json("status")["live"] == 8
    lz.ok("audit", "verify")


def test_reviews_at_once_happen_once_each_while_owners_come_and_go(lz):
    letters = [line.split()[1] for line in
               lz.seed(*[("push", {"action": "a", "retry_policy": {"max_attempts": 1}}), ("fail", {"message": "x"})] * 8)
               if line.startswith("dead")]
    done = at_once(*[lambda i=i: lz.run("dlq", "discard", i) for i in letters])
    assert [(d.returncode, d.stdout, d.stderr) for d in done] == [(0, f"{i}\tdiscarded\n", "") for i in letters]
    assert [event["what"] for event in lz.json("audit", "show")].count("discarded") == 8


def test_pushes_go_on_while_the_server_is_restarted(lz, serve):
    ids = [f"j{n}" for n in range(24)]
    running = [serve()]

    def push(mine):
        return [lz.run("push", "--action", "a", "--job-id", i) for i in mine]

    def restart():
        for _ in range(3):
            running[-1].stop()
            running.append(serve())

    done = at_once(*[lambda n=n: push(ids[n::4]) for n in range(4)], restart)
    assert len(running) == 4
    running[-1].stop()
    for answer in sum(done[:4], []):
        assert (answer.returncode, answer.stdout[-8:], answer.stderr) == (0, "created\n", "")
    assert lz.json("status")["live"] == len(ids)
    lz.ok("audit", "verify")


# ---- which one ------------------------------------------------------------------------------------------------------


def test_a_server_is_chosen_by_flag_then_directory_flag_then_environment(lz, server, tmp_path):
    lz.ok("push", "--action", "a")
    nowhere = {"LAZARET_URL": "http://127.0.0.1:1"}
    other = Lazaret(tmp_path / "other")
    assert other.json("status")["live"] == 0
    assert other.json("status", "--server", server.url)["live"] == 1
    assert other.json("status", env={"LAZARET_URL": server.url})["live"] == 1
    assert other.json("status", "--data", other.data, env=nowhere)["live"] == 0
    assert other.json("status", "--server", server.url, env=nowhere)["live"] == 1
    assert "127.0.0.1:1" in other.fails(5, "status", env=nowhere)
    assert other.json("status", env={"LAZARET_URL": ""})["live"] == 0


def test_a_server_and_a_directory_are_one_too_many(lz):
    assert "--server and --data" in lz.fails(2, "status", "--server", "http://127.0.0.1:1", "--data", lz.data)


@pytest.mark.parametrize("args", [["serve"], ["token", "list"], ["token", "create", "x", "--role", "viewer"]])
def test_what_needs_the_directory_itself_says_so(lz, args):
    err = lz.fails(2, *args, "--server", "http://127.0.0.1:1")
    assert "--data, not --server" in err


def test_a_token_is_asked_for_and_names_who_asked(lz, serve):
    token = lz.ok("token", "create", "ci", "--role", "operator").strip()
    server = serve()
    other = Lazaret(lz.data / "other")
    assert "give --token or set LAZARET_TOKEN" in other.fails(4, "status", "--server", server.url)
    assert "does not know this token" in other.fails(4, "status", "--server", server.url, "--token", "lzt_wrong")
    other.ok("push", "--action", "a", "--server", server.url, "--token", token)
    other.ok("push", "--action", "a", "--actor", "human:eve", env={"LAZARET_URL": server.url, "LAZARET_TOKEN": token})
    assert "admin" in other.fails(4, "dlq", "clear", "run", "--yes", "--server", server.url, "--token", token)
    assert {json.loads(line)["actor"] for line in lz.ok("audit", "export", "-").splitlines()} == {"ci"}
    server.stop()
