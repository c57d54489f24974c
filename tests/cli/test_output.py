"""Standard output that goes away, or is full."""

import os
import subprocess

from conftest import PROGRAM


def many(lz):
    lz.ok("push", "-", input="".join('{"action":"a","inputs":{"x":"%s"}}\n' % ("y" * 200) for _ in range(3000)))


def test_a_reader_that_has_seen_enough_is_no_trouble(lz):
    many(lz)
    process = subprocess.Popen([PROGRAM, "audit", "export", "-"], env=lz.env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 0
    process.stderr.close()


def test_output_that_cannot_be_written_is_exit_code_5(lz):
    for args in [["help"], ["status"], ["dlq", "list", "-o", "json"], ["man"], ["completion", "zsh"]]:
        with open("/dev/full", "wb") as full:
            done = subprocess.run([PROGRAM, *args], env=lz.env, stdout=full, stderr=subprocess.PIPE, text=True,
                                  stdin=subprocess.DEVNULL)
        assert (done.returncode, "cannot write the output" in done.stderr) == (5, True), args


def test_a_closed_standard_output_is_exit_code_5(lz):
    done = subprocess.run(["bash", "-c", '"$0" status >&-', os.path.abspath(PROGRAM)], env=lz.env,
                          stderr=subprocess.PIPE, text=True)
    assert done.returncode == 5


def test_a_push_whose_answer_cannot_be_printed_is_still_on_disk(lz):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([PROGRAM, "push", "--action", "a"], env=lz.env, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 5
    assert lz.json("status")["live"] == 1
