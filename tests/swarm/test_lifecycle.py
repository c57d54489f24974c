"""The seed's life cycle, end to end, on real servers."""

import collections

import pytest
from letters import (DLQ, STREAM, SUBJECT, SUBJECTS, ago, everything, ingested, letter, message, new_id, publish, source,
                     wait_for)
from station import ONCE, wait_until

# Texts that a program which parses and prints them would change.
PAYLOADS = [
    b'{"b": 1, "a":  2.50, "b": 1e2,\n "u":"\\u00fc\\/", "big": 12345678901234567890}',
    b'[ 1 ,2,  "\xc3\xbc \\ud83d\\ude00" ]',
    b'"just a text"',
    b'{"nested":{"deep":[{},[],null,true]},"empty":""}',
]


@pytest.fixture
def one(swarm, nats):
    """One server, and a client of its NATS."""
    [server] = swarm()
    server.nats = nats.client()
    return server


def test_letters_published_by_subject_are_ingested_listed_and_counted(one):
    ids = {reason: new_id() for reason in SUBJECTS}
    publish(one.nats, *(message(ids[reason], reason=reason) for reason in SUBJECTS))
    wait_for(one, len(ids))
    found = everything(one)
    assert set(found) == set(ids.values())
    for reason, dlq_id in ids.items():
        there = found[dlq_id]
        assert (there["reason"], there["source"], there["state"], there["recovered"]) == (reason, source(reason), "dead", False)
        assert (there["original_subject"], there["original_payload"], there["retry_count"]) == (SUBJECT, {"id": dlq_id}, 3)
        assert there["retry_history"][0]["agent"] == "scout"
    stats = one.get(DLQ + "/stats").expect(200)
    assert (stats["total"], stats["unrecovered"], stats["recoverable"]) == (9, 9, 9)
    assert stats["by_reason"] == {reason: 1 for reason in SUBJECTS}
    assert stats["by_source"] == {"dispatch": 6, "warren": 3}
    assert [each["dlq_id"] for each in one.get(DLQ + "?reason=crash_loop").expect(200)] == [ids["crash_loop"]]


def test_the_stream_and_its_consumer_are_made_as_they_are_promised(one):
    stream = one.nats.stream_info("DLQ")["config"]
    assert (stream["subjects"], stream["storage"]) == (["dlq.>"], "file")
    consumer = one.nats.consumer_info("DLQ", "lazaret-DLQ")["config"]
    assert (consumer["durable_name"], consumer["ack_policy"]) == ("lazaret-DLQ", "explicit")
    publish(one.nats, message(new_id()))
    wait_until(lambda: ingested(one.nats) == 1, "the letter is acknowledged")
    assert one.nats.consumer_info("DLQ", "lazaret-DLQ")["num_redelivered"] == 0


@pytest.mark.parametrize("kept", [True, False], ids=["stream", "subscriber"])
def test_a_retry_brings_the_message_back_byte_for_byte(one, kept):
    if kept:
        one.nats.stream_create(STREAM, ["swarm.task.>"])
    heard = one.nats.subscribe(SUBJECT)
    sent = {new_id(): raw for raw in PAYLOADS}
    publish(one.nats, *(message(dlq_id, raw) for dlq_id, raw in sent.items()))
    wait_for(one, len(sent))
    for dlq_id, raw in sent.items():
        assert one.post(f"{DLQ}/{dlq_id}/retry").expect(200) == {"status": "retried", "dlq_id": dlq_id}
        arrived = heard.next()
        assert (arrived.subject, arrived.data) == (SUBJECT, raw)
        assert arrived.headers["Nats-Msg-Id"].startswith(dlq_id)
        there = letter(one, dlq_id)
        assert (there["state"], there["recovered"], there["recovered_by"]) == ("recovered", True, "api-retry")
        again = one.post(f"{DLQ}/{dlq_id}/retry")
        assert (again.status, again.json["error"]) == (409, "already recovered")
    one.nats.flush()
    assert not heard.pending()
    if kept:
        assert [stored.data for stored in one.nats.stream_messages(STREAM)] == list(sent.values())


def test_a_discarded_letter_is_not_brought_back(one):
    heard = one.nats.subscribe(SUBJECT)
    dlq_id = new_id()
    publish(one.nats, message(dlq_id))
    wait_for(one, 1)
    assert one.post(f"{DLQ}/{dlq_id}/discard").expect(200) == {"status": "discarded", "dlq_id": dlq_id}
    assert letter(one, dlq_id)["state"] == "discarded"
    assert one.post(f"{DLQ}/{dlq_id}/retry").status == 409
    assert one.post(DLQ + "/retry-all").expect(200)["total"] == 0
    stats = one.get(DLQ + "/stats").expect(200)
    assert (stats["unrecovered"], stats["discarded"]) == (0, 1)
    one.nats.flush()
    assert not heard.pending()


def test_retry_all_brings_back_what_a_machine_may(one):
    one.nats.stream_create(STREAM, ["swarm.task.>"])
    fresh, old, not_mine = [new_id() for _ in range(30)], new_id(), new_id()
    publish(one.nats, *(message(dlq_id) for dlq_id in fresh), message(old, failed_at=ago(hours=25)), message(not_mine, recoverable=False))
    wait_for(one, 32)
    assert one.post(DLQ + "/retry-all").expect(200) == {"retried": 30, "failed": 0, "total": 30}
    assert sorted(arrived.json["id"] for arrived in one.nats.stream_messages(STREAM)) == sorted(fresh)
    found = everything(one)
    assert {found[dlq_id]["recovered_by"] for dlq_id in fresh} == {"api-retry-all"}
    assert (found[old]["state"], found[not_mine]["state"]) == ("dead", "dead")


