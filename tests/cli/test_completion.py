"""Completion scripts and the man page come from the table of commands."""

import re
import shutil
import subprocess

import pytest


def commands(lz):
    """Every command of two words or one, from the help."""
    def leaves(text):
        return re.findall(r"^  (\S+)  ", text.split("Commands\n")[1].split("\n\n")[0], re.M)
    top = leaves(lz.ok("help"))
    groups = {name: leaves(lz.ok("help", name)) for name in ["dlq", "policy", "audit", "token"]}
    return [[name] for name in top if name not in groups] + [[g, c] for g in groups for c in groups[g]]


def flags(lz, command):
    return set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", lz.ok(*command, "--help"), re.M))


def complete(lz, tmp_path, *words):
    """What bash offers for the last of the words."""
    script = tmp_path / "lazaret.bash"
    script.write_text(lz.ok("completion", "bash"))
    quoted = " ".join(f"'{w}'" for w in words)
    run = f"source '{script}'; COMP_WORDS=(lazaret {quoted}); COMP_CWORD={len(words)}; _lazaret 2>/dev/null; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", run], capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr == ""
    return [word for word in done.stdout.splitlines() if word]


@pytest.mark.parametrize("shell, check", [("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]),
                                          ("fish", ["fish", "--no-execute"])])
def test_a_script_is_syntactically_right(lz, tmp_path, shell, check):
    if not shutil.which(check[0]):
        pytest.skip(f"no {shell} here")
    (tmp_path / "script").write_text(lz.ok("completion", shell))
    subprocess.run([*check, tmp_path / "script"], check=True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_knows_every_command_and_flag(lz, shell):
    script = lz.ok("completion", shell)
    for command in commands(lz):
        assert " ".join(command) in script
        for flag in flags(lz, command):
            assert (flag if shell != "fish" else f"-l {flag[2:]} ") in script


def test_bash_completes_commands_flags_and_values(lz, tmp_path):
    assert "status" in complete(lz, tmp_path, "st")
    assert complete(lz, tmp_path, "dlq", "re") == ["retry", "restore", "recover"]
    assert complete(lz, tmp_path, "--data", "dlq", "dlq", "gr") == ["groups"]
    assert complete(lz, tmp_path, "dlq", "list", "--elig") == ["--eligible"]
    assert complete(lz, tmp_path, "dlq", "show", "--elig") == []
    assert complete(lz, tmp_path, "dlq", "list", "--state", "rec") == ["recovering", "recovered"]
    assert complete(lz, tmp_path, "dlq", "list", "--state", "=", "rec") == ["recovering", "recovered"]
    assert complete(lz, tmp_path, "policy", "explain", "gov") == ["governed"]
    assert complete(lz, tmp_path, "completion", "f") == ["fish"]
    assert complete(lz, tmp_path, "dlq", "list", "--queue", "d") == []
    (tmp_path / "letters.json").write_text("")
    assert complete(lz, tmp_path, "dlq", "import", "let") == ["letters.json"]
    assert complete(lz, tmp_path, "dlq", "retry", "--patch", "let") == ["letters.json"]


def test_the_man_page_lints_and_has_every_command_and_flag(lz, tmp_path):
    page = tmp_path / "lazaret.1"
    page.write_text(lz.ok("man"))
    if shutil.which("mandoc"):
        assert subprocess.run(["mandoc", "-T", "lint", page], capture_output=True, text=True).stdout == ""
    if shutil.which("groff"):
        assert subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", page], capture_output=True, text=True).stderr == ""
    text = page.read_text().replace("\\-", "-")
    for command in commands(lz):
        assert f'.SS "lazaret {" ".join(command)}' in text
        for flag in flags(lz, command):
            assert f"\\fB{flag}\\fR" in text


def test_every_command_explains_itself_with_an_example(lz):
    for command in commands(lz):
        shown = lz.ok(*command, "--help")
        assert f"lazaret {' '.join(command)}: " in shown and "Examples" in shown
        assert shown == lz.ok("help", *command)
        assert max(map(len, shown.split("\nExamples")[0].splitlines())) <= 80


def test_an_example_of_a_flag_names_flags_that_exist(lz):
    for command in commands(lz):
        shown = lz.ok(*command, "--help")
        for line in shown.split("Examples")[1].splitlines():
            if line.strip().startswith("lazaret " + " ".join(command)):
                assert set(re.findall(r" (--[a-z-]+)", line.split(" && ")[0])) <= flags(lz, command), line


def test_a_flag_takes_a_value_everywhere_or_nowhere(lz):
    kinds = {}
    for command in commands(lz):
        for flag, value in re.findall(r"^  (?:-\w, )?(--[a-z-]+)( \S+)?", lz.ok(*command, "--help"), re.M):
            kinds.setdefault(flag, set()).add(bool(value.strip()))
    assert {flag for flag, kind in kinds.items() if len(kind) > 1} == set()


def test_commands_of_later_times_are_not_there(lz):
    for name in ["redrive", "bench"]:
        assert "no command" in lz.fails(2, name)
