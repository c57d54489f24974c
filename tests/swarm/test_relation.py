"""The relation swarm_dlq, as the original's programs use it: by SQL, while servers run.

The statements are those of the original's store: Insert, List, Get, MarkRecovered, ListRecoverable, Stats.
"""

import json

import pytest
from letters import DLQ, STREAM, SUBJECT, ago, entry, everything, letter, message, new_id, publish, wait_for
from station import wait_until

TABLE = """
CREATE TABLE IF NOT EXISTS swarm_dlq (
    dlq_id UUID PRIMARY KEY, original_subject TEXT NOT NULL, original_payload JSONB NOT NULL, reason TEXT NOT NULL,
    reason_detail TEXT, failed_at TIMESTAMPTZ NOT NULL DEFAULT now(), retry_count INT NOT NULL DEFAULT 0,
    max_retries INT NOT NULL DEFAULT 0, retry_history JSONB NOT NULL DEFAULT '[]', source TEXT NOT NULL,
    recoverable BOOLEAN NOT NULL DEFAULT true, recovered BOOLEAN NOT NULL DEFAULT false, recovered_at TIMESTAMPTZ, recovered_by TEXT);
CREATE INDEX IF NOT EXISTS idx_swarm_dlq_reason ON swarm_dlq (reason);
CREATE INDEX IF NOT EXISTS idx_swarm_dlq_recovered ON swarm_dlq (recovered) WHERE recovered = false;
"""
COLUMNS = ["dlq_id", "original_subject", "original_payload", "reason", "reason_detail", "failed_at", "retry_count", "max_retries", "retry_history",
           "source", "recoverable", "recovered", "recovered_at", "recovered_by"]
GIVEN = COLUMNS[:11]  # those that an insert names
INSERT = f"INSERT INTO swarm_dlq ({', '.join(GIVEN)}) VALUES ({', '.join(['%s'] * len(GIVEN))}) ON CONFLICT (dlq_id) DO NOTHING"
MARK = "UPDATE swarm_dlq SET recovered = true, recovered_at = now(), recovered_by = %s WHERE dlq_id = %s AND recovered = false RETURNING true"
RECOVERABLE = ("SELECT dlq_id FROM swarm_dlq WHERE recoverable = true AND recovered = false AND failed_at > now() - interval '24 hours' "
               "ORDER BY failed_at ASC")


def insert(database, dlq_id, **more):
    fields = entry(dlq_id, **more)
    fields.update({name: json.dumps(fields[name]) for name in ("original_payload", "retry_history")})
    database.query(INSERT, *(fields[name] for name in GIVEN))


def mark(database, dlq_id, by="somebody"):
    """MarkRecovered: whether there was something to mark."""
    return database.query(MARK, by, dlq_id) == [(True,)]


def row(database, dlq_id):
    """A row as a dict, None when there is none."""
    found = database.query(f"SELECT {', '.join(COLUMNS)} FROM swarm_dlq WHERE dlq_id = %s", dlq_id)
    return dict(zip(COLUMNS, found[0])) if found else None


def ids(database, statement):
    return [str(each[0]) for each in database.query(statement)]


@pytest.fixture
def one(swarm, nats):
    [server] = swarm()
    server.nats = nats.client()
    return server


def test_rows_that_are_inserted_become_letters(one, database):
    inserted = [new_id() for _ in range(20)]
    for dlq_id in inserted:
        insert(database, dlq_id, payload={"task": dlq_id}, reason="agent_crashed", retry_count=2)
    wait_for(one, 20)
    there = letter(one, inserted[0])
    assert (there["reason"], there["source"], there["original_payload"], there["retry_count"], there["state"]) == (
        "agent_crashed", "dispatch", {"task": inserted[0]}, 2, "dead")
    assert there["retry_history"][0]["agent"] == "scout"
    assert set(everything(one)) == set(inserted)


