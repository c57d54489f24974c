"""--config, --data and the environment."""

import pytest
from conftest import own_only

pytestmark = own_only


def config(tmp_path, text):
    path = tmp_path / "lazaret.yml"
    path.write_text(text)
    return path


def test_a_limit_on_live_jobs_refuses_new_work(lz, tmp_path):
    path = config(tmp_path, "limits:\n  live_jobs_max: 2\n")
    for _ in range(2):
        lz.ok("push", "--action", "a", "--config", path)
    assert "hint: try again" in lz.fails(4, "push", "--action", "a", "--config", path)
    lz.ok("push", "--action", "a")


def test_retention_removes_what_has_ended(lz, tmp_path):
    lz.ok("dlq", "import", "-", input=[
        {"dlq_id": "old", "original_subject": "s", "original_payload": {}, "reason": "r",
         "failed_at": "2020-01-01T00:00:00Z", "recovered": True, "recovered_at": "2020-01-02T00:00:00Z"}])
    path = config(tmp_path, '{"retention": {"recovered_days": 30}}')
    lz.ok("status", "--config", path)
    assert lz.json("dlq", "list", "--state", "all", "--config", path) == []
    assert "purged" in [event["what"] for event in lz.json("audit", "show")]


def test_json_with_tabs_is_a_config_too(lz, tmp_path):
    lz.ok("status", "--config", config(tmp_path, '{\n\t"limits": {\n\t\t"live_jobs_max": 5\n\t}\n}'))
    lz.ok("status", "--config", config(tmp_path, ""))
    lz.ok("status", "--config", config(tmp_path, "# limits:\n\n  # none\n"))
    lz.ok("status", "--config", config(tmp_path, "limits:\n"))


@pytest.mark.parametrize("text, said", [
    ("limits:\n  live_job_max: 2\n", "unknown key limits.live_job_max; did you mean limits.live_jobs_max?"),
    ("limit: 2\n", "unknown key limit; did you mean limits?"),
    ("frobnicate: 2\n", "unknown key frobnicate"),
    ("limits: 5\n", "limits: must be a mapping"),
    ("- a\n", "must be a mapping"),
    ("limits:\n  live_jobs_max: many\n", "limits.live_jobs_max: must be a whole number"),
    ("limits:\n  live_jobs_max: 1.5\n", "limits.live_jobs_max: must be a whole number"),
    ("retention:\n  done_days: -1\n", "retention.done_days: must be a number"),
    ("lock_wait_seconds: yes\n", "lock_wait_seconds: must be a number"),
    ("http:\n  body_max: 5\n", "unknown key http.body_max"),
    ("http:\n  thread: 5\n", "unknown key http.thread; did you mean http.threads?"),
    ("http: 5\n", "http: must be a mapping"),
    ("http:\n  body_max_bytes: 4MB\n", 'http.body_max_bytes: must be a whole number from 1024 to 1073741824, not "4MB"'),
    ("http:\n  body_max_bytes: 0\n", "http.body_max_bytes: must be a whole number from 1024"),
    ("http:\n  head_max_bytes: 2097152\n", "http.head_max_bytes: must be a whole number from 1024 to 1048576, not 2097152"),
    ("http:\n  connections_max: 0\n", "http.connections_max: must be a whole number from 1"),
    ("http:\n  connections_per_address: -1\n", "http.connections_per_address: must be a whole number from 0"),
    ("http:\n  head_seconds: 0\n", "http.head_seconds: must be a number from 0.01 to 86400, not 0"),
    ("http:\n  idle_seconds: soon\n", "http.idle_seconds: must be a number"),
    ("http:\n  body_grace_seconds: 1e9\n", "http.body_grace_seconds: must be a number"),
    ("http:\n  bytes_per_second_min: 1.5\n", "http.bytes_per_second_min: must be a whole number"),
    ("http:\n  threads: 0\n", "http.threads: must be a whole number from 1 to 256"),
    ("http:\n  drain_seconds: -1\n", "http.drain_seconds: must be a number"),
    ("listen: 8700\n", "listen: must be HOST:PORT, not 8700"),
    ("listen: localhost\n", "listen: must be HOST:PORT"),
    ("listen: 'localhost:'\n", "listen: must be HOST:PORT"),
    ("listen: ':8700'\n", "listen: must be HOST:PORT"),
    ("listen: localhost:65536\n", "listen: must be HOST:PORT"),
    ("listen: localhost:http\n", "listen: must be HOST:PORT"),
    ("listen: '::1:8700'\n", "listen: must be HOST:PORT"),
    ("tokens: ''\n", "tokens: must be the name of a file"),
    ("tokens: [a]\n", "tokens: must be the name of a file"),
    ('{"access_log": "a\\u0000b"}', "access_log: must be the name of a file"),
    ("access_log:\n", "access_log: must be the name of a file"),
    ("tls:\n  cert: a\n", "unknown key tls.cert"),
    ("tls:\n  certificate: 5\n  key: k\n", "tls.certificate: must be the name of a file"),
    ("tls:\n  certificate: c\n", "tls: needs both, a certificate and a key"),
    ("tls:\n  key: k\n", "tls: needs both, a certificate and a key"),
    ("redact: /inputs/card\n", "redact: must be a list of JSON pointers"),
    ("redact: [5]\n", "redact: must be a list of JSON pointers, not 5"),
    ("redact: [inputs/card]\n", "redact: "),
    ("redact: [/a, '/inputs/~2']\n", "redact: "),
    ("a: 1\na: 2\n", "lazaret.yml"),
    ("a: [\n", "lazaret.yml"),
])
def test_a_mistake_in_a_config_names_the_file_and_the_key(lz, tmp_path, text, said):
    err = lz.fails(2, "status", "--config", config(tmp_path, text))
    assert "lazaret.yml" in err and said in err
    assert not lz.data.exists()


