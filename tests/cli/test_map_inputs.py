"""Where the items of a map run come from: files and standard input, as JSON, NDJSON and lines; and which of them are run."""

import itertools
import json
import os

import pytest
from conftest import own_only
from map_runs import maps, sh, until

LOG = sh('printf "%s\\n" "$1" >> "$LOG"')


def ran(maps, *args, command=LOG, **kw):
    """Runs it one by one, and returns the items in the order in which they were run."""
    (maps.folder / "log").unlink(missing_ok=True)
    maps.map("--parallel", "1", *args, *command, **kw)
    return maps.log()


# ---- forms -----------------------------------------------------------------------------------------------------------

def test_lines_are_items_as_they_are(maps):
    maps.write("items", "one two\n\n  three  \nfour\r\n{}\nno line end")
    assert ran(maps, "--input", "items", "--input-format", "lines") == ["one two", "  three  ", "four", "{}", "no line end"]


def test_an_array_is_a_list_of_items(maps):
    items = ["text", 7, 1.5, True, None, {"a": [1]}, ["x"]]
    assert ran(maps, "--input", maps.json(items)) == ["text", "7", "1.5", "true", "null", '{"a":[1]}', '["x"]']


def test_a_path_selects_the_items_of_a_document(maps):
    maps.json({"users": [{"name": "ada", "mail": {"work": "a@x"}}, {"name": "bob", "mail": {"work": "b@x"}}], "n": 2})
    command = sh('echo "$1 $2" >> "$LOG"', "{name}", "<{mail.work}>")
    assert ran(maps, "--input", "items.json", "--json-path", "$.users[*]", command=command) == ["ada <a@x>", "bob <b@x>"]


@own_only
def test_a_document_without_a_path_is_told_to_give_one(maps):
    maps.json({"users": [1, 2]})
    assert "--json-path" in maps.refused("--input", "items.json", *LOG)


def test_ndjson_is_an_item_a_line(maps):
    maps.write("items.ndjson", '{"n":1}\n\n{"n":2}\n"text"\n')
    assert ran(maps, "--input", "items.ndjson") == ['{"n":1}', '{"n":2}', "text"]


def test_standard_input_is_read_as_a_file_is(maps):
    assert ran(maps, "--input", "-", input="a\nb\n") == ["a", "b"]
    assert ran(maps, "--input", "-", input='[1, {"a": 2}]') == ["1", '{"a":2}']
    assert ran(maps, "--input", "-", "--input-format", "ndjson", input='{"a":1}\n3\n') == ['{"a":1}', "3"]


def test_the_first_item_runs_before_the_last_is_written(maps):
    read, write = os.pipe()
    run = maps.start("--input", "-", "--job-id", "r", *LOG, input=read)
    os.close(read)
    os.write(write, b"first\n")
    maps.logged("first")
    until(lambda: maps.lz.json("status")["states"]["done"] == 1)
    os.write(write, b"last\n")
    os.close(write)
    events = run.end()
    assert maps.log() == ["first", "last"] and events[-1]["total"] == 2


def test_an_item_of_standard_input_can_be_resumed_without_it(maps):
    maps.map("--input", "-", "--job-id", "r", "--retry", "1", "--on-item-failure", "stop", "--parallel", "1",
             *sh('echo "$1" >> "$LOG"; test "$1" != b || test -e ok'), input="a\nb\nc\n", code=1)
    maps.write("ok", "")
    maps.map("--resume", "--job-id", "r")
    assert maps.log() == ["a", "b", "c"]
    assert maps.states()["dead"] == 1 and maps.states()["done"] == 2


# ---- nothing, and bad input ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("text", ["", "\n\n", "[]"])
def test_no_items_are_a_run_that_is_done(maps, text):
    maps.write("items", text)
    events = maps.map("--input", "items", *LOG)
    assert [event["event"] for event in events] == ["summary"]
    assert events[0]["total"] == 0 and events[0]["total_final"] and maps.log() == []


@own_only
@pytest.mark.parametrize("name, text, args, said", [
    ("items.json", '[1, 2', [], "items.json"),
    ("items.json", '["a", }', [], "column 7"),
    ("items.json", '3', [], "items.json"),
    ("items.json", '{"a": [1]}', ["--json-path", "$.a[*"], "column 6"),
    ("items.ndjson", '{"a": 1}\n{"a": \n', [], "line 2"),
    ("items.json", '[{"id": 1}, {"name": 2}]', ["--id-field", "id"], "id"),
    ("items.json", "[1]", ["--filter", "item >"], "filter"),
    ("items.json", "[1]", ["--filter", ""], "filter"),
    ("items.json", "[1]", ["--filter", "item.size ~ 3"], "filter"),
    ("items.json", "[1]", ["--sort-by", "item.a SIDEWAYS"], "sort"),
    ("items.json", "[1]", ["--max-items", "0"], "--max-items"),
    ("items.json", "[1]", ["--offset", "-1"], "--offset"),
], ids=itertools.count())
def test_bad_input_is_told_with_its_place_before_anything_is_run(maps, name, text, args, said):
    maps.write(name, text)
    assert said in maps.refused("--input", name, *args, *LOG)
    assert not maps.lz.data.exists()