def test_an_insert_that_conflicts_does_nothing(one, database):
    dlq_id = new_id()
    insert(database, dlq_id)
    insert(database, dlq_id, reason="policy_denied")
    assert row(database, dlq_id)["reason"] == "no_capable_agent"
    wait_for(one, 1)
    insert(database, dlq_id, reason="policy_denied")
    published = new_id()
    publish(one.nats, message(published))
    wait_for(one, 2)
    insert(database, published, reason="policy_denied")
    last = new_id()
    insert(database, last)
    wait_for(one, 3)
    assert row(database, dlq_id)["reason"] == row(database, published)["reason"] == "no_capable_agent"


def test_letters_are_rows_with_the_columns_of_the_seed(one, database):
    dlq_id = new_id()
    publish(one.nats, message(dlq_id, b'{"a":[1,2.5,"x"]}', retry_count=3))
    wait_for(one, 1)
    there = row(database, dlq_id)
    assert (str(there["dlq_id"]), there["original_subject"], there["original_payload"]) == (dlq_id, SUBJECT, {"a": [1, 2.5, "x"]})
    assert (there["reason"], there["source"], there["retry_count"], there["max_retries"]) == ("no_capable_agent", "dispatch", 3, 3)
    assert there["retry_history"][0]["failure_reason"] == "no answer"
    assert (there["recoverable"], there["recovered"], there["recovered_at"], there["recovered_by"]) == (True, False, None, None)
    assert ids(database, RECOVERABLE) == [dlq_id]
    own = one.dead()
    wait_until(lambda: row(database, own), "a letter of a job is a row too")
    assert row(database, own)["source"] == "lazaret"


def test_a_row_that_is_marked_recovered_is_a_recovered_letter(one, database):
    by_sql, published = new_id(), new_id()
    insert(database, by_sql)
    publish(one.nats, message(published))
    wait_for(one, 2)
    for dlq_id in (by_sql, published):
        assert mark(database, dlq_id)
        wait_until(lambda: letter(one, dlq_id)["recovered"], "the letter is recovered")
        there = letter(one, dlq_id)
        assert (there["state"], there["recovered_by"]) == ("recovered", "somebody")
        assert one.post(f"{DLQ}/{dlq_id}/retry").status == 409
        assert not mark(database, dlq_id)
    assert one.get(DLQ + "/stats").expect(200)["unrecovered"] == 0


def test_what_is_counted_in_the_relation_is_what_the_api_counts(one, database):
    reasons = ["no_capable_agent", "agent_crashed", "crash_loop"] * 3
    published = [new_id() for _ in reasons]
    publish(one.nats, *(message(dlq_id, reason=reason, recoverable=reason != "crash_loop") for dlq_id, reason in zip(published, reasons)))
    wait_for(one, 9)
    one.post(f"{DLQ}/{published[0]}/discard").expect(200)
    assert mark(database, published[1])
    wait_until(lambda: letter(one, published[1])["recovered"], "the letter is recovered")
    stats = one.get(DLQ + "/stats").expect(200)
    assert stats["total"] == database.value("SELECT count(*) FROM swarm_dlq") == 9
    assert stats["recoverable"] == database.value("SELECT count(*) FROM swarm_dlq WHERE recoverable = true AND recovered = false")
    assert stats["by_reason"] == dict(database.query("SELECT reason, count(*) FROM swarm_dlq WHERE recovered = false GROUP BY reason"))
    assert [str(each[0]) for each in database.query("SELECT dlq_id FROM swarm_dlq WHERE recovered = %s AND reason = %s ORDER BY failed_at DESC LIMIT %s", True,
                                                    "agent_crashed", 50)] == [published[1]]


