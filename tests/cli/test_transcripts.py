"""Whole outputs: each cases/NAME.in is a list of commands, NAME.ok what they print and how they end.

A line of an .in file is run by bash, with `lazaret` and `seed` (seed_letters) in reach, in one empty
directory a file.  Ids, times and the directory are replaced by names, in the order in which they
appear.  `pytest --accept` writes the .ok files.
"""

import os
import pathlib
import re
import shlex
import subprocess

import pytest

from conftest import MODE, PROGRAM

CASES = sorted((pathlib.Path(__file__).parent / "cases").glob("*.in"))
OWN = {"help"}  # cases about a directory that nobody has touched
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
AGE = re.compile(r"\(\d+s ago\)")
HASH = re.compile(r"\b[0-9a-f]{64}\b")
TREND = re.compile(r"\|[ ▁▂▃▄▅▆▇█]+\|")
HOUR = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\dZ")


def tame(text, names, data):
    """Replaces what differs from run to run."""
    text = text.replace(str(data), "<data>")
    text = UUID.sub(lambda m: names.setdefault(m[0], f"<id {len(names) + 1}>"), text)
    text = TIME.sub("<time>", text)
    text = HOUR.sub("<hour>", text)
    text = TREND.sub("|<trend>|", text)
    text = HASH.sub("<hash>", text)
    return AGE.sub("(<age> ago)", text)


def transcript(case, lz, work):
    names, out = {}, []
    shell = (f"lazaret() {{ {shlex.quote(os.path.abspath(PROGRAM))} \"$@\"; }}\n"
             f"seed() {{ {shlex.join(lz.seeder())} \"$@\"; }}\n")
    for line in case.read_text().splitlines():
        if not line or line.startswith("#"):
            out.append(line)
            continue
        done = subprocess.run(["bash", "-c", shell + line], text=True, cwd=work, env=lz.env, timeout=120,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        out.append(f"$ {line}")
        out.append(tame(done.stdout, names, lz.data).rstrip("\n"))
        out.append(f"[{done.returncode}]")
    return "\n".join(out) + "\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_transcript(case, lz, tmp_path, request):
    if MODE != "own" and case.stem in OWN:
        pytest.skip("about a directory that commands own")
    work = tmp_path / "work"
    work.mkdir()
    got = transcript(case, lz, work)
    ok = case.with_suffix(".ok")
    if request.config.getoption("--accept"):
        ok.write_text(got)
    assert got == ok.read_text()
