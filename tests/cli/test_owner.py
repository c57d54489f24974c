"""Two processes at once on one directory: the second waits for the first."""

import subprocess
import threading

import pytest

from conftest import PROGRAM, SEED


@pytest.fixture
def owner(lz):
    """A process that has the directory until it is told to let go."""
    process = subprocess.Popen([SEED, "--data", str(lz.data), "--wait-for-line"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, env=lz.env)
    assert process.stdout.readline() == "waiting\n"
    yield process
    if process.poll() is None:
        process.communicate("\n", timeout=60)


def test_a_directory_that_stays_taken_is_exit_code_5_and_names_the_owner(lz, owner, tmp_path):
    (tmp_path / "quick.yml").write_text("lock_wait_seconds: 0.05\n")
    err = lz.fails(5, "dlq", "list", "--config", tmp_path / "quick.yml")
    assert str(owner.pid) in err and "hint:" in err


def test_a_command_waits_until_the_owner_lets_go(lz, owner):
    waiting = subprocess.Popen([PROGRAM, "push", "--action", "a", "--job-id", "j"], env=lz.env, text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(timeout=0.3)
    owner.communicate("\n", timeout=60)
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out, err) == (0, "j\tpending\tcreated\n", "")


def test_many_at_once_all_get_their_turn(lz):
    failures = []

    def push(n):
        done = lz.run("push", "--action", "a", "--job-id", f"j{n}")
        if done.returncode != 0:
            failures.append(done)

    threads = [threading.Thread(target=push, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert lz.json("status")["live"] == 8
    lz.ok("audit", "verify")


def test_help_does_not_wait(lz, owner):
    lz.ok("dlq", "list", "--help")
    lz.fails(2, "dlq", "list", "--nonsense")
