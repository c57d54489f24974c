"""lazaret map -f: setup, map and reduce from a file."""

import itertools
import json
import pathlib
import signal

import pytest
from conftest import own_only
from map_runs import PATIENCE, count, maps, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHOLE = """name: whole
mode: mapreduce
setup:
  - shell: printf 'a\\nb\\nc\\n' > made.txt
  - sh -c 'echo setup >> log'
map:
  input: made.txt
  max_parallel: 1
  agent_template:
    - shell: test ${item} != b || { echo "b is bad" >&2; exit 4; }
    - [sh, -c, 'echo "did $1" >> log', sh, "{}"]
reduce:
  - shell: echo "reduced ${map.successful} ${map.failed} ${map.total}" >> log
  - shell: cat ${map.results_file} > results
  - [sh, -c, 'printf %s "$1" > argument', sh, "${map.results}"]
error_policy:
  retry_config: {max_attempts: 2, backoff: fixed, initial_delay: 10ms}
"""


def workflow(maps, text):
    return maps.write("w.yml", text)


# ---- all of it -------------------------------------------------------------------------------------------------------

def test_setup_map_and_reduce_follow_each_other(maps):
    events = maps.map("-f", workflow(maps, WHOLE), "--job-id", "r")
    assert maps.log() == ["setup", "did a", "did c", "reduced 2 1 3"]
    assert (events[-1]["done"], events[-1]["quarantined"], events[-1]["failed_attempts"]) == (2, 1, 2)
    results = json.loads((maps.folder / "results").read_text())
    assert [result["state"] for result in results] == ["done", "dead", "done"]
    assert json.loads((maps.folder / "argument").read_text()) == results
    assert results[0]["result"]["exit_code"] == 0
    failure = maps.letter()["failure_history"][-1]
    assert failure["error_message"] == "b is bad" and failure["step_failed"].startswith("shell: test ${item} != b")
    assert failure["error_context"][-1].startswith("Running step 1 of 2: ")


def test_the_letters_of_a_workflow_are_run_again_with_its_steps(maps):
    maps.map("-f", workflow(maps, WHOLE.replace("test ${item} != b ||", "test ${item} != b -o -e ok ||")), "--job-id", "r")
    (maps.folder / "w.yml").unlink()
    maps.write("ok", "")
    maps.retry("r")
    assert maps.log()[-1] == "did b" and maps.letter()["state"] == "recovered"


def test_a_workflow_goes_on_after_a_kill_without_its_setup(maps):
    text = WHOLE.replace("test ${item} != b || { echo \"b is bad\" >&2; exit 4; }", "echo begin ${item} >> log; test -e go || exec sleep 600")
    run = maps.start("-f", workflow(maps, text), "--job-id", "r")
    maps.logged("begin a")
    run.signal(signal.SIGKILL)
    run.process.wait(PATIENCE)
    maps.write("go", "")
    (maps.folder / "w.yml").unlink()
    maps.map("--resume", "--job-id", "r")
    assert maps.log()[:2] == ["setup", "begin a"] and maps.log()[-1] == "reduced 3 0 3"
    assert sorted(maps.log()[2:-1]) == ["begin a", "begin b", "begin c", "did a", "did b", "did c"]


def test_a_workflow_that_is_interrupted_does_not_reduce(maps):
    text = WHOLE.replace("test ${item} != b || { echo \"b is bad\" >&2; exit 4; }", "echo begin ${item} >> log; until test -e go; do sleep 0.02; done")
    run = maps.start("-f", workflow(maps, text), "--job-id", "r")
    maps.logged("begin a")
    run.signal()
    until(lambda: count(run.events(), "note"))
    maps.write("go", "")
    run.end(code=1)
    assert maps.log() == ["setup", "begin a", "did a"]
    maps.map("--resume", "--job-id", "r")
    assert maps.log()[-1] == "reduced 3 0 3"


def test_a_setup_that_fails_ends_the_run_before_it_began(maps):
    done = maps.run("-f", workflow(maps, WHOLE.replace("sh -c 'echo setup >> log'", "sh -c 'echo broken >&2; exit 7'")), "--job-id", "r")
    assert done.returncode == 1 and "setup" in done.stderr and "nothing was run" in done.stderr, done
    assert maps.log() == [] and sum(maps.states().values()) == 0
    # It can be begun again.
    maps.map("-f", workflow(maps, WHOLE), "--job-id", "r")
    assert maps.log()[-1] == "reduced 2 1 3"


def test_a_reduce_knows_the_items_of_a_stream_and_of_a_file_that_is_gone(maps):
    text = """map: {input: "-", max_parallel: 1, agent_template: [{shell: 'rm -f items.txt; test ${item} != b'}]}
reduce: [{shell: 'echo ${map.successful} ${map.failed} ${map.total} >> log; cat ${map.results_file} > results'}]
error_policy: {retry_config: {max_attempts: 1}}
"""
    maps.map("-f", workflow(maps, text), input="a\nb\nc\n")
    maps.map("-f", workflow(maps, text), "--input", maps.lines("b", "x"))
    assert maps.log() == ["2 1 3", "1 1 2"]
    assert [result["state"] for result in json.loads((maps.folder / "results").read_text())] == ["dead", "done"]


def test_what_setup_and_reduce_print_does_not_come_between_the_events(maps):
    text = "setup: echo from the setup\nmap: {input: [a], agent_template: [true]}\nreduce: echo from the reduce\n"
    done = maps.run("-o", "json", "-f", workflow(maps, text))
    assert [json.loads(line)["event"] for line in done.stdout.splitlines()] == ["started", "succeeded", "summary"]
    assert "from the setup" in done.stderr and "from the reduce" in done.stderr
    done = maps.run("-f", "w.yml")
    assert done.stdout.splitlines()[0] == "from the setup" and done.stdout.splitlines()[-1] == "from the reduce"


