"""Work on a swarm while parts of it fail, and the account that is settled afterwards.

    with Load(servers, nats) as load:
        load.until(letters=50, jobs=50)
        postgres.crash(); ...; postgres.start()
        load.until(letters=100, jobs=100)       # it goes on
    load.settle()                               # nothing is lost, nothing is doubled

Clients of all kinds work until they are told to stop: one publishes letters, one pushes jobs, workers lease and report, one
brings letters back.  What is not answered is in doubt, and asked for again under the same id; what is answered goes into the
books.  At the end, when everything runs again:

    a letter that NATS acknowledged    is there, once
    a letter that was brought back     is `recovered`, and its message is in the stream of its subject, once; and no message
                                         is there whose letter is not `recovered`
    a job that was acknowledged        is there, once, and comes to its end
    a result that was taken            is the job's state: no job is done twice

and the chain of evidence verifies.  A letter is brought back by one request only, so that a second message could only be
the program's doing.
"""

import collections
import http.client
import random
import re
import threading
import time

from letters import DLQ, STREAM, everything, message, new_id
from natsclient import Gone, NatsError
from station import PATIENCE, wait_until

LEASE_MS = 2000
POLICY = {"max_attempts": 1000, "initial_delay_seconds": 0.001, "max_delay_seconds": 0.01, "jitter": False}


def verify(servers):
    """The chain of evidence is whole, for whoever looks; what is said of an event is shown with it."""
    for server in servers:
        verified = server.cli("audit", "verify")
        wrong = re.search(r"event (\d+)", verified.stderr)
        events = server.get(f"/api/v1/audit?after={int(wrong.group(1)) - 1}&limit=1").text if wrong else ""
        assert verified.returncode == 0, (verified.stdout, verified.stderr, events)


class Unanswered(Exception):
    """Nobody can say whether it was done."""


