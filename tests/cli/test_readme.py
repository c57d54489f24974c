"""The walk-through of the README and of docs/receipts.md, word for word: commands are run and what they print is compared.

What differs from run to run (ids, times, durations, the head of the chain) is matched by its shape; an id that the README
shows is bound to the one that the program shows in its place, and stands for it in later commands.

Receipts go to an endpoint, 127.0.0.1:9000 in the text.  It does what a comment above the commands says, and answers 200
where there is none.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pexpect
from conftest import PROGRAM

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from endpoint import Endpoint, answer, rpc_error

ROOT = pathlib.Path(__file__).resolve().parents[2]
VARIES = [
    (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", r"\\d{4}-\\d\\d-\\d\\dT[0-9:.]+Z"),
    (r"\b[0-9a-f]{64}\b", "[0-9a-f]{64}"),
    (r"\b01[0-9a-f]{6}[0-9a-f-]*", "(01[0-9a-f]{6}[0-9a-f-]*)"),
    (r"\b\d+-[0-9a-f]{16}\b", "(\\\\d+-[0-9a-f]{16})"),
    (r"tasks-\d+", r"tasks-\\d+"),
    (r"\bin [0-9.]+ s \([0-9.k]+/s\)", r"in [0-9.]+ s \\([0-9.k]+/s\\)"),
    (r"\bnext in [0-9.]+m?s\b", r"next in [0-9.]+m?s"),
    (r"\bin \d+ ms\b", r"in \\d+ ms"),
    (r"\b\d+s\b", r"\\d+s"),
    (r"\b\d+ events\b", r"\\d+ events"),
    (r"\|[ █]+\|", r"\\|[ █]+\\|"),
]
BOUND = VARIES[2][0] + "|" + VARIES[3][0]
ENDPOINT = "127.0.0.1:9000"
SERVER = "127.0.0.1:8700"


def steps(name="README.md"):
    """(command, expected lines) of each step of a walk-through, and (None, script) where the endpoint gets another one."""
    for script, block in re.findall(r"(?:<!-- endpoint: (.*?) -->\n)?```console\n(.*?)```", (ROOT / name).read_text(), re.S):
        if script:
            yield None, script
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            yield command, [line.rstrip() for line in output.rstrip("\n").split("\n")]


def pattern(line):
    """A regular expression for a line of the README."""
    spans, text = [], line
    for shape, _ in VARIES:
        text = re.sub(shape, lambda match: spans.append(match.group(0)) or f"\0{len(spans) - 1}\0", text)
    made = re.sub(r"(\\ | )+", r"\\s+", re.escape(text).replace("\\\0", "\0"))
    for number, span in enumerate(spans):
        shape = next(good for bad, good in VARIES if re.fullmatch(bad, span))
        made = made.replace(f"\0{number}\0", shape.replace("\\\\", "\\"))
    return made


def compare(expected, shown, ids):
    for number, line in enumerate(expected):
        assert number < len(shown), f"missing: {line}"
        match = re.fullmatch(pattern(line), shown[number].rstrip())
        assert match, f"README: {line}\nprogram: {shown[number]}"
        ids.update(zip(re.findall(BOUND, line), match.groups()))


def serve(data):
    """Starts the server; its process and its address."""
    process = subprocess.Popen([PROGRAM, "serve", "--data", str(data), "--listen", "127.0.0.1:0"],
                               stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().rsplit(" ", 1)[1].strip()


def play(endpoint, script):
    """Has the endpoint follow a script: "down", or answers with commas between: 200; 422 TEXT; 429 Retry-After N; mcp CODE."""
    endpoint.down()
    made = []
    for step in [] if script == "down" else script.split(", "):
        status, _, rest = step.partition(" ")
        if status == "mcp":
            made.append(rpc_error(rest, "the lease is over"))
        elif rest.startswith("Retry-After"):
            made.append(answer(int(status), headers={"Retry-After": rest.split()[1]}))
        else:
            made.append(answer(int(status), rest, type="text/plain"))
    if made:
        endpoint.script(*made)
        endpoint.up()


def shell(command, env, where):
    """What a command shows on a terminal; lines that it took back again are left out."""
    child = pexpect.spawn("/bin/bash", ["-c", command], env=env, cwd=str(where), dimensions=(60, 110), timeout=120)
    return re.sub(r"[^\n]*\r\x1b\[K", "", child.read().decode()).replace("\r", "").rstrip("\n").split("\n")


def walk(env, where, endpoint):
    """Runs every step; returns how many there were and the server, if one was started."""
    ids, ran, server = {}, 0, None
    for command, expected in steps():
        if command is None:
            play(endpoint, expected)
            continue
        if command.startswith("export ") and "LAZARET_URL=" in command:
            server, env["LAZARET_URL"] = serve(where / "served")
        if command.startswith("export "):
            continue
        if command == "make example":
            command = f"scripts/run-example build {where / 'example'}"
            expected = [line.replace("build/example", str(where / "example")) for line in expected]
        for old, new in sorted(ids.items(), key=lambda pair: -len(pair[0])):
            command = command.replace(old, new)
        shown = shell(command.replace(ENDPOINT, endpoint.address), env, where)
        compare(expected, [line.replace(endpoint.address, ENDPOINT) for line in shown], ids)
        ran += 1
    return ran, server


def test_the_walk_through_is_word_for_word(tmp_path):
    build = pathlib.Path(os.environ["LAZARET_BUILD"]).resolve()
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    (tmp_path / "build").symlink_to(build)
    env = dict(os.environ, NO_COLOR="1", TERM="xterm", LAZARET_DATA=str(tmp_path / "example"),
               PATH=f"{pathlib.Path(PROGRAM).resolve().parent}:{os.environ['PATH']}")
    with Endpoint() as endpoint:
        ran, server = walk(env, tmp_path, endpoint)
    server.terminate()
    assert server.wait(timeout=60) == 0
    assert ran >= 12


# ---- the guide to receipts -----------------------------------------------------------------------------------------


class Guide:
    """docs/receipts.md, as somebody who types what stands there."""

    def __init__(self, folder, endpoint):
        self.folder, self.endpoint, self.server = folder, endpoint, None
        self.text = (ROOT / "docs/receipts.md").read_text()
        self.env = dict(os.environ, NO_COLOR="1", TERM="xterm",
                        PATH=f"{pathlib.Path(PROGRAM).resolve().parent}:{os.environ['PATH']}")
        self.names = {ENDPOINT: endpoint.address, "STATION": str(folder / "station")}

    def block(self, kind):
        """The one block of a kind."""
        return re.search(rf"```{kind}\n(.*?)```", self.text, re.S)[1]

    def real(self, text):
        for name, value in self.names.items():
            text = text.replace(name, value)
        return text

    def serve(self):
        (self.folder / "lazaret.yml").write_text(self.real(self.block("yaml")))
        self.server = subprocess.Popen([PROGRAM, "serve", "--config", "lazaret.yml", "--listen", "127.0.0.1:0"], cwd=self.folder,
                                       env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ready = self.server.stdout.readline()
        self.names[SERVER] = ready.rsplit("/", 1)[1].strip()
        self.env["L"] = f"http://{self.names[SERVER]}/api/v1"
        return [ready.rstrip()]

    def end(self):
        """Ends the server, and returns what it has said on standard error."""
        if not self.server:
            return ""
        self.server.send_signal(signal.SIGTERM)
        return self.server.communicate(timeout=60)[1]

    def run(self, command):
        """What the guide's command shows."""
        if command.startswith("export "):
            self.env.update(LAZARET_DATA=str(self.folder / "station"), ASYNCGATE_TOKEN="secret")
            return [""]
        if command.startswith("lazaret serve"):
            return self.serve()
        if command.startswith("lazaret dlq list") or "/metrics" in command:
            self.settle()
        shown = shell(self.real(command), self.env, self.folder)
        return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in shown] if "jq" in command else shown

    def settle(self):
        """Waits until every delivery has come to its end."""
        waiting = "until curl -s $L/status | jq -e '.live == 0' > settled; do sleep 0.02; done"
        shell(waiting, self.env, self.folder)


def follow(guide):
    """Runs the guide, and returns how many commands that were."""
    ids, ran = {}, 0
    for command, expected in steps("docs/receipts.md"):
        if command is None:
            play(guide.endpoint, expected)
            continue
        shown = guide.run(command)
        compare([guide.real(line) for line in expected], shown, ids)
        ran += 1
    return ran


def check_signature(guide):
    """What the guide says about verifying holds for what came last."""
    signed, names = guide.endpoint.requests[-1], {}
    exec(guide.block("python"), names)
    secret = (guide.folder / "hooks.secret").read_text().strip()
    assert signed.headers["x-team"] == "billing"
    assert names["verify"](secret, signed.headers, signed.body)
    assert not names["verify"](secret, signed.headers, signed.body + b" ")


def test_the_guide_to_receipts_is_word_for_word(tmp_path):
    with Endpoint() as endpoint:
        guide = Guide(tmp_path, endpoint)
        try:
            ran = follow(guide)
        finally:
            said = guide.end()
        check_signature(guide)
    assert guide.server.returncode == 0 and "Sanitizer" not in said, said
    assert ran >= 20
