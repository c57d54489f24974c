#!/usr/bin/python3
"""example_publish.py PROGRAM LAZARET: the worked example publishes its letter, and says what its own comment promises."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "swarm"))

from parts import Nats  # noqa: E402


def main():
    program, lazaret = sys.argv[1:]
    nats = Nats()
    try:
        client = nats.client()
        failed = subprocess.run([program, nats.url], capture_output=True, text=True, timeout=60)
        assert failed.returncode == 1 and "no stream of NATS" in failed.stderr, failed
        client.stream_create("DLQ", ["dlq.>"])
        done = subprocess.run([program, nats.url], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, ""), done
        message = client.stream_message("DLQ", 1)
        letter = message.json
        assert done.stdout.split("\n")[-2] == f"dead: {letter['dlq_id']} on dlq.task.unassignable", done.stdout
        assert (message.subject, message.headers["Nats-Msg-Id"]) == ("dlq.task.unassignable", letter["dlq_id"])
        assert b'"original_payload":{"task_id": "t-17",  "needs": ["research"]},' in message.data, message.data
        assert [(a["attempt"], a["agent"], a["failure_reason"]) for a in letter["retry_history"]] == [
            (1, "ada", "cannot do research"), (2, "bob", "is asleep"), (3, "cleo", "cannot do research")], letter
        # A Lazaret takes what the stream has.
        data = nats.directory / "data"
        taken = subprocess.run([lazaret, "--data", data, "dlq", "import", "-"], input=message.data, capture_output=True, timeout=60)
        assert taken.returncode == 0, taken
        shown = subprocess.run([lazaret, "--data", data, "dlq", "list", "-o", "json"], capture_output=True, text=True, timeout=60)
        assert f'"dlq_id":"{letter["dlq_id"]}"' in shown.stdout, shown
    finally:
        nats.close()


main()