def test_a_reduce_that_fails_is_told(maps):
    done = maps.run("-f", workflow(maps, WHOLE.replace("shell: cat ${map.results_file} > results", "shell: exit 5")))
    assert done.returncode == 1 and "reduce" in done.stderr and "5" in done.stderr, done
    assert maps.log()[-1] == "reduced 2 1 3" and not (maps.folder / "argument").exists()


def test_the_example_of_the_documentation_runs(maps):
    done = maps.run("-f", ROOT / "examples/map/workflow.yml", "--job-id", "r")
    assert done.returncode == 0 and "3 items: 2 done, 1 quarantined in 1 group" in done.stdout, done
    assert done.stdout.splitlines()[-1].startswith("2 of 3 notes were counted; ")
    letter = maps.letter()
    assert (letter["item_id"], letter["failure_count"]) == ("empty", 2)
    assert letter["failure_history"][0]["error_message"] == "the note is empty"


# ---- items -----------------------------------------------------------------------------------------------------------

def test_items_can_stand_in_the_file_and_are_chosen_there(maps):
    text = """map:
  input:
    - {name: ada, age: 36}
    - {name: bob, age: 20}
    - {name: cyd, age: 51}
    - {name: ada, age: 1}
  id_field: name
  filter: item.age > 10 && !(item.name == 'bob')
  sort_by: item.age DESC
  distinct: name
  max_items: 2
  max_parallel: 1
  agent_template: [sh, -c, 'echo "$1 $2" >> log', sh, "{name}", "${item.age}"]
reduce: [[sh, -c, 'echo "$1" >> log', sh, "${map.total}"]]
"""
    maps.map("-f", workflow(maps, text))
    assert maps.log() == ["cyd 51", "ada 36", "2"]


def test_flags_come_before_the_file(maps):
    maps.lines("x", "y")
    maps.map("-f", workflow(maps, WHOLE.split("reduce:")[0]), "--input", "items.txt", "--max-items", "1", "--retry", "1")
    assert maps.log() == ["setup", "did x"]


def test_the_error_policy_of_a_file_is_in_force(maps):
    text = """map: {input: [a, b, c, d], max_parallel: 1, agent_template: [{shell: 'echo ${item} >> log; exit 1'}]}
error_policy: {max_failures: 2, retry_config: {max_attempts: 1}}
"""
    done = maps.run("-f", workflow(maps, text))
    assert done.returncode == 1 and "max_failures is 2" in done.stdout and maps.log() == ["a", "b"]
    (maps.folder / "log").unlink()
    done = maps.run("-f", workflow(maps, text.replace("max_failures: 2", "continue_on_failure: false")))
    assert done.returncode == 1 and maps.log() == ["a"]


def test_an_item_in_a_script_is_never_read_as_code(maps):
    items = ["$(touch gone)", "; touch gone", "'; touch gone; '", "a b", "*"]
    text = f"""map:
  input: {json.dumps(items)}
  max_parallel: 1
  agent_template:
    - shell: printf '%s\\n' ${{item}} "<${{item}}>" >> log
"""
    maps.map("-f", workflow(maps, text))
    assert maps.log() == [line for item in items for line in (item, f"<{item}>")]
    assert not (maps.folder / "gone").exists()


# ---- errors ----------------------------------------------------------------------------------------------------------

@own_only
@pytest.mark.parametrize("text, said", [
    ("map:\n  input: x\n  max_paralel: 3\n  agent_template: [true]\n", 'w.yml: line 3, column 3: map has no key "max_paralel"; did you mean "max_parallel"?'),
    ("map:\n  input: x\n  filter: item.size >\n  agent_template: [true]\n", "w.yml: line 3, column 11: map.filter: column 12"),
    ("map:\n  input: x\n  max_parallel: 0\n  agent_template: [true]\n", "line 3, column 17: map.max_parallel"),
    ("setup: echo ${item.file}\nmap:\n  input: x\n  agent_template: [true]\n", "line 1, column 8"),
    ("mode: other\nmap:\n  input: x\n  agent_template: [true]\n", "line 1, column 7"),
    ("map:\n  agent_template: [true]\n", "map.input is missing"),
    ("map:\n  input: x\n", "agent_template"),
    ("name: x\n", "map"),
    ("map: [\n", "line 2"),
    ("map:\n  input: x\n  agent_template: ls | wc\n", "line 3"),
    ("map:\n  input: x\n  agent_template: [{shell: \"echo '${item}'\"}]\n", "line 3"),
    ("map:\n  input: x\n  agent_template: [true]\nerror_policy: {on_item_failure: shrug}\n", "line 4"),
    ("map:\n  input: x\n  agent_template: [{claude: do it}]\n", "line 3"),
    ("map:\n  input: x\n  input: y\n  agent_template: [true]\n", "line 3"),
], ids=itertools.count())
def test_an_error_of_the_file_names_its_place_and_changes_nothing(maps, text, said):
    maps.lines("a")
    workflow(maps, text)
    assert said in maps.refused("-f", "w.yml") and not maps.lz.data.exists()


@own_only
def test_a_dry_run_of_a_workflow_runs_nothing_of_it(maps):
    maps.write("made.txt", "a\nb\n")
    done = maps.run("-f", workflow(maps, WHOLE), "--dry-run")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2, done
    assert "sh -c 'echo \"did $1\" >> log' sh a" in done.stdout.splitlines()[0]
    assert maps.log() == [] and not maps.lz.data.exists()
