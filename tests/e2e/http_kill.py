#!/usr/bin/python3
"""Kills a server under full load, again and again, and looks at what it left.

    http_kill.py [--kills N] [--seed S]          LAZARET_BIN names the program (default build/lazaret)

Clients push (one job a request, and lines of many), lease and report as fast as they can; SIGKILL comes at a moment that is
drawn.  The server is started again on the same directory and asked for everything it had acknowledged:

    a push that was answered with 2xx    its job is there, once, in one state
    a result that was answered           the job has the state that the answer said, or one that follows from it
    a lease that was answered            it is still the worker's: its result is taken after the restart

and the audit chain must verify.  After LIVES kills a fresh directory is taken.
"""

import argparse
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("LAZARET_BIN") or str(ROOT / "build/lazaret")
LIVES = 10  # kills a directory
PATIENCE = 120
HOUR = 3600 * 1000
ONCE = {"max_attempts": 1}


class Ledger:
    """What the server has acknowledged, of one directory."""

    def __init__(self):
        self.lock = threading.Lock()
        self.pushed = set()
        self.results = {}  # job id: the state that the answer said
        self.held = []  # leases that were taken and not yet reported
        self.acknowledged = 0

    def push(self, names):
        with self.lock:
            self.pushed.update(names)
            self.acknowledged += len(names)

    def report(self, states):
        with self.lock:
            self.results.update(states)
            self.acknowledged += len(states)


class Load:
    """Clients that work until they are told to stop; a server that is gone ends them too."""

    def __init__(self, port, ledger, life, seed):
        self.port, self.ledger, self.life = port, ledger, life
        self.stopped = threading.Event()
        self.problems = []
        work = [self.push_single, self.push_single, self.push_lines, self.work, self.work]
        self.threads = [threading.Thread(target=self.run, args=(job, number, random.Random(f"{seed}:{life}:{number}"))) for number, job in enumerate(work)]

    def start(self):
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a client hangs"
        assert not self.problems, self.problems

    def run(self, job, number, rng):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            job(connection, number, rng)
        except (OSError, http.client.HTTPException):
            pass  # the server is gone
        except Exception as problem:
            self.problems.append(repr(problem))
        finally:
            connection.close()

    @staticmethod
    def ask(connection, path, body, kind="application/json"):
        connection.request("POST", path, body=body, headers={"Content-Type": kind})
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status in (200, 201), (answer.status, said)
        return json.loads(said)

    def envelope(self, name):
        return json.dumps({"job_id": name, "action": "a", "retry_policy": ONCE, "inputs": {"name": name}})

    def push_single(self, connection, number, rng):
        count = 0
        while not self.stopped.is_set():
            name = f"{self.life}-{number}-{count}"
            self.ask(connection, "/api/v1/jobs", self.envelope(name))
            self.ledger.push([name])
            count += 1

    def push_lines(self, connection, number, rng):
        count = 0
        while not self.stopped.is_set():
            names = [f"{self.life}-{number}-{count}-{line}" for line in range(rng.randrange(1, 60))]
            said = self.ask(connection, "/api/v1/jobs", "\n".join(map(self.envelope, names)), "application/x-ndjson")
            assert [entry["job_id"] for entry in said["results"]] == names
            self.ledger.push(names)
            count += 1

    def work(self, connection, number, rng):
        while not self.stopped.is_set():
            taken = self.ask(connection, "/api/v1/leases", json.dumps({"worker_id": f"w{number}", "count": rng.randrange(1, 40), "wait_ms": 100, "lease_ms": HOUR}))["leases"]
            with self.ledger.lock:
                self.ledger.held += taken
            if taken:
                self.resolve(connection, taken, rng)

    def resolve(self, connection, leases, rng):
        results = [{"lease_id": lease["lease_id"], "status": "complete", "result": {"name": lease["job_id"]}} if rng.random() < 0.8 else
                   {"lease_id": lease["lease_id"], "status": "failed", "failure": {"message": "m", "class": "timeout"}} for lease in leases]
        said = self.ask(connection, "/api/v1/results", json.dumps(results))["results"]
        gone = {lease["lease_id"] for lease in leases}
        # In doubt: a result whose answer was lost in a kill is "lease_lost" when it is sent again.
        self.ledger.report({entry["job_id"]: entry["state"] for entry in said if "state" in entry})
        with self.ledger.lock:
            self.ledger.held = [lease for lease in self.ledger.held if lease["lease_id"] not in gone]


