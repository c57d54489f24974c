"""The reference in docs/cli.md is what the program says of itself."""

import pathlib
import subprocess

from conftest import PROGRAM

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_reference_is_up_to_date(lz):
    done = subprocess.run([ROOT / "scripts/gen-docs", "--check", PROGRAM], capture_output=True, text=True,
                          env=lz.env)
    assert done.returncode == 0, done.stderr
