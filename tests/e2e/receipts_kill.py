#!/usr/bin/python3
"""Kills a server that delivers receipts at random moments, and looks at what became of each receipt.

    receipts_kill.py [--kills N] [--seed S]      LAZARET_BIN names the program (default build/lazaret)

The endpoint takes most receipts at once, some at the second call, refuses some, and fails for some always; it answers
slowly at times, and resets a connection instead.  Receipts are ordered all the while; SIGKILL comes up to 300 ms after the
server has made a call.  When the server has come to rest after the last of LIVES kills:

    each receipt that was    was received (the endpoint gave it 2xx) and its job is done; or is in the quarantine,
      taken                    once, and in receipts.json; the endpoint's ways say which
    one that was seen to     was not sent again afterwards, whatever was killed
      have ended
    each call                has the receipt's key and its bytes, and is an attempt of its job; a failure that is
                               recorded is one that the endpoint gave

and the audit chain must verify.  Then a fresh directory is taken.
"""

import argparse
import collections
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
sys.path.insert(0, str(ROOT / "tests"))
from endpoint import Endpoint, answer, configuration, receipt, reset

PROGRAM = os.environ.get("LAZARET_BIN") or str(ROOT / "build/lazaret")
LIVES = 10  # kills a directory
ORDERS_MAX = 60  # of one life
ATTEMPTS_MAX = 3
PATIENCE = 120
POLICY = {"max_attempts": ATTEMPTS_MAX, "backoff_strategy": "fixed", "initial_delay_seconds": 0.02, "jitter": False}
WAYS = ["fine"] * 6 + ["late", "broken", "refused", "down"]
ENDED = ("done", "dead", "cancelled")


class Wrong(Exception):
    """What is found at the end is not what happened."""


class Post:
    """The endpoint: how it treats each receipt is drawn from the receipt alone."""

    def __init__(self, seed):
        self.seed = seed
        self.lock = threading.Lock()
        self.calls = collections.defaultdict(list)  # lease: [(request, status that was given, or 0)]
        self.endpoint = Endpoint(self.treat)

    def way(self, lease):
        return random.Random(f"{self.seed}:{lease}").choice(WAYS)

    def treat(self, line, request):
        """A step of the endpoint."""
        lease = request.json["lease_id"]
        with self.lock:
            first = not self.calls[lease]
            status = {"fine": 200, "late": 503 if first else 200, "broken": 0 if first else 200, "refused": 400, "down": 500}[self.way(lease)]
            entry = [request, None]  # None: it is not known whether it got through
            self.calls[lease].append(entry)
        rng = random.Random(f"{self.seed}:{request.number}")
        if rng.random() < 0.3:
            line.endpoint.pause(rng.random() * 0.05)
        entry[1] = status
        return (answer(status, {"lease": lease}) if status else reset)(line, request)

    def count(self, lease):
        with self.lock:
            return len(self.calls[lease])


