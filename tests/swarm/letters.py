"""Letters as the swarm's programs publish them, and what becomes of them at a server."""

import datetime
import json
import uuid

from natsclient import NatsError
from station import wait_until

DLQ = "/api/v1/dlq"
SUBJECT = "swarm.task.request"
STREAM = "TASKS"  # what is brought back ends up there, in the tests that want to count it

# The table of the seed.
SUBJECTS = {
    "no_capable_agent": "dlq.task.unassignable",
    "all_agents_unavailable": "dlq.task.no_available_agent",
    "policy_denied": "dlq.task.policy_denied",
    "timeout_assigned": "dlq.task.assignment_timeout",
    "timeout_in_progress": "dlq.task.execution_timeout",
    "agent_crashed": "dlq.task.agent_crashed",
    "boot_failure": "dlq.agent.boot_failure",
    "pull_failure": "dlq.agent.pull_failure",
    "crash_loop": "dlq.agent.crash_loop",
}


def ago(**span):
    return (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(**span)).isoformat().replace("+00:00", "Z")


def new_id():
    return str(uuid.uuid4())


def source(reason):
    return "warren" if SUBJECTS[reason].startswith("dlq.agent.") else "dispatch"


def entry(dlq_id, payload=None, reason="no_capable_agent", subject=SUBJECT, **more):
    """A letter's fields."""
    return {"dlq_id": dlq_id, "original_subject": subject, "original_payload": payload if payload is not None else {"id": dlq_id},
            "reason": reason, "reason_detail": "No agent with capabilities [research]", "failed_at": ago(seconds=1), "retry_count": 3, "max_retries": 3,
            "retry_history": [{"attempt": 1, "attempted_at": ago(minutes=2), "agent": "scout", "failure_reason": "no answer"}],
            "source": source(reason), "recoverable": True, "recovered": False, **more}


def message(dlq_id, raw=None, reason="no_capable_agent", **more):
    """A letter as it is published: (subject, bytes).  `raw` is the payload's own text."""
    text = json.dumps(entry(dlq_id, "@payload@" if raw is not None else None, reason, **more))
    data = text.encode()
    if raw is not None:
        data = data.replace(b'"@payload@"', raw)
    return SUBJECTS[reason], data


def publish(nats_client, *messages):
    nats_client.js_publish_all(list(messages))


def count(server, **more):
    """How many letters there are, and what the statistics say."""
    return server.get(DLQ + "/stats").expect(200)["total"]


def wait_for(server, total):
    """Waits until so many letters are there."""
    wait_until(lambda: count(server) >= total, f"{total} letters are there")
    assert count(server) == total


def everything(server, query=""):
    """All letters, page by page, by their ids; one that is listed twice is an error."""
    found, cursor = {}, ""
    while cursor is not None:
        answer = server.get(f"{DLQ}?limit=1000{query}" + (f"&cursor={cursor}" if cursor else ""))
        for letter in answer.expect(200):
            assert letter["dlq_id"] not in found, f"{letter['dlq_id']} is there twice"
            found[letter["dlq_id"]] = letter
        cursor = answer.cursor
    return found


def letter(server, dlq_id):
    return server.get(f"{DLQ}/{dlq_id}").expect(200)


def wait_for_stream(nats):
    """Waits until a server has made the stream and its consumer: it is ready before."""

    def made():
        try:
            return client.consumer_info("DLQ", "lazaret-DLQ")
        except NatsError:
            return None

    with nats.client() as client:
        wait_until(made, "the stream is made")


def ingested(nats_client):
    """The sequence number up to which everything in the stream was acknowledged."""
    return nats_client.consumer_info("DLQ", "lazaret-DLQ")["ack_floor"]["stream_seq"]