def test_a_retry_shows_in_the_relation(one, database):
    one.nats.stream_create(STREAM, ["swarm.task.>"])
    dlq_id = new_id()
    insert(database, dlq_id, payload={"task": 7})
    wait_for(one, 1)
    one.post(f"{DLQ}/{dlq_id}/retry").expect(200)
    there = row(database, dlq_id)
    assert (there["recovered"], there["recovered_by"]) == (True, "api-retry") and there["recovered_at"]
    [arrived] = one.nats.stream_messages(STREAM)
    assert arrived.json == {"task": 7}
    assert ids(database, RECOVERABLE) == []


def test_an_existing_table_is_adopted_with_its_rows(database, nats, serve):
    database.query(TABLE)
    dead, recovered, old = new_id(), new_id(), new_id()
    insert(database, dead)
    insert(database, recovered)
    insert(database, old, failed_at=ago(days=30), reason="crash_loop")
    assert mark(database, recovered, "auto-scanner")
    server = serve("--store", database.url, "--nats", nats.url)
    wait_for(server, 3)
    found = everything(server)
    assert {dlq_id: each["state"] for dlq_id, each in found.items()} == {dead: "dead", recovered: "recovered", old: "dead"}
    assert found[recovered]["recovered_by"] == "auto-scanner" and found[old]["failed_at"] < ago(days=29)
    assert sorted(ids(database, "SELECT dlq_id FROM swarm_dlq")) == sorted([dead, recovered, old])
    later = new_id()
    insert(database, later)
    wait_for(server, 4)
    server.restart()
    assert len(everything(server)) == 4


def test_the_original_s_migration_finds_its_table(one, database):
    """A program of the swarm that starts later says CREATE TABLE IF NOT EXISTS, and its indexes."""
    database.query(TABLE)
    dlq_id = new_id()
    insert(database, dlq_id)
    wait_for(one, 1)


def test_a_row_that_was_inserted_while_no_server_ran_becomes_a_letter(swarm, database):
    [server] = swarm()
    server.stop()
    dlq_id = new_id()
    insert(database, dlq_id)
    server.start()
    wait_for(server, 1)
    assert letter(server, dlq_id)["state"] == "dead"


def test_events_are_rows(one, database):
    dlq_id = new_id()
    publish(one.nats, message(dlq_id))
    wait_for(one, 1)
    one.post(f"{DLQ}/{dlq_id}/discard").expect(200)
    head = one.get("/api/v1/audit/head").expect(200)["seq"]
    assert database.value("SELECT count(*) FROM swarm_events") == head


def test_a_row_that_somebody_locks_is_written_afterwards(one, database):
    """Lazaret waits for nobody's lock; and the row does not stay behind when nothing else happens."""
    dlq_id = new_id()
    publish(one.nats, message(dlq_id))
    wait_for(one, 1)
    connection = database.connect()
    connection.autocommit = False
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM swarm_dlq WHERE dlq_id = %s FOR UPDATE", (dlq_id,))
            one.post(f"{DLQ}/{dlq_id}/discard").expect(200)
            assert row(database, dlq_id)["recovered"] is False
    finally:
        connection.close()
    wait_until(lambda: row(database, dlq_id)["recovered"] is True, "the row says that it is settled", patience=60)


def test_what_a_program_forbids_no_machine_brings_back(one, database):
    dlq_id = new_id()
    insert(database, dlq_id)
    wait_for(one, 1)
    database.query("UPDATE swarm_dlq SET recoverable = false WHERE dlq_id = %s", dlq_id)
    wait_until(lambda: letter(one, dlq_id)["recoverable"] is False, "the letter is not for machines")
    assert one.post(f"{DLQ}/retry-all").expect(200)["total"] == 0


def test_a_row_that_is_no_letter_is_the_letter_of_its_own_id(one, database):
    dlq_id = new_id()
    insert(database, dlq_id, original_subject="")
    wait_for(one, 1)
    assert letter(one, dlq_id)["reason"] == "malformed"
    assert row(database, dlq_id)["recovered"] is False
    assert mark(database, dlq_id)
    wait_until(lambda: letter(one, dlq_id)["state"] == "recovered", "the letter follows its row")