class Place:
    """One directory, through all its kills to its end."""

    def __init__(self, rng, seed, counts):
        self.rng, self.counts = rng, counts
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lazaret-receipts-kill-"))
        self.data = self.folder / "data"
        self.post = Post(seed)
        (self.folder / "config.json").write_text(json.dumps(configuration({"hook": self.post.endpoint.url})))
        subprocess.run([PROGRAM, "policy", "set", "receipts", "-", "--data", self.data], input=json.dumps(POLICY), text=True, check=True,
                       stdout=subprocess.DEVNULL, timeout=PATIENCE)
        self.taken = {}  # lease: job id, of those that were acknowledged
        self.ordered = 0
        self.seen = {}  # lease: how often it had been called for when it was seen to have ended
        self.problems = []

    def close(self):
        self.post.endpoint.close()
        errors = (self.folder / "stderr").read_text(errors="replace")
        shutil.rmtree(self.folder)
        if "Sanitizer" in errors or "runtime error" in errors:
            raise Wrong(errors)

    def start(self):
        with open(self.folder / "stderr", "ab") as errors:
            process = subprocess.Popen([PROGRAM, "serve", "--data", self.data, "--listen", "127.0.0.1:0", "--config", self.folder / "config.json"],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True)
        ready = re.match(r"lazaret: ready on http://127\.0\.0\.1:(\d+)", process.stdout.readline())
        if not ready:
            process.kill()
            raise Wrong(f"the server does not start: {(self.folder / 'stderr').read_text(errors='replace')}")
        return process, http.client.HTTPConnection("127.0.0.1", int(ready.group(1)), timeout=PATIENCE)

    @staticmethod
    def ask(connection, path, body=None):
        connection.request("POST" if body else "GET", path, body=json.dumps(body) if body else None,
                           headers={"Content-Type": "application/json"} if body else {})
        said = connection.getresponse()
        text = said.read()
        if said.status not in (200, 202):
            raise Wrong(f"{path}: {said.status} {text}")
        return json.loads(text)

    # ---- a life ------------------------------------------------------------------------------------------------------

    def order(self, connection, rng):
        """Orders deliveries, and looks at some that were ordered before, until the server is gone."""
        try:
            for _ in range(ORDERS_MAX):
                lease = f"lease-{self.ordered}"
                self.ordered += 1
                self.taken[lease] = self.ask(connection, "/api/v1/deliveries", {"target": "hook", "body": receipt(lease)})["job_id"]
                self.look_early(connection, rng.choice(list(self.taken)))
        except (OSError, http.client.HTTPException):
            pass
        except Exception as problem:
            self.problems.append(problem)

    def look_early(self, connection, lease):
        """Notes how often a receipt that has ended was sent."""
        if self.ask(connection, f"/api/v1/jobs/{self.taken[lease]}")["state"] in ENDED:
            self.seen.setdefault(lease, self.post.count(lease))

    def live_and_die(self):
        before = len(self.post.endpoint.requests)
        process, connection = self.start()
        orders = threading.Thread(target=self.order, args=(connection, random.Random(self.rng.random())))
        try:
            orders.start()
            deadline = time.monotonic() + PATIENCE
            while len(self.post.endpoint.requests) == before:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise Wrong("nothing is delivered")
                time.sleep(0.001)
            time.sleep(self.rng.random() * self.rng.choice([0.02, 0.1, 0.3]))
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            orders.join(PATIENCE)
            connection.close()
        if self.problems:
            raise Wrong(repr(self.problems[0]))
        self.counts["kills"] += 1

    # ---- the end -----------------------------------------------------------------------------------------------------

    def come_to_rest(self):
        """Starts the server for the last time, waits until every receipt has ended, and compares."""
        process, connection = self.start()
        try:
            self.find_others(connection)
            jobs = {lease: self.wait_for_end(connection, job_id) for lease, job_id in self.taken.items()}
            letters = collections.defaultdict(list)
            for letter in self.all_letters(connection):
                letters[letter["job_id"]].append(letter)
            for lease, job in jobs.items():
                self.look_at(lease, job, letters.pop(job["job_id"], []))
            if letters:
                raise Wrong(f"letters of nobody: {dict(letters)}")
        finally:
            process.terminate()
            ended = process.wait(PATIENCE)
            process.stdout.close()
            connection.close()
        if ended:
            raise Wrong(f"the server ended with {ended}: {(self.folder / 'stderr').read_text(errors='replace')}")
        self.look_at_file([lease for lease, job in jobs.items() if job["state"] == "dead"])
        verified = subprocess.run([PROGRAM, "audit", "verify", "--data", self.data], capture_output=True, text=True, timeout=PATIENCE)
        if verified.returncode != 0:
            raise Wrong(verified.stdout + verified.stderr)
        self.counts.update(receipts=len(self.taken), calls=len(self.post.endpoint.requests))

    def find_others(self, connection):
        """An order whose answer was lost in a kill may have been taken all the same."""
        known, cursor = set(self.taken.values()), ""
        while cursor is not None:
            connection.request("GET", f"/api/v1/jobs?queue=deliveries&limit=1000&cursor={cursor}" if cursor else "/api/v1/jobs?queue=deliveries&limit=1000")
            page = connection.getresponse()
            for job in json.loads(page.read()):
                if job["job_id"] not in known:
                    whole = self.ask(connection, f"/api/v1/jobs/{job['job_id']}")
                    self.taken[whole["envelope"]["inputs"]["body"]["lease_id"]] = job["job_id"]
            cursor = page.getheader("X-Next-Cursor")

    def wait_for_end(self, connection, job_id):
        deadline = time.monotonic() + PATIENCE
        while True:
            job = self.ask(connection, f"/api/v1/jobs/{job_id}")
            if job["state"] in ENDED:
                return job
            if time.monotonic() > deadline:
                raise Wrong(f"it does not end: {job}")
            time.sleep(0.01)

    def all_letters(self, connection):
        letters = self.ask(connection, "/api/v1/dlq?limit=1000")
        if len(letters) == 1000:
            raise Wrong("more letters than this test looks at")
        return letters

    def look_at(self, lease, job, letters):
        """Compares one receipt with what the endpoint knows of it."""
        calls, way, state = self.post.calls[lease], self.post.way(lease), job["state"]
        given = [status for _, status in calls]
        recorded = [attempt for attempt in job["attempts"] if not attempt.get("interrupted")]
        said = f"{lease} ({way}), which was answered {given}, is {state}, with {job['attempts']}"
        if any(request.key != f"{lease}:complete" or request.json != receipt(lease) for request, _ in calls):
            raise Wrong(f"not the same key or body: {[(request.key, request.body) for request, _ in calls]}: {said}")
        if state != ("dead" if way in ("refused", "down") else "done"):
            raise Wrong(said)
        if state == "done" and 200 not in given:
            raise Wrong(f"nobody received it: {said}")
        if [letter["state"] for letter in letters] != (["dead"] if state == "dead" else []):
            raise Wrong(f"its letters are {letters}: {said}")
        if state == "dead" and len(recorded) != (1 if way == "refused" else ATTEMPTS_MAX):
            raise Wrong(f"it died of something else: {said}")
        if len(calls) > job["attempt"]:
            raise Wrong(f"it was sent without an attempt: {said}")
        failed = [attempt.get("http_status") or 0 for attempt in recorded]
        if collections.Counter(failed) - collections.Counter(given):
            raise Wrong(f"a failure was made up: {said}")
        if len(calls) != self.seen.get(lease, len(calls)):
            raise Wrong(f"it was sent {len(calls)} times, and had ended after {self.seen[lease]}: {said}")
        self.counts.update(received=state == "done", quarantined=state == "dead", seen=lease in self.seen,
                           repeated=given.count(200) > 1, cut_off=len(job["attempts"]) - len(recorded))

    def look_at_file(self, leases):
        entries = json.loads((self.data / "dlq/receipts.json").read_text()) if leases else []
        if sorted(entry["receipt"]["lease_id"] for entry in entries) != sorted(leases):
            raise Wrong(f"receipts.json has {entries}, and in the quarantine are {leases}")


def run(kills, seed, say=print):
    """Kills `kills` times, in as many directories as that takes; returns the counts."""
    rng = random.Random(seed)
    counts = collections.Counter()
    while counts["kills"] < kills:
        place = Place(rng, rng.random(), counts)
        try:
            for _ in range(min(LIVES, kills - counts["kills"])):
                place.live_and_die()
            place.come_to_rest()
        finally:
            place.close()
        say(f"{counts['kills']} kills: {counts['receipts']} receipts, as they should be")
    return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args()
    try:
        counts = run(args.kills, args.seed, lambda line: None)
    except Wrong as wrong:
        print(f"receipts_kill: seed {args.seed}: {wrong}")
        return 1
    print(f"receipts_kill: kills {counts['kills']}, receipts {counts['receipts']}, calls {counts['calls']}, received {counts['received']}, "
          f"quarantined {counts['quarantined']}, received twice {counts['repeated']}, cut off {counts['cut_off']}, lost 0, seed {args.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
