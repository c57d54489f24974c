"""SIGKILL of a server that delivers receipts: each was received or is in the quarantine.  `make soak` kills more often."""

import sys

from conftest import PROGRAM, ROOT

sys.path.insert(0, str(ROOT / "tests/e2e"))
import receipts_kill

KILLS, SEED = 6, 20261116


def test_six_kills_lose_no_receipt_and_send_none_again_that_was_recorded():
    receipts_kill.PROGRAM = PROGRAM
    counts = receipts_kill.run(KILLS, SEED)
    assert counts["kills"] == KILLS and counts["received"] + counts["quarantined"] == counts["receipts"] > 0
    assert counts["received"] and counts["quarantined"]
