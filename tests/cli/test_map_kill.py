"""SIGKILL of a map run at random moments: every item is done or in the quarantine.  `make soak` kills more often."""

import pathlib
import sys

from conftest import PROGRAM, own_only

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import map_kill

KILLS, SEED = 8, 20261116


@own_only
def test_eight_kills_lose_no_item_and_no_run_of_one():
    map_kill.PROGRAM = PROGRAM
    counts = map_kill.run(KILLS, SEED)
    assert counts["kills"] == KILLS and counts["done"] + counts["quarantined"] == counts["items"] > 0
    assert counts["commands"] >= counts["items"]