@own_only
def test_a_file_that_is_not_there_and_a_directory_are_told(maps):
    assert "nothing.txt" in maps.refused("--input", "nothing.txt", *LOG)
    assert maps.refused("--input", ".", *LOG)


def test_a_bad_line_of_a_stream_ends_the_run_with_what_came_before_it(maps):
    events = maps.map("--input", "-", "--input-format", "ndjson", "--job-id", "r", *LOG, input='{"a":1}\n{"a":\n{"a":3}\n', code=2)
    assert events[-1]["done"] == 1 and maps.log() == ['{"a":1}']
    assert "line 2" in maps.run("--input", "-", "--input-format", "ndjson", *LOG, input='1\n{"a":\n').stderr


def test_an_item_without_the_commands_field_is_quarantined_at_once(maps):
    maps.json([{"name": "a"}, {"nom": "b"}])
    events = maps.map("--input", "items.json", "--policy", maps.policy(), *sh('echo "$1" >> "$LOG"', "{name}"))
    assert (events[-1]["done"], events[-1]["quarantined"], events[-1]["failed_attempts"]) == (1, 1, 1)
    failure = maps.letter()["failure_history"][0]
    assert 'no field "name"' in failure["error_message"] and failure["class"] == "invalid_input"
    assert maps.log() == ["a"]


# ---- ids -------------------------------------------------------------------------------------------------------------

def test_an_id_comes_from_a_field(maps):
    maps.json([{"id": "x/1", "n": 1}, {"id": 7, "n": 2}])
    events = maps.map("--input", "items.json", "--id-field", "id", "--job-id", "r", "--parallel", "1", *LOG)
    assert [event["item_id"] for event in events if event["event"] == "started"] == ["x/1", "7"]


def test_ids_are_hashes_that_survive_another_order(maps):
    maps.map("--input", maps.lines("a", "b", "c"), "--job-id", "r", *LOG)
    maps.lines("c", "b", "new", "a")
    events = maps.map("--input", "items.txt", "--resume", "--job-id", "r", *LOG)
    assert sorted(maps.log()) == ["a", "b", "c", "new"] and maps.log()[-1] == "new"
    assert (events[-1]["total"], events[-1]["before"], events[-1]["done"]) == (4, 3, 1)


def test_an_item_that_is_there_twice_is_run_twice(maps):
    events = maps.map("--input", maps.lines("a", "b", "a", "a"), "--parallel", "1", *LOG)
    assert maps.log() == ["a", "b", "a", "a"]
    ids = [event["item_id"] for event in events if event["event"] == "started"]
    assert len(set(ids)) == 4 and ids[2:] == [f"{ids[0]}#2", f"{ids[0]}#3"]


# ---- which of them ---------------------------------------------------------------------------------------------------

PEOPLE = [{"name": "ada", "age": 36, "team": "x"}, {"name": "bob", "age": 20, "team": "y"},
          {"name": "cyd", "age": 51, "team": "x"}, {"name": "dan", "age": 20, "team": "z"}]


@pytest.mark.parametrize("args, names", [
    (["--filter", "item.age >= 36"], "ada cyd"),
    (["--filter", "item.age == 20 && !(item.name contains 'b')"], "dan"),
    (["--filter", "item.team == \"x\" || item.name == 'bob'"], "ada bob cyd"),
    (["--filter", "item.age > 100"], ""),
    (["--sort-by", "item.age DESC, item.name"], "cyd ada bob dan"),
    (["--sort-by", "item.name DESC"], "dan cyd bob ada"),
    (["--max-items", "2"], "ada bob"),
    (["--offset", "3"], "dan"),
    (["--offset", "1", "--max-items", "2"], "bob cyd"),
    (["--distinct", "age"], "ada bob cyd"),
    (["--distinct", "item.team"], "ada bob dan"),
    (["--filter", "item.age < 50", "--sort-by", "item.age", "--distinct", "age", "--offset", "1", "--max-items", "5"], "ada"),
], ids=itertools.count())
def test_items_are_chosen_and_put_in_order(maps, args, names):
    maps.json(PEOPLE)
    assert ran(maps, "--input", "items.json", *args, command=sh('echo "$1" >> "$LOG"', "{name}")) == names.split()


def test_a_filter_works_on_a_stream_too(maps):
    lines = "".join(json.dumps(person) + "\n" for person in PEOPLE)
    command = sh('echo "$1" >> "$LOG"', "{name}")
    assert ran(maps, "--input", "-", "--filter", "item.age < 40", "--sort-by", "item.name DESC", command=command, input=lines) == ["dan", "bob", "ada"]