def test_the_scanner_brings_back_what_a_machine_may(swarm, nats):
    client = nats.client()
    client.stream_create(STREAM, ["swarm.task.>"])
    [server] = swarm(1, "--scan-interval", "1s")
    fresh, old, not_mine = [new_id() for _ in range(5)], new_id(), new_id()
    publish(client, message(old, failed_at=ago(hours=25)), message(not_mine, recoverable=False), *(message(dlq_id) for dlq_id in fresh))
    wait_until(lambda: len(everything(server, "&recovered=true")) == 5, "the scanner has found them")
    found = everything(server)
    assert {found[dlq_id]["recovered_by"] for dlq_id in fresh} == {"auto-scanner"}
    assert (found[old]["state"], found[not_mine]["state"]) == ("dead", "dead")
    assert sorted(arrived.json["id"] for arrived in client.stream_messages(STREAM)) == sorted(fresh)


def test_what_keeps_coming_back_is_brought_back_three_times_and_then_needs_a_person(swarm, nats):
    client = nats.client()
    heard = client.subscribe(SUBJECT)
    [server] = swarm(1, "--scan-interval", "1s")
    raw, ids = b'{"task":"poison"}', []
    for round in range(4):
        ids.append(new_id())
        publish(client, message(ids[-1], raw))
        if round < 3:
            assert heard.next().data == raw
    wait_for(server, 4)
    other = new_id()  # a scan that comes after it brings this one back, and not the fourth
    publish(client, message(other))
    assert heard.next().json == {"id": other}
    last = letter(server, ids[-1])
    assert (last["state"], last["manual_review_required"]) == ("dead", True)
    assert not heard.pending()
    assert server.post(f"{DLQ}/{ids[-1]}/retry").expect(200)["status"] == "retried"
    assert heard.next().data == raw


def test_a_message_that_is_no_letter_is_kept_with_its_bytes(one):
    wrong = [b"no JSON at all \x00\xff", b'{"dlq_id": 7}', b"", b'{"dlq_id":"x","original_subject":', b"[1,2]"]
    publish(one.nats, *(("dlq.task.unknown", data) for data in wrong))
    wait_for(one, len(wrong))
    found = everything(one)
    assert {there["reason"] for there in found.values()} == {"malformed"}
    assert {there["recoverable"] for there in found.values()} == {False}
    wait_until(lambda: ingested(one.nats) == len(wrong), "they are acknowledged")


def test_the_same_letter_twice_is_stored_once(one):
    dlq_id = new_id()
    publish(one.nats, message(dlq_id), message(dlq_id), message(new_id()))
    wait_until(lambda: ingested(one.nats) == 3, "all are acknowledged")
    assert len(everything(one)) == 2


def test_dead_letters_of_lazaret_are_published_by_their_reason(one):
    heard = one.nats.subscribe("dlq.>")
    dlq_id = one.dead(retry_policy=ONCE, inputs={"customer": 7})
    arrived = heard.next()
    assert arrived.subject == "dlq.task.retries_exhausted"
    there = arrived.json
    assert (there["dlq_id"], there["reason"], there["source"]) == (dlq_id, "retries_exhausted", "lazaret")
    publish(one.nats, message(new_id()))
    wait_until(lambda: ingested(one.nats) == 2, "its own letter was read back")
    assert len(everything(one)) == 2
    assert letter(one, dlq_id)["original_payload"]["inputs"] == {"customer": 7}
    assert heard.next().json["dlq_id"] != dlq_id and not heard.pending()


def test_two_servers_with_a_scanner_each_bring_none_of_a_thousand_letters_back_twice(swarm, nats):
    client = nats.client()
    client.stream_create(STREAM, ["swarm.task.>"])
    heard = nats.client().subscribe(SUBJECT)  # it hears what the stream drops as a repetition
    ids = [new_id() for _ in range(1000)]
    servers = swarm(2, "--scan-interval", "1s")
    publish(client, *(message(dlq_id) for dlq_id in ids))
    for server in servers:
        wait_until(lambda: server.get(DLQ + "/stats").expect(200)["by_state"].get("recovered", 0) == 1000, "all are brought back")
    arrived = collections.Counter(heard.next().json["id"] for _ in ids)
    client.flush()
    extra = heard.pending()
    assert not extra and set(arrived) == set(ids) and set(arrived.values()) == {1}, collections.Counter(arrived.values())
    assert client.stream_info(STREAM)["state"]["messages"] == 1000


def test_a_server_of_a_swarm_has_metrics_of_it(one):
    dlq_id = new_id()
    publish(one.nats, message(dlq_id))
    wait_for(one, 1)

    def value(sample):
        lines = one.get("/metrics").text.splitlines()
        return next((line.rpartition(" ")[2] for line in lines if line.startswith(sample + " ")), None)

    wait_until(lambda: value('lazaret_nats_letters_total{outcome="ingested"}') == "1", "the letter is counted")
    wait_until(lambda: value('lazaret_alerts_total{to="nats"}') == "1", "the alert is counted")
    assert value("lazaret_nats_connected") == "1"
    for sample in ("lazaret_nats_reconnects_total", "lazaret_scanner_scans_total", "lazaret_scanner_left", 'lazaret_scanner_letters_total{outcome="replayed"}',
                   'lazaret_alert_letters_total{how="first"}', 'lazaret_inbox_rows_total{outcome="imported"}'):
        assert value(sample) is not None, sample
