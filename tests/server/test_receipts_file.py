"""receipts.json beside a running server: it has what is dead, takes in what people add, and is never less than it was."""

import json
import os
import stat

import pytest
from conftest import wait_until
from office import Office, receipt

from endpoint import Endpoint, answer


@pytest.fixture
def endpoint():
    with Endpoint(answer(400)) as made:
        yield made


@pytest.fixture
def office(serve, endpoint):
    return Office(serve, endpoint)


def entry(lease, failed_at="2024-01-15T10:30:45Z", attempts=5):
    return {"receipt": receipt(lease), "failed_at": failed_at, "attempts": attempts}


def path(office):
    return office.server.data / "dlq/receipts.json"


def leases(office):
    """The leases in the file; None: it is not there, or no such file."""
    try:
        return [each["receipt"]["lease_id"] for each in json.loads(path(office).read_text())]
    except (FileNotFoundError, ValueError):
        return None


def wait_for(office, *expected):
    wait_until(lambda: leases(office) == list(expected), f"{expected} in the file")


def replace(office, entries):
    """As a person does it: another file is put in its place."""
    new = path(office).with_name("mine")
    new.write_text(entries if isinstance(entries, str) else json.dumps(entries))
    os.replace(new, path(office))


def test_the_file_follows_the_quarantine(office, endpoint):
    first = office.letter(office.deliver(receipt("a")))
    wait_for(office, "a")
    second = office.letter(office.deliver(receipt("b")))
    wait_for(office, "a", "b")
    assert stat.S_IMODE(path(office).stat().st_mode) == 0o600
    office.server.post(f"/api/v1/dlq/{first['dlq_id']}/discard").expect(200)
    wait_for(office, "b")
    office.server.post(f"/api/v1/dlq/{first['dlq_id']}/restore").expect(200)
    wait_for(office, "a", "b")
    endpoint.script(answer(200))
    office.server.post(f"/api/v1/dlq/{second['dlq_id']}/retry").expect(200)
    wait_for(office, "a")


def test_only_receipts_are_in_the_file(office, endpoint):
    office.letter(office.deliver({"no": "receipt"}))
    office.server.dead()
    office.letter(office.deliver(receipt("a")))
    wait_for(office, "a")


def test_a_receipt_that_fails_again_stands_there_once(office, endpoint):
    letter = office.letter(office.deliver(receipt("a")))
    wait_for(office, "a")
    office.server.post(f"/api/v1/dlq/{letter['dlq_id']}/retry").expect(200)
    wait_until(lambda: office.server.get(f"/api/v1/dlq/{letter['dlq_id']}").expect(200)["failure_count"] == 2, "another failure")
    wait_until(lambda: [each["attempts"] for each in json.loads(path(office).read_text())] == [2], "two attempts")
    assert len(office.letters()) == 1


def test_an_entry_that_is_added_while_the_server_runs_becomes_a_letter(office, endpoint):
    office.letter(office.deliver(receipt("a")))
    wait_for(office, "a")
    replace(office, [*json.loads(path(office).read_text()), entry("by-hand")])
    wait_until(lambda: len(office.letters()) == 2, "a letter")
    wait_for(office, "by-hand", "a")
    office.letter(office.deliver(receipt("b")))
    wait_for(office, "by-hand", "a", "b")


def test_entries_that_were_there_before_the_server_are_taken_in_once(serve, endpoint):
    office = Office(serve, endpoint)
    office.server.stop()
    path(office).parent.mkdir(exist_ok=True)
    replace(office, [entry("x"), entry("y", attempts=2), entry("x")])
    office.server.start()
    letters = wait_until(lambda: len(found := office.letters()) == 2 and found, "two letters")
    assert sorted(letter["failure_count"] for letter in letters) == [2, 5]
    wait_for(office, "x", "y")
    office.server.restart()
    office.letter(office.deliver(receipt("z")))
    wait_for(office, "x", "y", "z")
    assert len(office.letters()) == 3


def test_an_entry_that_is_taken_away_by_hand_comes_back_while_its_letter_is_open(office, endpoint):
    office.letter(office.deliver(receipt("a")))
    wait_for(office, "a")
    replace(office, [])
    wait_for(office, "a")
    path(office).unlink()
    wait_for(office, "a")
    assert len(office.letters()) == 1


@pytest.mark.parametrize("bad", ["1", '{"receipt": {"lease_id": "half"}}'], ids=["no entry", "half an entry"])
def test_an_entry_that_is_no_receipt_is_said_and_holds_nothing_up(office, endpoint, bad):
    path(office).parent.mkdir(exist_ok=True)
    replace(office, f"[{bad}]")
    wait_until(lambda: "receipts.json" in office.server.stderr, "a word about it")
    office.letter(office.deliver(receipt("a")))
    wait_until(lambda: len(json.loads(path(office).read_text())) == 2, "the dead receipt beside it")
    assert json.loads(bad) in json.loads(path(office).read_text()) and len(office.letters()) == 1


@pytest.mark.parametrize("content", ["{", '{"a": 1}'], ids=["no JSON", "no array"])
def test_a_file_that_cannot_be_read_is_left_alone_until_it_is_put_right(office, endpoint, content):
    office.letter(office.deliver(receipt("a")))
    wait_for(office, "a")
    replace(office, content)
    wait_until(lambda: "receipts.json" in office.server.stderr, "a word about it")
    office.letter(office.deliver(receipt("b")))
    assert path(office).read_text() == content and len(office.letters()) == 2
    replace(office, [entry("c")])
    wait_for(office, "c", "a", "b")


def test_a_file_that_is_a_link_elsewhere_is_not_followed_into_harm(office, endpoint, tmp_path):
    """Whoever may write into dlq/ must not make the server overwrite another file."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path(office).parent.mkdir(exist_ok=True)
    path(office).symlink_to(victim)
    office.letter(office.deliver(receipt("a")))
    wait_until(lambda: "receipts.json" in office.server.stderr or leases(office) == ["a"], "something is done about it")
    assert victim.read_text() == "precious"
