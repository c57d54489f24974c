"""map --worktree: each item in a git worktree and branch of its own, merged back when it succeeded."""

import os
import subprocess

import pytest
from conftest import own_only
from map_runs import PATIENCE, maps, sh, until

# Of nobody's configuration but ours.
GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org",
       "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org"}
COMMIT = 'git add -A && git commit -q -m "item $1"'


@pytest.fixture
def repo(maps):
    """A repository with one commit, in which the runs are begun."""
    maps.lz.base.update(GIT)
    git(maps, "init", "-q", "-b", "main")
    maps.write("shared.txt", "first\n")
    maps.write(".gitignore", "items.*\nlog\nout.*\nerr.*\ngo*\nok\n")
    git(maps, "add", "-A")
    git(maps, "commit", "-q", "-m", "begin")
    return maps


def git(maps, *args):
    return subprocess.run(["git", *args], cwd=maps.folder, env=maps.lz.base, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout


def worktrees(maps):
    return [line.split()[1] for line in git(maps, "worktree", "list", "--porcelain").splitlines() if line.startswith("worktree ")][1:]


def branches(maps):
    return [line.strip("*+ ") for line in git(maps, "branch").splitlines() if line.strip("*+ ") != "main"]


def clean(maps):
    """The repository is as git left it: nothing changed, nothing half merged."""
    assert git(maps, "status", "--porcelain") == ""
    assert not (maps.folder / ".git/MERGE_HEAD").exists()
    git(maps, "fsck", "--strict")


def test_each_item_works_in_its_own_place_and_is_merged_when_it_succeeded(repo):
    events = repo.map("--input", repo.lines("a", "b", "c"), "--worktree", "--parallel", "3", *sh(f'pwd >> "$LOG"; echo "$1" > "$1.txt"; {COMMIT}'))
    assert events[-1]["done"] == 3 and len(set(repo.log())) == 3 and str(repo.folder) not in repo.log()
    assert [(repo.folder / f"{name}.txt").read_text() for name in "abc"] == ["a\n", "b\n", "c\n"]
    assert "item a" in git(repo, "log", "--format=%s")
    assert worktrees(repo) == [] and branches(repo) == []
    clean(repo)


def test_changes_that_were_not_committed_are_committed_and_merged_too(repo):
    events = repo.map("--input", repo.lines("a"), "--job-id", "r", "--retry", "1", "--worktree", *sh('echo "$1" > "$1.txt"'))
    assert events[-1]["done"] == 1 and (repo.folder / "a.txt").read_text() == "a\n"
    assert worktrees(repo) == [] and branches(repo) == []
    clean(repo)


def test_a_conflict_is_its_own_kind_and_the_merge_is_undone(repo):
    script = f'echo "$1" > shared.txt; echo done >&2; {COMMIT}'
    events = repo.map("--input", repo.lines("a", "b"), "--job-id", "r", "--retry", "1", "--worktree", "--parallel", "2",
                      *sh('echo "$1" >> "$LOG"; until test "$(wc -l < "$LOG")" = 2; do sleep 0.02; done; ' + script))
    assert (events[-1]["done"], events[-1]["quarantined"]) == (1, 1)
    letter = repo.letter()
    failure = letter["failure_history"][0]
    assert failure["error_type"] == "MergeConflict" and "shared.txt" in failure["error_message"]
    lost, won = letter["item_data"], {"a": "b", "b": "a"}[letter["item_data"]]
    assert (repo.folder / "shared.txt").read_text() == f"{won}\n"
    clean(repo)
    kept = letter["worktree_artifacts"]
    assert set(kept) >= {"worktree_path", "branch_name", "uncommitted_changes", "error_logs"}
    assert open(os.path.join(kept["worktree_path"], "shared.txt")).read() == f"{lost}\n"
    assert worktrees(repo) == [kept["worktree_path"]] and branches(repo) == [kept["branch_name"]]


def test_a_failed_item_keeps_its_worktree_and_what_was_in_it(repo):
    repo.map("--input", repo.lines("good", "bad"), "--job-id", "r", "--retry", "1", "--worktree",
             *sh(f'echo "$1" > new.txt; test "$1" = good || {{ echo "half done" >&2; exit 3; }}; {COMMIT}'))
    kept = repo.letter()["worktree_artifacts"]
    assert "new.txt" in str(kept["uncommitted_changes"]) and "half done" in str(kept["error_logs"])
    assert open(os.path.join(kept["worktree_path"], "new.txt")).read() == "bad\n"
    assert worktrees(repo) == [kept["worktree_path"]] and branches(repo) == [kept["branch_name"]]
    assert (repo.folder / "new.txt").read_text() == "good\n"
    clean(repo)


def test_an_item_is_run_again_in_the_worktree_it_left_and_then_nothing_is_left(repo):
    repo.map("--input", repo.lines("a"), "--job-id", "r", "--retry", "1", "--worktree", *sh(f'pwd >> "$LOG"; ls >> "$LOG"; echo more >> notes; test -e "{repo.folder}/ok" || exit 1; {COMMIT}'))
    assert len(worktrees(repo)) == 1
    repo.write("ok", "")
    repo.retry("r")
    places = [line for line in repo.log() if line.startswith("/")]
    assert len(places) == 2 and places[0] == places[1] and "notes" in repo.log()
    assert (repo.folder / "notes").read_text() == "more\nmore\n"
    assert worktrees(repo) == [] and branches(repo) == [] and repo.letter()["state"] == "recovered"
    clean(repo)


def test_a_commit_that_is_required_and_missing_is_its_own_kind(repo):
    events = repo.map("--input", repo.lines("with", "without"), "--job-id", "r", "--retry", "1", "--worktree", "--commit-required",
                      *sh(f'echo x > "$1.txt"; test "$1" = without || {{ {COMMIT}; }}'))
    assert (events[-1]["done"], events[-1]["quarantined"]) == (1, 1)
    letter = repo.letter()
    assert letter["item_data"] == "without" and letter["failure_history"][0]["error_type"] == "CommitValidationFailed"
    assert "without.txt" in str(letter["worktree_artifacts"]["uncommitted_changes"])
    assert (repo.folder / "with.txt").exists() and not (repo.folder / "without.txt").exists()


def test_a_run_that_is_killed_goes_on_in_its_worktrees(repo):
    run = repo.start("--input", repo.lines("a", "b", "c"), "--job-id", "r", "--worktree", "--parallel", "2",
                     *sh(f'echo "$1" > "$1.txt"; echo "begin $1" >> "$LOG"; test -e "{repo.folder}/go" || exec sleep 600; {COMMIT}'))
    until(lambda: len(repo.log()) == 2)
    run.signal(9)
    run.process.wait(PATIENCE)
    repo.write("go", "")
    events = repo.map("--resume", "--job-id", "r")
    assert events[-1]["done"] == 3
    assert [(repo.folder / f"{name}.txt").read_text() for name in "abc"] == ["a\n", "b\n", "c\n"]
    assert worktrees(repo) == [] and branches(repo) == []
    clean(repo)


def test_awkward_items_have_worktrees_too(repo):
    names = ["../../x", "-rf", "a b", "$(touch gone)", "HEAD", ".lock", "a..b", "é~^:?*["]
    repo.json([{"id": name} for name in names])
    events = repo.map("--input", "items.json", "--id-field", "id", "--job-id", "../r", "--worktree", "--parallel", "1",
                      *sh(f'echo "$1" >> all.txt; {COMMIT}', "{id}"))
    assert events[-1]["done"] == len(names), events
    assert sorted((repo.folder / "all.txt").read_text().splitlines()) == sorted(names)
    assert worktrees(repo) == [] and branches(repo) == []


@own_only
def test_a_directory_that_is_no_repository_is_told_before_anything_is_run(maps):
    maps.lines("a")
    err = maps.refused("--input", "items.txt", "--worktree", *sh('echo >> "$LOG"'), env=GIT)
    assert "repository" in err and maps.log() == []
