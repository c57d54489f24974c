"""push: what goes in is what comes out."""

import json


def test_an_envelope_is_kept_byte_for_byte(lz, tmp_path):
    text = '{ "action":"a" ,  "job_id":"j", "inputs":{"pi":3.1400,"same":1,"same":2, "e":"\\u00e9"} }'
    (tmp_path / "one.json").write_text(text + "\n")
    lz.ok("push", tmp_path / "one.json")
    assert lz.ok("push", tmp_path / "one.json") == "j\tpending\tknown\n"
    lz.seed(("push", {"action": "b", "job_id": "last"}), ("complete",))
    other = text.replace("3.1400", "3.14")
    assert "j" in lz.fails(4, "push", "-", input=other)


def test_a_pushed_job_answers_with_three_members_in_order(lz):
    answer = lz.ok("push", "--action", "a", "--job-id", "x", "-o", "json")
    assert answer == '{"job_id":"x","state":"pending","created":true}\n'


def test_a_job_without_an_id_gets_a_uuid(lz):
    answer = lz.json("push", "--action", "a")
    assert len(answer["job_id"]) == 36 and answer["job_id"][14] == "7"


def test_more_than_a_batch_is_pushed_whole_and_in_order(lz):
    lines = "".join(json.dumps({"action": "a", "job_id": f"j{i}"}) + "\n" for i in range(2345))
    answers = lz.json("push", "-", input=lines)
    assert [a["job_id"] for a in answers] == [f"j{i}" for i in range(2345)]
    assert lz.json("status")["live"] == 2345


def test_a_mistake_in_the_middle_is_found_before_anything_is_pushed(lz):
    lines = "".join(json.dumps({"action": "a"}) + "\n" for _ in range(1500)) + '{"action": nope}\n'
    assert "document 1501" in lz.fails(2, "push", "-", input=lines)
    assert lz.json("status")["live"] == 0


def test_one_refused_job_does_not_stop_the_others(lz):
    jobs = [{"action": "a", "job_id": "x"}, {"action": "a", "priority": 12}, {"action": "a", "job_id": "y"}]
    done = lz.run("push", "-", "-o", "json", input=jobs)
    assert done.returncode == 2
    assert "job 2: priority" in done.stderr
    answers = json.loads(done.stdout)
    assert [a.get("job_id") for a in answers] == ["x", None, "y"]
    assert answers[1]["code"] == "invalid"


def test_a_delay_is_counted_from_here(lz):
    assert lz.json("push", "--action", "a", "--delay", "2h")["state"] == "scheduled"
    assert lz.json("push", "--action", "a", "--delay", "0")["state"] == "pending"


def test_flags_may_stand_anywhere_and_end_at_two_dashes(lz, tmp_path):
    (tmp_path / "--odd").write_text('{"action":"a","job_id":"odd"}')
    assert lz.ok("-o", "json", "push", "--", "--odd", cwd=tmp_path).startswith('{"job_id":"odd"')
    assert lz.ok("--queue=q", "-ojson", "push", "--action=a", "--job-id=b").startswith('{"job_id":"b"')


def test_bytes_that_are_no_utf8_are_refused(lz):
    assert lz.run("push", "-", input=b'{"action":"\xff"}', text=False).returncode == 2
    done = lz.run("push", "--action", b"\xff".decode("utf-8", "surrogateescape"))
    assert done.returncode == 2 and "UTF-8" in done.stderr


def test_deep_and_large_input_gets_a_clear_error(lz):
    assert "128" in lz.fails(2, "push", "-", input="[" * 5000 + "]" * 5000)
    large = json.dumps({"action": "a", "inputs": {"x": "y" * (10 << 20)}})
    assert "1048576" in lz.fails(2, "push", "-", input=large)
    assert lz.json("status")["live"] == 0
