"""The examples of docs/api.md, word for word: they are run in order and what they print is compared.

What differs from run to run (ids, times, hashes, tokens, the port) is matched by its shape.  One shell's variables and
directory are kept from command to command.
"""

import os
import pathlib
import re
import subprocess

from conftest import PATIENCE, PROGRAM, ROOT, wait_until

GUIDE = ROOT / "docs/api.md"
ADDRESS = "127.0.0.1:8700"  # of the guide's server
SHAPES = [
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z",
    r"[0-9a-f]{64}",
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    r"[0-9a-f]{8}-[0-9a-f]+(?=\n|$)",  # a request's id
    r"lzt_[A-Za-z0-9_-]+",
]


def steps():
    """(command, what it prints) of each example, in the order of the guide."""
    for block in re.findall(r"```console\n(.*?)```", GUIDE.read_text(), re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            lines = part.rstrip("\n").split("\n")
            count = 1
            while count < len(lines) and lines[count].startswith("> "):
                count += 1
            yield "\n".join([lines[0], *(line[2:] for line in lines[1:count])]), "\n".join(lines[count:])


def pattern(text):
    """A regular expression for what the guide shows."""
    made, at = "", 0
    for match in re.finditer("|".join(f"(?:{shape})" for shape in SHAPES), text):
        shape = next(shape for shape in SHAPES if re.compile(shape).match(text, match.start()))
        made += re.escape(text[at:match.start()]) + shape
        at = match.end()
    return made + re.escape(text[at:])


class Shell:
    """Runs commands one after the other in one directory, with the variables that were set before."""

    def __init__(self, folder, env):
        self.folder, self.env = folder, env
        self.variables = folder / "variables"
        self.variables.write_text("")

    def run(self, command):
        script = f". {self.variables}\n{command}\nstatus=$?; declare -p > {self.variables}.all; exit $status"
        with open(self.folder / "shown", "w+b") as shown:
            done = subprocess.run(["bash", "-c", script], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=shown,
                                  stderr=subprocess.STDOUT, timeout=PATIENCE)
            assert done.returncode == 0, command
            shown.seek(0)
            text = shown.read().decode()
        kept = re.findall(r'^declare -[-x]+ ([A-Z]+=".*")$', (self.folder / "variables.all").read_text(), re.M)
        self.variables.write_text("".join(f"export {line}\n" for line in kept if line.split("=")[0] not in self.env))
        return text.rstrip("\n")

    def values(self):
        return dict(re.findall(r'^export (\w+)="(.*)"$', self.variables.read_text(), re.M))


def wait_for_tokens(server, shell):
    """A server looks at the token file about once a second."""
    for value in shell.values().values():
        if value.startswith("lzt_"):
            wait_until(lambda: server.get("/api/v1/status", token=value).status == 200, "a known token")
    wait_until(lambda: server.get("/api/v1/status", token=None).status == 401, "the end of free access")


def test_the_guide_is_word_for_word(serve, tmp_path):
    server = serve(data=tmp_path / "station", start=False)
    env = {**server.env, "PATH": f"{pathlib.Path(PROGRAM).resolve().parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    shell, ran = Shell(tmp_path, env), 0
    for command, expected in steps():
        if command == "lazaret serve --data station &":
            server.start()
            shown = server.output[0]
        else:
            address = server.url.removeprefix("http://")
            shown = shell.run(command.replace(ADDRESS, address))
            if "token create" in command:
                wait_for_tokens(server, shell)
        shown = shown.replace(server.url.removeprefix("http://"), ADDRESS)
        assert re.fullmatch(pattern(expected), shown), f"$ {command}\nthe guide:\n{expected}\nthe server:\n{shown}"
        ran += 1
    assert ran > 30
