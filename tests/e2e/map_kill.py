#!/usr/bin/python3
"""Kills a map run at random moments, goes on with it until it is done, and looks at what became of each item.

    map_kill.py [--kills N] [--seed S]           LAZARET_BIN names the program (default build/lazaret)

The command writes to a log when it begins and when it ends, and fails for some items always, for some the first time.
SIGKILL comes up to 300 ms after the runner has started, or after it has got somewhere.  When a run has come to its end:

    each item           is done, or in the quarantine, and not both; nothing else is left of the run
    each run of the     is in the item's history under its number, with the outcome that the log says; or the
      command             history says that it was cut off
    an item that is     succeeded once; one in the quarantine failed as often as its policy allows (from the
      done                eleventh time in a row on, being cut off counts), and its letter has the whole history

and the audit chain must verify.  Then another run begins, in a fresh directory.
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
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("LAZARET_BIN") or str(ROOT / "build/lazaret")
ITEMS = 200
RUNS_MAX = 3  # of an item
PATIENCE = 120
POLICY = {"max_attempts": RUNS_MAX, "backoff_strategy": "fixed", "initial_delay_seconds": 0.02, "jitter": False}
# $1 is the item's id, $2 how it behaves, $3 how long it takes.
COMMAND = """echo "begin $1 $LAZARET_ATTEMPT" >> log
sleep "$3"
code=0
case $2 in
always) code=7 ;;
once) test -e "failed.$1" || code=3; : > "failed.$1" ;;
esac
echo "end $1 $LAZARET_ATTEMPT $code" >> log
exit $code"""


class Wrong(Exception):
    """What is found at the end is not what happened."""


class Place:
    """One run, from its beginning through all its kills to its end."""

    def __init__(self, rng, counts):
        self.rng, self.counts = rng, counts
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lazaret-map-kill-"))
        self.data = self.folder / "data"
        items = [{"id": f"item {n}", "kind": rng.choice(["fine", "fine", "fine", "once", "always"]), "nap": f"{rng.random() * 0.02:.4f}"} for n in range(ITEMS)]
        (self.folder / "items.json").write_text(json.dumps(items))
        self.items = {item["id"]: item for item in items}
        subprocess.run([PROGRAM, "policy", "set", "quick", "-", "--data", self.data], input=json.dumps(POLICY), text=True, check=True,
                       stdout=subprocess.DEVNULL, timeout=PATIENCE)

    def close(self):
        errors = (self.folder / "stderr").read_text(errors="replace") if (self.folder / "stderr").exists() else ""
        shutil.rmtree(self.folder)
        if "Sanitizer" in errors or "runtime error" in errors:
            raise Wrong(errors)

    def log(self):
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def start(self):
        """Begins the run, or goes on with it when it is known."""
        if (self.data / "runs/r.json").exists():
            args = ["--resume"]
        else:
            args = ["--input", "items.json", "--id-field", "id", "--policy", "quick", "--parallel", "8", "--", "sh", "-c", COMMAND, "sh", "{id}", "{kind}", "{nap}"]
        with open(self.folder / "stderr", "ab") as errors:
            return subprocess.Popen([PROGRAM, "map", "--data", str(self.data), "--job-id", "r", "-o", "json", *args], cwd=self.folder,
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)

    def live(self, killed):
        """Lets the runner live for a while, or to its end; True: it has come to its end."""
        process = self.start()
        try:
            if killed and self.rng.random() < 0.7:
                before, deadline = len(self.log()), time.monotonic() + PATIENCE
                while process.poll() is None and len(self.log()) == before:
                    assert time.monotonic() < deadline, "nothing is run"
                    time.sleep(0.001)
            if killed:
                try:
                    process.wait(self.rng.random() * 0.3)
                except subprocess.TimeoutExpired:
                    return False
            if process.wait(PATIENCE) != 0:
                raise Wrong(f"the runner ended with {process.returncode}: {(self.folder / 'stderr').read_text(errors='replace')}")
            return True
        finally:
            process.kill()
            process.wait()

    # ---- what is there at the end -------------------------------------------------------------------------------

    def look(self):
        """Compares the store with the log."""
        server = subprocess.Popen([PROGRAM, "serve", "--data", str(self.data), "--listen", "127.0.0.1:0"], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            port = int(re.match(r"lazaret: ready on http://127\.0\.0\.1:(\d+)", server.stdout.readline()).group(1))
            self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            letters = collections.defaultdict(list)
            for letter in self.ask("/api/v1/dlq?limit=1000"):
                letters[letter["item_id"]].append(letter)
            left = self.ask("/api/v1/runs/r")
            if left["pending"] + left["scheduled"] + left["running"]:
                raise Wrong(f"something is left: {left}")
            ran = self.ran()
            for name in self.items:
                self.look_at(name, ran[name], letters.pop(name, []))
            if letters:
                raise Wrong(f"letters of nobody: {list(letters)}")
            self.connection.close()
        finally:
            server.terminate()
            server.wait(PATIENCE)
            server.stdout.close()
        verified = subprocess.run([PROGRAM, "audit", "verify", "--data", self.data], capture_output=True, text=True, timeout=PATIENCE)
        if verified.returncode != 0:
            raise Wrong(verified.stdout + verified.stderr)
        self.counts.update(runs=1, items=ITEMS, commands=sum(line.startswith("end") for line in self.log()))

    def ask(self, path):
        self.connection.request("GET", path)
        answer = self.connection.getresponse()
        said = json.loads(answer.read())
        if answer.status != 200:
            raise Wrong(f"{path}: {answer.status} {said}")
        return said

    def ran(self):
        """For each item: {attempt: exit code, or None when it did not come to its end}."""
        ran = {name: {} for name in self.items}
        for line in self.log():
            what, name, attempt, code = re.match(r"(begin|end) (item \d+) (\d+) ?(\d*)$", line).groups()
            attempts, attempt = ran[name], int(attempt)
            if (what == "begin") == (attempt in attempts):
                raise Wrong(f"{name}: {line!r}, after {attempts}")
            attempts[attempt] = int(code) if code else None
        return ran

    def look_at(self, name, ran, letters):
        """Compares one item."""
        job = self.ask("/api/v1/jobs/" + urllib.parse.quote(f"r/{name}", safe=""))
        kind, state = self.items[name]["kind"], job["state"]
        said = f"{name} ({kind}), which ran as {ran}, is {state}, with {job['attempts']}"
        if [attempt["attempt_number"] for attempt in job["attempts"]] != list(range(1, len(job["attempts"]) + 1)):
            raise Wrong(f"a gap: {said}")
        outcomes = {attempt["attempt_number"]: outcome(attempt) for attempt in job["attempts"]}
        counted = [outcome(attempt) for attempt in job["attempts"] if attempt["decision"]["rule"] != "interrupted"]
        fair = kind == "always" or "cut off" in counted
        if state == "done":
            outcomes.setdefault(job["attempt"], 0)
            if kind == "always" or len(counted) >= RUNS_MAX or list(outcomes.values()).count(0) != 1:
                raise Wrong(f"it should have failed: {said}")
        elif state != "dead" or len(counted) != RUNS_MAX or not fair:
            raise Wrong(f"it should be done: {said}")
        for attempt, code in ran.items():
            if outcomes.get(attempt) != code and outcomes.get(attempt) != "cut off":
                raise Wrong(f"attempt {attempt}: {said}")
        for attempt, code in outcomes.items():
            if code != "cut off" and ran.get(attempt) != code:
                raise Wrong(f"attempt {attempt} was not run: {said}")
        if state == "done" and letters:
            raise Wrong(f"it has a letter too: {said}")
        if state == "dead" and ([letter["state"] for letter in letters] != ["dead"] or
                                [outcome(entry) for entry in letters[0]["failure_history"]] != list(outcomes.values())):
            raise Wrong(f"its letters are {letters}: {said}")
        self.counts.update(cut_off=list(outcomes.values()).count("cut off"), done=state == "done", quarantined=state == "dead")


def outcome(attempt):
    """The exit code that the history has, or "cut off"."""
    if attempt.get("interrupted"):
        return "cut off"
    return attempt["error_type"]["CommandFailed"]["exit_code"] if isinstance(attempt["error_type"], dict) else attempt["error_type"]


def run(kills, seed, say=print):
    """Kills `kills` times, in as many runs as that takes; returns the counts."""
    rng = random.Random(seed)
    counts = collections.Counter()
    while counts["kills"] < kills:
        place = Place(rng, counts)
        try:
            ended = False
            while not ended:
                killed = counts["kills"] < kills
                ended = place.live(killed)
                counts["kills"] += not ended
            place.look()
        finally:
            place.close()
        say(f"{counts['kills']} kills: {counts['runs']} runs of {ITEMS} items, as they should be")
    return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args()
    try:
        counts = run(args.kills, args.seed, lambda line: None)
    except Wrong as wrong:
        print(f"map_kill: seed {args.seed}: {wrong}")
        return 1
    print(f"map_kill: kills {counts['kills']}, runs {counts['runs']}, items {counts['items']}, commands that ended {counts['commands']}, "
          f"cut off {counts['cut_off']}, done {counts['done']}, quarantined {counts['quarantined']}, lost 0, seed {args.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
