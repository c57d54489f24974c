"""What the tests of deliveries share: a server that delivers to a fake endpoint, and what became of each delivery."""

import json
import sys

from conftest import ROOT, wait_until

sys.path.insert(0, str(ROOT / "tests"))
from endpoint import SCALED, configuration, receipt


class Office:
    """A server whose target `hook` is the endpoint; `policy` is what its policy `receipts` is from the start."""

    def __init__(self, serve, endpoint, targets=None, allow=None, policy=SCALED, args=(), env=None, data=None, **config):
        targets = {"hook": endpoint.url, **(targets or {})} if endpoint else targets
        self.endpoint = endpoint
        self.server = serve(*args, config=configuration(targets, allow, **config), env=env, data=data)
        if policy:
            self.server.put("/api/v1/policies/receipts", policy).expect(200)

    def order(self, body, target="hook", **more):
        return self.server.post("/api/v1/deliveries", {"target": target, "body": body, **more})

    def deliver(self, body, target="hook", **more):
        """Orders a delivery, and returns its job's id."""
        return self.order(body, target, **more).expect(202)["job_id"]

    def push(self, target, body=None, **envelope):
        """Pushes a delivery as a job, past the gate of /deliveries."""
        body = receipt() if body is None else body
        return self.server.push(action="deliver", queue="deliveries", source="receipts", retry_policy="receipts",
                                idempotency_key=f"{body['lease_id']}:{body['status']}", required_capabilities=["deliver"],
                                inputs={"target": target, "body": body}, **envelope)

    def job(self, job_id):
        return self.server.get(f"/api/v1/jobs/{job_id}").expect(200)

    def ended(self, job_id):
        """Waits for the end of a delivery, and returns its job."""
        return wait_until(lambda: (job := self.job(job_id))["state"] in ("done", "dead", "cancelled") and job, f"the end of {job_id}")

    def delivered(self, job_id):
        job = self.ended(job_id)
        assert job["state"] == "done", job
        return job

    def letter(self, job_id):
        """Waits until a delivery is in the quarantine, and returns its letter."""
        job = self.ended(job_id)
        assert job["state"] == "dead", job
        return self.server.get(f"/api/v1/dlq/{job['dlq_id']}").expect(200)

    def letters(self):
        return self.server.get("/api/v1/dlq?limit=1000").expect(200)


def facts(failure):
    """What a failed attempt is judged by."""
    return failure["class"], failure.get("http_status") or 0, failure.get("side_effects", "unsaid")


def secrets_on_disk(data, *secrets):
    """Which of these texts stand in a file below a directory."""
    found = [path.read_bytes() for path in data.rglob("*") if path.is_file()]
    return [secret for secret in secrets if any(secret.encode() in content or json.dumps(secret).encode() in content for content in found)]
