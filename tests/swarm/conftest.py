"""What the tests of the swarm share: real servers (parts.py), a bad network (proxy.py), and Lazaret itself (tests/station.py).

    postgres     a server for the session, that syncs; database: a fresh one in it
    pgbouncer    a pooler before it
    nats         a nats-server with JetStream; natsd(...) starts others, with users, keys or TLS
    proxy        proxy(part) puts a network between: proxy(postgres), proxy(nats)
    serve        starts build/lazaret serve: serve("--store", database.url, "--nats", nats.url)
    swarm        swarm(count) starts so many over the same database and nats
"""

import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from letters import wait_for_stream
from parts import Nats, Pgbouncer, Postgres
from proxy import Proxy
from station import check_program, serve

pytest_sessionstart = check_program


@pytest.fixture(scope="session")
def postgres_server():
    server = Postgres()
    yield server
    server.close()


@pytest.fixture
def postgres(postgres_server):
    """The server, which runs and answers again when the test is over."""
    yield postgres_server
    postgres_server.heal()


@pytest.fixture
def database(postgres):
    made = postgres.database()
    yield made
    postgres.heal()
    made.drop()


@pytest.fixture
def pgbouncer(postgres):
    pooler = Pgbouncer(postgres)
    yield pooler
    pooler.close()


@pytest.fixture
def natsd():
    """Starts nats-servers: natsd(config=, login=, context=)."""
    started = []

    def start(*args, **kw):
        started.append(Nats(*args, **kw))
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture
def nats(natsd):
    return natsd()


@pytest.fixture
def proxy():
    """Puts a network before a part: proxy(postgres)."""
    made = []

    def put(part):
        made.append(Proxy("127.0.0.1", part.port))
        return made[-1]

    yield put
    for each in made:
        each.close()


@pytest.fixture
def swarm(database, nats, serve):
    """Starts servers over the same database and nats: swarm(count, *args)."""

    def start(count=1, *args):
        servers = [serve("--store", database.url, "--nats", nats.url, *args, start=False) for _ in range(count)]
        for server in servers:
            server.start()
        wait_for_stream(nats)
        return servers

    return start