class Load:
    def __init__(self, servers, nats, seed=1, letters=True, jobs=True, retries=True):
        self.servers, self.nats, self.seed = servers, nats, seed
        self.stopped = threading.Event()
        self.lock = threading.Lock()
        self.published, self.retried, self.pushed = set(), set(), set()
        self.results = collections.defaultdict(list)  # job id: the states that were answered
        self.unanswered, self.problems = 0, []
        work = [self.publish] * letters + [self.retry] * retries + ([self.push] + [self.work] * 2) * jobs
        self.threads = [threading.Thread(target=self.run, args=(each, random.Random(f"{seed}:{number}")), daemon=True) for number, each in enumerate(work)]
        with nats.client() as client:
            if STREAM not in client.stream_names():
                client.stream_create(STREAM, ["swarm.task.>"])

    # ---- its life ----------------------------------------------------------------------------

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a client hangs"
        assert not self.problems, self.problems

    def until(self, letters=0, jobs=0, retried=0):
        """Returns when so many more of each have been acknowledged."""
        goals = [(self.published, letters), (self.results, jobs), (self.retried, retried)]
        goals = [(books, len(books) + more) for books, more in goals if more]
        wait_until(lambda: self.problems or all(len(books) >= goal for books, goal in goals), f"the work goes on ({self})")
        assert not self.problems, self.problems

    def __repr__(self):
        return f"{len(self.published)} published, {len(self.retried)} brought back, {len(self.pushed)} pushed, {len(self.results)} reported, {self.unanswered} unanswered"

    def run(self, work, rng):
        try:
            work(rng)
        except Exception as problem:
            self.problems.append(repr(problem))

    # ---- clients -----------------------------------------------------------------------------

    def ask(self, rng, path, body=None, method="POST"):
        """Asks any server; what is neither done nor refused is in doubt."""
        server = rng.choice(self.servers)
        try:
            answer = server.request(method, path, body, timeout=PATIENCE)
        except (OSError, http.client.HTTPException, TypeError) as problem:  # TypeError: it has no address yet
            answer = None
        if answer is None or answer.status >= 500:
            self.unanswered += 1
            self.stopped.wait(0.02)
            raise Unanswered
        return answer

    def publish(self, rng):
        client = None
        while not self.stopped.is_set():
            dlq_id = new_id()
            subject, data = message(dlq_id)
            while not self.stopped.is_set():
                try:
                    client = client or self.nats.client()
                    client.js_publish(subject, data, timeout=5)
                    self.published.add(dlq_id)
                    break
                except (OSError, Gone, NatsError, TimeoutError):
                    client = None
                    self.stopped.wait(0.02)
            self.stopped.wait(0.02)  # not faster than they are brought back: it is about faults

    def retry(self, rng):
        asked = set()
        while not self.stopped.is_set():
            try:
                found = self.ask(rng, f"{DLQ}?state=dead&source=dispatch&sort=oldest&limit=50", method="GET").expect(200)
                fresh = [each["dlq_id"] for each in found if each["dlq_id"] not in asked][:5]
                if not fresh:
                    self.stopped.wait(0.02)
                for dlq_id in fresh:
                    asked.add(dlq_id)
                    answer = self.ask(rng, f"{DLQ}/{dlq_id}/retry")
                    assert answer.status in (200, 202, 409), answer  # 202: it is still on its way
                    if answer.status == 200:
                        self.retried.add(dlq_id)
            except Unanswered:
                pass

    def push(self, rng):
        count = 0
        while not self.stopped.is_set():
            names = [f"{self.seed}-{count + number}" for number in range(rng.randrange(1, 10))]
            envelopes = [{"job_id": name, "action": "a", "queue": "load", "retry_policy": POLICY} for name in names]
            try:
                for entry in self.ask(rng, "/api/v1/jobs", envelopes).expect(200)["results"]:
                    assert "error" not in entry, entry
                self.pushed.update(names)
                count += len(names)
            except Unanswered:
                pass
            while len(self.pushed) > len(self.results) + 500 and not self.stopped.is_set():
                self.stopped.wait(0.01)

    def work(self, rng, wait_ms=200):
        name = f"w{rng.random()}"
        while not self.stopped.is_set():
            try:
                leases = self.ask(rng, "/api/v1/leases", {"worker_id": name, "queues": ["load"], "count": rng.randrange(1, 20), "wait_ms": wait_ms,
                                                          "lease_ms": LEASE_MS}).expect(200)["leases"]
                results = [{"lease_id": lease["lease_id"], "status": "complete"} for lease in leases]
                if results:
                    self.report(self.ask(rng, "/api/v1/results", results).expect(200)["results"])
            except Unanswered:
                pass

    def report(self, results):
        with self.lock:
            for entry in results:
                if "state" in entry:
                    self.results[entry["job_id"]].append(entry["state"])

    # ---- the account -------------------------------------------------------------------------

    def settle(self):
        """Everything comes to its end, and is as the books say."""
        server = self.servers[0]
        wait_until(lambda: server.get("/readyz").status == 200, "the server is ready")
        self.settle_letters(server)
        self.settle_jobs(server)
        verify(self.servers)

    def settle_letters(self, server):
        wait_until(lambda: self.published <= set(everything(server, "&source=dispatch")), "every letter is there")
        wait_until(lambda: not server.get(f"{DLQ}?state=recovering").expect(200), "no letter is on its way")
        found = everything(server, "&source=dispatch")
        with self.nats.client() as client:
            arrived = collections.Counter(each.json["id"] for each in client.stream_messages(STREAM))
        doubled = [dlq_id for dlq_id, times in arrived.items() if times > 1]
        recovered = {dlq_id for dlq_id, each in found.items() if each["state"] == "recovered"}
        assert not doubled, f"{len(doubled)} messages arrived twice: {doubled[:3]}"
        assert self.retried <= recovered, f"brought back, and not so: {list(self.retried - recovered)[:3]}"
        assert set(arrived) == recovered, f"recovered and not arrived: {list(recovered - set(arrived))[:3]}, arrived and not recovered: {list(set(arrived) - recovered)[:3]}"

    def settle_jobs(self, server):
        rng, self.stopped = random.Random(0), threading.Event()
        deadline = time.monotonic() + PATIENCE
        while True:  # what waits for its next run, or for the end of a lost lease, is done too
            states = self.states(server)
            if all(states.get(name) == "done" for name in self.pushed):
                break
            assert time.monotonic() < deadline, f"jobs do not end: {[(name, states.get(name)) for name in self.pushed if states.get(name) != 'done'][:5]}"
            try:
                leases = self.ask(rng, "/api/v1/leases", {"worker_id": "last", "queues": ["load"], "count": 100, "wait_ms": 300, "lease_ms": 60000}).expect(200)["leases"]
                if leases:
                    self.report(self.ask(rng, "/api/v1/results", [{"lease_id": lease["lease_id"], "status": "complete"} for lease in leases]).expect(200)["results"])
            except Unanswered:
                pass
        twice = {name: said for name, said in self.results.items() if len(said) > 1}
        assert not twice, f"done twice: {list(twice.items())[:3]}"

    @staticmethod
    def states(server):
        found, cursor = {}, ""
        while cursor is not None:
            answer = server.get("/api/v1/jobs?queue=load&limit=1000" + (f"&cursor={cursor}" if cursor else ""))
            for job in answer.expect(200):
                assert job["job_id"] not in found, f"{job['job_id']} is there twice"
                found[job["job_id"]] = job["state"]
            cursor = answer.cursor
        return found
