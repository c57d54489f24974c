"""SIGKILL under load: everything that was acknowledged over HTTP is there afterwards.  `make soak` kills more often."""

import sys

from conftest import PROGRAM, ROOT

sys.path.insert(0, str(ROOT / "tests/e2e"))
import http_kill

KILLS, SEED = 10, 20260215


def test_ten_kills_lose_nothing_that_was_acknowledged():
    http_kill.PROGRAM = PROGRAM
    acknowledged, lost = http_kill.run(KILLS, SEED)
    assert not lost, lost[:20]
    assert acknowledged > 10 * KILLS
