"""Parts of the swarm fail in the middle of work: nothing is lost and nothing is doubled, and it goes on by itself.

`make test` does each once or twice; `make soak` (LAZARET_SOAK=1) again and again.
"""

import os
import random
import time

import pytest
from letters import DLQ, STREAM, SUBJECT, everything, ingested, letter, message, new_id, publish, wait_for
from load import Load
from station import ONCE, wait_until

SOAK = bool(os.environ.get("LAZARET_SOAK"))
ROUNDS = 20 if SOAK else 2
SOME = {"letters": 30, "jobs": 30, "retried": 10}  # how much has to be done between two faults
SEED = 20260216


def moments(what):
    """Pauses that put each round's fault at another moment of the work."""
    rng = random.Random(f"{SEED}:{what}")
    return [rng.random() * rng.choice([0.02, 0.2]) for _ in range(ROUNDS)]


# ---- PostgreSQL ----------------------------------------------------------------------------------


def test_a_postgresql_that_is_restarted_or_crashes_costs_nothing(swarm, nats, postgres):
    servers = swarm(2)
    with Load(servers, nats) as load:
        for number, moment in enumerate(moments("postgres")):
            load.until(**SOME)
            time.sleep(moment)
            postgres.crash() if number % 2 else postgres.stop()
            postgres.start()
        load.until(**SOME)
    load.settle()


def test_connections_to_postgresql_that_are_killed_cost_nothing(swarm, nats, database):
    servers = swarm(2)
    with Load(servers, nats) as load:
        for moment in moments("terminate") * 3:
            load.until(letters=5, jobs=5)
            time.sleep(moment)
            assert database.terminate() > 0
        load.until(**SOME)
    load.settle()


def test_while_postgresql_is_away_messages_stay_in_the_stream(swarm, nats, postgres):
    [server] = swarm()
    client = nats.client()
    before, meanwhile = [new_id() for _ in range(10)], [new_id() for _ in range(50)]
    publish(client, *map(message, before))
    wait_until(lambda: ingested(client) == 10, "the first letters are acknowledged")
    postgres.crash()
    publish(client, *map(message, meanwhile))
    refused = server.post("/api/v1/jobs", {"action": "a"})
    assert refused.status == 503, refused
    assert server.get("/healthz").status == 200 and server.get("/readyz").status == 503
    assert ingested(client) == 10 and client.stream_info("DLQ")["state"]["messages"] == 60
    postgres.start()
    wait_until(lambda: server.get("/readyz").status == 200, "the server is ready again")
    wait_until(lambda: ingested(client) == 60, "the others are acknowledged")
    assert set(everything(server)) == {*before, *meanwhile}


# ---- NATS ----------------------------------------------------------------------------------------


def test_a_nats_server_that_is_killed_costs_nothing(swarm, nats):
    servers = swarm(2)
    with Load(servers, nats) as load:
        for moment in moments("nats"):
            load.until(**SOME)
            time.sleep(moment)
            nats.kill()
            nats.start()
        load.until(**SOME)
    load.settle()


def test_while_nats_is_away_everything_else_works(swarm, nats):
    [server] = swarm()
    dlq_id, other = new_id(), new_id()
    publish(nats.client(), message(dlq_id), message(other))
    wait_for(server, 2)
    nats.kill()
    own = server.dead(retry_policy=ONCE)
    server.push(queue="q")
    [lease] = server.lease("q")
    assert server.complete(lease)["state"] == "done"
    assert server.get("/readyz").status == 200
    assert server.post(f"{DLQ}/{own}/retry").expect(200)["status"] == "retried"
    assert server.post(f"{DLQ}/{other}/discard").expect(200)["status"] == "discarded"
    refused = server.post(f"{DLQ}/{dlq_id}/retry")
    assert (refused.status, refused.json["error"]) == (502, "failed to republish")
    assert letter(server, dlq_id)["state"] == "dead"
    nats.start()
    client = nats.client()
    client.stream_create(STREAM, ["swarm.task.>"])
    wait_until(lambda: server.post(f"{DLQ}/{dlq_id}/retry").status == 200, "the letter can be brought back")
    wait_until(lambda: "dlq.task.retries_exhausted" in {each.subject for each in client.stream_messages("DLQ")}, "the letter of meanwhile is published")
    assert [each.json for each in client.stream_messages(STREAM)] == [{"id": dlq_id}]


# ---- Lazaret -------------------------------------------------------------------------------------


def test_servers_that_are_killed_at_any_moment_cost_nothing(swarm, nats):
    """What a killed server had under way comes back when its lease, or JetStream's patience, is over."""
    servers = swarm(2)
    with Load(servers, nats) as load:
        for moment in moments("server"):
            for victims in ([0], [1], [0, 1]):
                load.until(letters=10, jobs=10, retried=3)
                time.sleep(moment)
                for number in victims:
                    servers[number].kill()
                for number in victims:
                    servers[number].start()
        load.until(**SOME)
    load.settle()


# ---- the network ---------------------------------------------------------------------------------


def behind(serve, database, nats, *, store=None, bus=None):
    """A server that reaches its parts through proxies."""
    return serve("--store", database.through(store) if store else database.url, "--nats", nats.through(bus) if bus else nats.url)


def test_a_network_cut_before_postgresql_costs_nothing(serve, postgres, database, nats, proxy):
    wire = proxy(postgres)
    servers = [behind(serve, database, nats, store=wire), behind(serve, database, nats)]
    with Load(servers, nats) as load:
        for moment in moments("cut") * 2:
            load.until(letters=10, jobs=10)
            time.sleep(moment)
            wire.cut()
            load.until(letters=10)
            wire.heal()
        load.until(**SOME)
    load.settle()


def test_a_network_that_falls_silent_before_postgresql_costs_nothing(serve, postgres, database, nats, proxy):
    """The other server goes on: who is silent in its turn does not keep it for long."""
    wire = proxy(postgres)
    servers = [behind(serve, database, nats, store=wire), behind(serve, database, nats)]
    with Load(servers, nats) as load:
        load.until(**SOME)
        wire.silence()
        load.until(letters=5, jobs=20)
        wire.heal(lost=True)
        load.until(**SOME)
    load.settle()


def test_a_network_cut_before_nats_costs_nothing(serve, postgres, database, nats, proxy):
    wire = proxy(nats)
    servers = [behind(serve, database, nats, bus=wire), behind(serve, database, nats)]
    with Load(servers, nats) as load:
        for moment in moments("bus") * 2:
            load.until(letters=10, jobs=10)
            time.sleep(moment)
            wire.cut()
            load.until(letters=10, jobs=10)
            wire.heal()
        load.until(**SOME)
    load.settle()


@pytest.mark.skipif(not SOAK, reason="it mostly waits: make soak has it")
def test_a_network_that_falls_silent_before_nats_costs_nothing(serve, postgres, database, nats, proxy):
    wire = proxy(nats)
    servers = [behind(serve, database, nats, bus=wire), behind(serve, database, nats)]
    with Load(servers, nats) as load:
        load.until(**SOME)
        wire.silence()
        load.until(letters=20, jobs=20)
        wire.heal(lost=True)
        load.until(**SOME)
    load.settle()


def test_a_slow_postgresql_costs_time_only(serve, postgres, database, nats, proxy):
    wire = proxy(postgres)
    servers = [behind(serve, database, nats, store=wire), behind(serve, database, nats)]
    with Load(servers, nats) as load:
        load.until(letters=10)
        wire.delay(0.02)
        load.until(letters=10, jobs=10, retried=3)
        wire.heal()
    load.settle()