def start(data):
    """Starts the server; the process and its port."""
    errors = open(data.parent / "stderr", "ab")
    process = subprocess.Popen([PROGRAM, "serve", "--data", str(data), "--listen", "127.0.0.1:0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True)
    errors.close()
    ready = re.match(r"lazaret: ready on http://127\.0\.0\.1:(\d+)", process.stdout.readline())
    assert ready, f"the server does not start: {(data.parent / 'stderr').read_text()}"
    return process, int(ready.group(1))


def states(port):
    """The state of every job, page by page; a job that is listed twice is an error."""
    found, cursor = {}, ""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    while cursor is not None:
        connection.request("GET", f"/api/v1/jobs?limit=1000&cursor={cursor}" if cursor else "/api/v1/jobs?limit=1000")
        answer = connection.getresponse()
        page = json.loads(answer.read())
        assert answer.status == 200, page
        for job in page:
            assert job["job_id"] not in found, f"{job['job_id']} is there twice"
            found[job["job_id"]] = job["state"]
        cursor = answer.headers["X-Next-Cursor"]
    connection.close()
    return found


def look(data, port, ledger, rng):
    """Compares what is there with what was acknowledged; returns what is lost."""
    found = states(port)
    lost = [f"push of {name}" for name in ledger.pushed if name not in found]
    lost += [f"result of {name}: {state} became {found.get(name)}" for name, state in ledger.results.items() if found.get(name) != state]
    verified = subprocess.run([PROGRAM, "audit", "verify", "--data", str(data)], capture_output=True, text=True, timeout=PATIENCE)
    assert verified.returncode == 0, (verified.stdout, verified.stderr)
    # The leases that were under way are still valid: their jobs can be reported.
    held, ledger.held = ledger.held, []
    if held:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        said = Load.ask(connection, "/api/v1/results", json.dumps([{"lease_id": lease["lease_id"], "status": "complete"} for lease in held]))["results"]
        connection.close()
        for lease, entry in zip(held, said):
            reported = found.get(lease["job_id"]) != "running"  # before the kill, and its answer was lost
            if "state" not in entry and not reported:
                lost.append(f"lease of {lease['job_id']}: {entry}")
        ledger.report({entry["job_id"]: entry["state"] for entry in said if "state" in entry})
    return lost


def live_and_die(data, ledger, life, seed):
    """One life of a server, and what is lost after it."""
    rng = random.Random(f"{seed}:{life}")
    process, port = start(data)
    try:
        before = ledger.acknowledged
        load = Load(port, ledger, life, seed)
        load.start()
        deadline = time.monotonic() + PATIENCE
        while ledger.acknowledged == before:
            assert time.monotonic() < deadline and process.poll() is None, "nothing is acknowledged"
            time.sleep(0.001)
        time.sleep(rng.random() * rng.choice([0.02, 0.3, 0.6]))
        process.kill()
        process.wait()
        load.stop()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    process, port = start(data)
    try:
        lost = look(data, port, ledger, rng)
        process.terminate()
        assert process.wait(PATIENCE) == 0, (data.parent / "stderr").read_text()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    return lost


def run(kills, seed, say=print):
    """Kills `kills` times; the number of acknowledgements and what was lost."""
    acknowledged, lost = 0, []
    for first in range(0, kills, LIVES):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lazaret-http-kill-"))
        ledger = Ledger()
        try:
            for life in range(first, min(first + LIVES, kills)):
                lost += live_and_die(folder / "data", ledger, life, seed)
        finally:
            errors = (folder / "stderr").read_text(errors="replace")
            shutil.rmtree(folder)
        assert "Sanitizer" not in errors and "runtime error" not in errors, errors
        acknowledged += ledger.acknowledged
        say(f"{min(first + LIVES, kills)} kills: acknowledged {acknowledged}, lost {len(lost)}")
    return acknowledged, lost


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args()
    print(f"http_kill: {args.kills} kills, seed {args.seed}", flush=True)
    acknowledged, lost = run(args.kills, args.seed, lambda line: print(line, flush=True))
    for line in lost[:20]:
        print(line)
    print(f"acknowledged {acknowledged}, lost {len(lost)}")
    return 1 if lost or not acknowledged else 0


if __name__ == "__main__":
    sys.exit(main())
