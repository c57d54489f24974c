"""The walk-through of the README, word for word: its commands are run and its output is compared.

What differs from run to run (ids, times, durations, the head of the chain) is matched by its shape; an id that the README
shows is bound to the one that the program shows in its place, and stands for it in later commands.
"""

import os
import pathlib
import re
import shutil
import subprocess

import pexpect
from conftest import PROGRAM

ROOT = pathlib.Path(__file__).resolve().parents[2]
VARIES = [
    (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", r"\\d{4}-\\d\\d-\\d\\dT[0-9:.]+Z"),
    (r"\b[0-9a-f]{64}\b", "[0-9a-f]{64}"),
    (r"\b01[0-9a-f]{6}[0-9a-f-]*", "(01[0-9a-f]{6}[0-9a-f-]*)"),
    (r"\b\d+-[0-9a-f]{16}\b", "(\\\\d+-[0-9a-f]{16})"),
    (r"tasks-\d+", r"tasks-\\d+"),
    (r"\bin [0-9.]+ s \([0-9.k]+/s\)", r"in [0-9.]+ s \\([0-9.k]+/s\\)"),
    (r"\b\d+s\b", r"\\d+s"),
    (r"\b\d+ events\b", r"\\d+ events"),
    (r"\|[ █]+\|", r"\\|[ █]+\\|"),
]
BOUND = VARIES[2][0] + "|" + VARIES[3][0]


def steps():
    """(command, expected lines) of each step of the walk-through."""
    for block in re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            yield command, [line.rstrip() for line in output.rstrip("\n").split("\n")]


def pattern(line):
    """A regular expression for a line of the README."""
    spans, text = [], line
    for shape, _ in VARIES:
        text = re.sub(shape, lambda match: spans.append(match.group(0)) or f"\0{len(spans) - 1}\0", text)
    made = re.sub(r"(\\ | )+", r"\\s+", re.escape(text).replace("\\\0", "\0"))
    for number, span in enumerate(spans):
        shape = next(good for bad, good in VARIES if re.fullmatch(bad, span))
        made = made.replace(f"\0{number}\0", shape.replace("\\\\", "\\"))
    return made


def compare(expected, shown, ids):
    for number, line in enumerate(expected):
        assert number < len(shown), f"missing: {line}"
        match = re.fullmatch(pattern(line), shown[number].rstrip())
        assert match, f"README: {line}\nprogram: {shown[number]}"
        ids.update(zip(re.findall(BOUND, line), match.groups()))


def serve(data):
    """Starts the server; its process and its address."""
    process = subprocess.Popen([PROGRAM, "serve", "--data", str(data), "--listen", "127.0.0.1:0"],
                               stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().rsplit(" ", 1)[1].strip()


def walk(env, where):
    """Runs every step; returns how many there were and the server, if one was started."""
    ids, ran, server = {}, 0, None
    for command, expected in steps():
        if command.startswith("export ") and "LAZARET_URL=" in command:
            server, env["LAZARET_URL"] = serve(where / "served")
        if command.startswith("export "):
            continue
        if command == "make example":
            command = f"scripts/run-example build {where / 'example'}"
            expected = [line.replace("build/example", str(where / "example")) for line in expected]
        for old, new in sorted(ids.items(), key=lambda pair: -len(pair[0])):
            command = command.replace(old, new)
        child = pexpect.spawn("/bin/sh", ["-c", command], env=env, cwd=str(where), dimensions=(60, 110), timeout=120)
        shown = child.read().decode().replace("\r", "")
        compare(expected, shown.rstrip("\n").split("\n"), ids)
        ran += 1
    return ran, server


def test_the_walk_through_is_word_for_word(tmp_path):
    build = pathlib.Path(os.environ["LAZARET_BUILD"]).resolve()
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    (tmp_path / "build").symlink_to(build)
    env = dict(os.environ, NO_COLOR="1", TERM="xterm", LAZARET_DATA=str(tmp_path / "example"),
               PATH=f"{pathlib.Path(PROGRAM).resolve().parent}:{os.environ['PATH']}")
    ran, server = walk(env, tmp_path)
    server.terminate()
    assert server.wait(timeout=60) == 0
    assert ran >= 12
