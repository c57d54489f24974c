"""token create, list and revoke: the file of those who may ask a server."""

import concurrent.futures
import json
import os
import re
import stat

import pytest
from conftest import own_only

pytestmark = own_only

TOKEN = re.compile(r"lzt_[0-9a-f]{16}_[0-9a-f]{64}")


def test_create_prints_the_token_alone(lz):
    out = lz.ok("token", "create", "ci", "--role", "worker")
    assert TOKEN.fullmatch(out.rstrip("\n")) and out.count("\n") == 1
    path = lz.data / "tokens.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert out.strip().split("_")[2] not in path.read_text()


def test_create_needs_no_engine(lz):
    lz.ok("token", "create", "ci", "--role", "worker")
    assert not (lz.data / "lazaret.db").exists() and not (lz.data / "lazaret.lock").exists()


def test_create_as_json(lz):
    made = lz.json("token", "create", "ada", "--role", "operator", "--expires", "30d")
    assert list(made) == ["name", "role", "token", "expires_at"]
    assert (made["name"], made["role"]) == ("ada", "operator")
    assert TOKEN.fullmatch(made["token"]) and re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", made["expires_at"])
    assert lz.json("token", "create", "eve", "--role", "viewer")["expires_at"] is None


def test_on_a_terminal_it_says_that_it_is_shown_once(lz):
    shown = lz.on_terminal("token", "create", "ci", "--role", "worker")
    assert TOKEN.search(shown) and "shown only once" in shown


def test_list_has_everything_but_what_lets_in(lz):
    assert lz.json("token", "list") == [] and lz.ok("token", "list") == ""
    made = lz.json("token", "create", "ada", "--role", "operator", "--expires", "1h")
    lz.ok("token", "create", "ci", "--role", "worker")
    listed = lz.json("token", "list")
    assert [(t["name"], t["role"], t["expired"]) for t in listed] == [("ada", "operator", False), ("ci", "worker", False)]
    assert listed[0]["id"] == made["token"].split("_")[1] and listed[0]["expires_at"] == made["expires_at"]
    assert all(set(t) == {"name", "role", "id", "created_at", "expires_at", "expired"} for t in listed)
    rows = [line.split("\t") for line in lz.ok("token", "list").splitlines()]
    assert [(r[0], r[1], r[-1]) for r in rows] == [("ada", "operator", "valid"), ("ci", "worker", "valid")]
    text = lz.ok("token", "list") + json.dumps(listed)
    stored = json.loads((lz.data / "tokens.json").read_text())["tokens"]
    assert all(t["hash"] not in text and t["salt"] not in text for t in stored)


def test_an_empty_list_says_so_on_a_terminal(lz):
    assert "No tokens." in lz.on_terminal("token", "list")


def test_an_expired_token_is_listed_as_one_and_its_name_is_free(lz):
    lz.ok("token", "create", "ci", "--role", "worker")
    path = lz.data / "tokens.json"
    stored = json.loads(path.read_text())
    stored["tokens"][0]["expires_at"] = "2020-01-01T00:00:00Z"
    path.write_text(json.dumps(stored))
    assert lz.ok("token", "list").rstrip().endswith("expired")
    lz.ok("token", "create", "ci", "--role", "viewer")
    assert [(t["role"], t["expired"]) for t in lz.json("token", "list")] == [("viewer", False)]


def test_revoke_just_does_it(lz):
    lz.ok("token", "create", "ci", "--role", "worker")
    assert lz.ok("token", "revoke", "ci") == "revoked ci\n"
    assert lz.json("token", "list") == []
    lz.ok("token", "create", "ci", "--role", "worker")
    assert lz.json("token", "revoke", "ci") == {"status": "revoked", "name": "ci"}


@pytest.mark.parametrize("code, args, said", [
    (2, ["create", "ci"], "--role is required"),
    (2, ["create", "ci", "--role", "root"], "root"),
    (2, ["create", "", "--role", "worker"], "name: must have 1 to 100 bytes"),
    (2, ["create", "ci", "--role", "worker", "--expires", "0s"], "--expires"),
    (2, ["create", "ci", "--role", "worker", "--expires", "soon"], "--expires"),
    (2, ["create", "--role", "worker"], "NAME"),
    (2, ["create", "ci", "--role", "worker", "--tokens", ""], "--tokens"),
    (2, ["list", "--server", "http://127.0.0.1:1"], "--server"),
    (3, ["revoke", "ci"], 'there is no token with the name "ci"'),
    (5, ["create", "ci", "--role", "worker", "--tokens", "none/tokens.json"], "none/tokens.json"),
])
def test_what_is_wrong_is_said(lz, tmp_path, code, args, said):
    assert said in lz.fails(code, "token", *args, cwd=tmp_path)


def test_a_name_that_is_taken_is_refused(lz):
    lz.ok("token", "create", "ci", "--role", "worker")
    before = (lz.data / "tokens.json").read_bytes()
    assert 'a token with the name "ci" already' in lz.fails(4, "token", "create", "ci", "--role", "admin")
    assert (lz.data / "tokens.json").read_bytes() == before


def test_a_file_of_ones_own_choice(lz, tmp_path):
    path = tmp_path / "mine.json"
    lz.ok("token", "create", "ci", "--role", "worker", "--tokens", path)
    assert [t["name"] for t in lz.json("token", "list", "--tokens", path)] == ["ci"]
    assert not lz.data.exists()
    config = tmp_path / "lazaret.yml"
    config.write_text(f"tokens: {path}\n")
    assert [t["name"] for t in lz.json("token", "list", "--config", config)] == ["ci"]
    lz.ok("token", "revoke", "ci", "--tokens", path)
    assert lz.json("token", "list", "--tokens", path) == []


def test_a_file_with_a_mistake_is_left_alone_and_the_mistake_named(lz):
    lz.ok("token", "create", "ci", "--role", "worker")
    path = lz.data / "tokens.json"
    path.write_text(path.read_text().replace('"worker"', '"wroker"'))
    before = path.read_bytes()
    for args in [("list",), ("create", "eve", "--role", "viewer"), ("revoke", "ci")]:
        err = lz.fails(2, "token", *args)
        assert str(path) in err and "tokens[0]: role: must be" in err and "wroker" in err
    assert path.read_bytes() == before


def test_commands_at_the_same_time_lose_no_token(lz):
    names = [f"worker-{i}" for i in range(12)]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda name: lz.ok("token", "create", name, "--role", "worker"), names))
    assert len(set(made)) == len(names)
    assert sorted(t["name"] for t in lz.json("token", "list")) == sorted(names)


def test_nothing_is_left_beside_the_file_but_its_lock(lz):
    lz.ok("token", "create", "ci", "--role", "worker")
    lz.ok("token", "revoke", "ci")
    assert sorted(os.listdir(lz.data)) == ["tokens.json", "tokens.json.lock"]
