"""seed_http: what seed_letters does, as a worker of whoever owns the directory.

    seed_http.py --data DIR [STEP]...        the steps, and what they print, are those of seed_letters.c
"""

import http.client
import json
import socket
import sys


class Socket(http.client.HTTPConnection):
    """HTTP over the owner's socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Seeding:
    def __init__(self, data):
        self.connection = Socket(f"{data}/lazaret.sock")
        self.job = None   # the last that was pushed
        self.others = []  # leases of jobs that came in between: given back at the end

    def post(self, path, body):
        if not isinstance(body, str):
            body = json.dumps(body)
        self.connection.request("POST", f"/api/v1/{path}", body.encode(),
                                {"Content-Type": "application/json", "X-Lazaret-Actor": "worker:seed"})
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            sys.exit(f"seed_http: {path}: {answer.status} {text.decode()}")
        return json.loads(text)

    def push(self, envelope):
        self.job = self.post("jobs", envelope)["job_id"]
        print("job", self.job)

    def lease(self):
        """Takes the last job and returns its lease's id."""
        while True:
            leases = self.post("leases", {"worker_id": "seed", "count": 1, "lease_ms": 3600000, "wait_ms": 20000})["leases"]
            if not leases:
                sys.exit("seed_http: lease: the job did not become ready")
            if leases[0]["job_id"] == self.job:
                return leases[0]["lease_id"]
            self.others.append(leases[0]["lease_id"])

    def report(self, result):
        answer = self.post("results", {"lease_id": self.lease(), **result})["results"][0]
        if "error" in answer:
            sys.exit(f"seed_http: {answer}")
        return answer

    def fail(self, failure):
        outcome = self.report({"status": "failed", "failure": json.loads(failure)})
        print("dead " + outcome["dlq_id"] if outcome["state"] == "dead" else outcome["state"])

    def complete(self):
        self.report({"status": "complete"})
        print("done")

    def hold(self):
        print("held", self.lease())

    def release(self):
        if self.others:
            self.post("leases/release", {"lease_ids": self.others})


def main(args):
    seeding = Seeding(args[1])
    at = 2
    while at < len(args):
        step = args[at].removeprefix("--")
        takes = 1 if step in ("push", "fail") else 0
        getattr(seeding, step)(*args[at + 1:at + 1 + takes])
        at += 1 + takes
    seeding.release()


if __name__ == "__main__":
    main(sys.argv[1:])