def test_what_serve_needs_is_understood_by_every_command(lz, tmp_path):
    lz.ok("status", "--config", config(tmp_path, """
listen: "[::1]:0"
tls:
  certificate: /etc/lazaret/tls.pem
  key: /etc/lazaret/tls.key
tokens: /etc/lazaret/tokens.json
access_log: "-"
redact:
  - /inputs/card
  - /failure/artifacts/log
http:
  body_max_bytes: 4194304
  head_max_bytes: 8192
  connections_max: 4096
  connections_per_address: 0
  head_seconds: 0.5
  idle_seconds: 75
  body_grace_seconds: 20
  bytes_per_second_min: 1024
  threads: 2
  drain_seconds: 0
"""))
    for text in ["redact:\n", "redact: []\n", "http:\n", "tls:\n"]:
        lz.ok("status", "--config", config(tmp_path, text))


def test_a_config_that_is_missing_is_an_error(lz, tmp_path):
    assert "nonesuch.yml" in lz.fails(2, "status", "--config", tmp_path / "nonesuch.yml")


@pytest.mark.parametrize("env, place", [
    ({"LAZARET_DATA": "{tmp}/one"}, "one"),
    ({"LAZARET_DATA": "", "XDG_DATA_HOME": "{tmp}/xdg"}, "xdg/lazaret"),
    ({"LAZARET_DATA": "", "HOME": "{tmp}/home"}, "home/.local/share/lazaret"),
])
def test_the_data_directory_comes_from_the_environment(lz, tmp_path, env, place):
    env = {k: v.format(tmp=tmp_path) for k, v in env.items()}
    lz.ok("push", "--action", "a", env=env)
    assert (tmp_path / place / "lazaret.db").exists()


def test_a_flag_wins_over_the_environment(lz, tmp_path):
    lz.ok("push", "--action", "a", "--data", tmp_path / "flag")
    assert (tmp_path / "flag" / "lazaret.db").exists() and not lz.data.exists()


def test_a_directory_that_cannot_be_used_is_exit_code_5(lz, tmp_path):
    (tmp_path / "file").write_text("x")
    assert "file" in lz.fails(5, "status", "--data", tmp_path / "file")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "lazaret.db").write_bytes(b"not a database" * 1000)
    assert "lazaret.db" in lz.fails(5, "status", "--data", tmp_path / "foreign")
    assert (tmp_path / "foreign" / "lazaret.db").read_bytes() == b"not a database" * 1000


def test_help_needs_no_data_directory(lz):
    lz.ok("help"), lz.ok("dlq", "list", "--help"), lz.ok("man"), lz.ok("completion", "bash")
    assert not lz.data.exists()
