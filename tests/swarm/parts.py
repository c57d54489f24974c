"""The real servers beside Lazaret: PostgreSQL, pgbouncer and nats-server, each on a free port of 127.0.0.1 in a temporary
directory, stopped by its process id.  All of them can go away and come back at the same place."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import psycopg2
from natsclient import Client, Gone, NatsError
from ports import free_port

PGSERVER = str(pathlib.Path(__file__).resolve().parents[1] / "store/pgserver.sh")
PATIENCE = 60
LAST_WORD = ["setpriv", "--pdeathsig", "KILL"]  # who is started so ends with the tests, however they end


def wait_until(condition, what="the condition", patience=PATIENCE):
    deadline = time.monotonic() + patience
    while True:
        said = condition()
        if said:
            return said
        assert time.monotonic() < deadline, f"{what} did not come true"
        time.sleep(0.005)


# ---- PostgreSQL ----------------------------------------------------------------------------------


class Postgres:
    """A server that syncs what it commits, as a real one does."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="lazaret-pg-")
        self.port, self.databases, self.runs = free_port(), 0, False
        self.keeper = subprocess.Popen([PGSERVER, "keep", self.directory], stdin=subprocess.PIPE, start_new_session=True)
        self._run("create", "durable")
        self.start()

    def _run(self, verb, *args):
        done = subprocess.run([PGSERVER, verb, self.directory, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, timeout=120)
        assert done.returncode == 0, f"pgserver.sh {verb}: {done.stderr}"

    @property
    def pid(self):
        """Of the postmaster."""
        return int(pathlib.Path(self.directory, "data/postmaster.pid").read_text().split("\n")[0])

    def start(self):
        self._run("start", self.port)
        self.runs = True

    def stop(self):
        """In order: transactions that run are rolled back, clients are told."""
        self._end("fast")

    def crash(self):
        """All of its processes end at once; the next start recovers from the log."""
        self._end("immediate")

    def _end(self, mode):
        self.runs = False
        self._run("stop", mode)

    def heal(self):
        """It runs and answers again, whatever was done to it."""
        self.resume() if self.runs else self.start()

    def restart(self):
        self.stop()
        self.start()

    def processes(self):
        """The postmaster and its children."""
        pid = self.pid
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
        return [pid, *map(int, children.split())]

    def pause(self):
        """Nothing moves any more: connections stay open and are not answered."""
        self._signal(signal.SIGSTOP)

    def resume(self):
        self._signal(signal.SIGCONT)

    def _signal(self, number):
        for pid in self.processes():
            try:
                os.kill(pid, number)
            except ProcessLookupError:  # it was one that had just come to its end
                pass

    def close(self):
        self.keeper.stdin.close()
        self.keeper.wait(PATIENCE)

    def url(self, database, port=None):
        return f"postgres://postgres@127.0.0.1:{port or self.port}/{database}"

    def connect(self, database="postgres"):
        connection = psycopg2.connect(self.url(database))
        connection.autocommit = True
        return connection

    def administer(self, statement, *values):
        """Runs a statement about databases; its rows, when it has any."""
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement, values)
                return cursor.fetchall() if cursor.description else None
        finally:
            connection.close()

    def database(self):
        """A database that is new and empty."""
        self.databases += 1
        name = f"d{self.databases}"
        self.administer(f"CREATE DATABASE {name} TEMPLATE template0")
        return Database(self, name)


class Database:
    def __init__(self, server, name):
        self.server, self.name = server, name

    @property
    def url(self):
        return self.server.url(self.name)

    def through(self, proxy):
        """Its URL by way of something that listens at `proxy.port`."""
        return self.server.url(self.name, proxy.port)

    def connect(self):
        return self.server.connect(self.name)

    def query(self, statement, *values):
        """Runs a statement, and returns its rows."""
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement, values or None)
                return cursor.fetchall() if cursor.description else None
        finally:
            connection.close()

    def value(self, statement, *values):
        """The first column of the first row."""
        return self.query(statement, *values)[0][0]

    def terminate(self):
        """Ends the connections of all clients; returns how many there were."""
        return self.server.administer("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = %s", self.name)[0][0]

    def drop(self):
        self.server.administer(f"DROP DATABASE IF EXISTS {self.name} WITH (FORCE)")


class Pgbouncer:
    """A pooler in transaction mode before a Postgres."""

    def __init__(self, postgres):
        self.postgres, self.port = postgres, free_port()
        postgres._run("pool", self.port, postgres.port)

    @property
    def pid(self):
        return int(pathlib.Path(self.postgres.directory, "pool.pid").read_text())

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        pathlib.Path(self.postgres.directory, "pool.pid").unlink()


# ---- NATS ----------------------------------------------------------------------------------------


class Nats:
    """A nats-server with JetStream, on files.  `config` is added to its configuration; `login` and `context` are for those
    who connect with client(), as natsclient.Client has them."""

    def __init__(self, config="", login=None, context=None):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="lazaret-nats-"))
        self.login, self.context = login, context
        self.port, self.process, self.clients = free_port(), None, []
        self.log = self.directory / "log"
        (self.directory / "nats.conf").write_text(
            f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: "{self.directory}/jetstream" }}\nserver_name: tests\n{config}\n')
        self.start()

    @property
    def url(self):
        return f"{'tls' if self.context else 'nats'}://127.0.0.1:{self.port}"

    def through(self, proxy):
        """Its URL by way of something that listens at `proxy.port`."""
        return self.url.replace(f":{self.port}", f":{proxy.port}")

    def start(self):
        """Starts it, and returns when JetStream answers."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*LAST_WORD, "nats-server", "-c", str(self.directory / "nats.conf")], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True)
        wait_until(self._ready, f"nats-server answers ({self.log})")
        return self

    def _ready(self):
        assert self.process.poll() is None, self.log.read_text()
        try:
            with self._connect(timeout=2) as client:
                return client.api("INFO", timeout=2)
        except (OSError, Gone, NatsError, TimeoutError):
            return None

    def _connect(self, **more):
        return Client("127.0.0.1", self.port, login=self.login, context=self.context, **more)

    def client(self):
        """A connection, closed with the server."""
        client = self._connect()
        self.clients.append(client)
        return client

    def kill(self):
        """SIGKILL: no time to do anything."""
        self.process.kill()
        self.process.wait()

    def restart(self):
        if self.process.poll() is None:
            self.kill()
        return self.start()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def close(self):
        for client in self.clients:
            client.close()
        if self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
