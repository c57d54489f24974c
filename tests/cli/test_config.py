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
    ("nats:\n  uri: x\n", "unknown key nats.uri; did you mean nats.url?"),
    ("nats:\n  url: 5\n", "nats.url: must be a text in one line"),
    ("nats:\n  user: ''\n", "nats.user: must be a text in one line"),
    ('{"nats": {"url": "nats://a\\nb"}}', "nats.url: must be a text in one line"),
    ("nats:\n  creds: [a]\n", "nats.creds: must be the name of a file"),
    ("nats: nats://127.0.0.1\n", "nats: must be a mapping"),
    ("store: 5\n", "store: must be a text in one line"),
    ("postgres:\n  pooled: maybe\n", "postgres.pooled: must be true or false"),
    ("scanner:\n  interval_seconds: 0\n", "scanner.interval_seconds: must be a number from 0.1 to 86400, not 0"),
    ("alerts:\n  slack: x\n", "unknown key alerts.slack"),
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
store: postgres://lazaret@127.0.0.1/lazaret
postgres:
  pooled: true
server_name: a
scanner:
  interval_seconds: 300
alerts:
  slack_webhook: "@/nonesuch/slack"
  webhook: https://hooks.example.org/lazaret
nats:
  url: nats://127.0.0.1:4222,tls://[::1]
  creds: /nonesuch/creds
  nkey: /nonesuch/nkey
  user: ada
  password_file: /nonesuch/password
  token_file: /nonesuch/token
  tls_ca: /nonesuch/ca
  tls_cert: /nonesuch/cert
  tls_key: /nonesuch/key
"""))
    for text in ["redact:\n", "redact: []\n", "http:\n", "tls:\n"]:
        lz.ok("status", "--config", config(tmp_path, text))


DELIVERIES = """
deliveries:
  parallel: 1000
  parallel_per_host: 32
  connect_seconds: 10
  request_seconds: 30
  receipts_file: /var/lib/lazaret/receipts.json
  allow:
    - hooks.example.org
    - "*.example.net:8443"
    - 10.1.0.0/16
    - "[::1]:9000"
targets:
  asyncgate:
    url: https://asyncgate.example.org
    kind: mcp
    tool: asyncgate.complete
    token_file: /nonesuch/token
    secret_env: NONESUCH_SECRET
    headers: {X-Team: a}
    policy: receipts
    follow_redirects: false
    connect_seconds: 10
    request_seconds: 30
    parallel: 32
  hooks:
    url: http://127.0.0.1:9000/hooks
    token_env: NONESUCH_TOKEN
    secret_file: /nonesuch/secret
"""


def test_targets_are_understood_by_every_command_without_their_secrets(lz, tmp_path):
    lz.ok("status", "--config", config(tmp_path, DELIVERIES))
    for text in ["deliveries:\n", "targets:\n", "deliveries:\n  allow:\n", "deliveries: {allow: []}\n",
                 "targets: {a: {url: 'http://h', headers: }}\n"]:
        lz.ok("status", "--config", config(tmp_path, text))


def target(keys, name="a"):
    return f"targets: {{{name}: {{{keys}}}}}\n"


@pytest.mark.parametrize("text, said", [
    ("deliverys:\n  parallel: 5\n", "unknown key deliverys; did you mean deliveries?"),
    ("target:\n  a: 5\n", "unknown key target; did you mean targets?"),
    ("deliveries: 5\n", "deliveries: must be a mapping"),
    ("deliveries:\n  paralel: 5\n", "unknown key deliveries.paralel; did you mean deliveries.parallel?"),
    ("deliveries:\n  parallel: 0\n", "deliveries.parallel: must be a whole number from 1 to 10000, not 0"),
    ("deliveries:\n  parallel: 10001\n", "deliveries.parallel: must be a whole number from 1 to 10000"),
    ("deliveries:\n  parallel_per_host: many\n", "deliveries.parallel_per_host: must be a whole number from 1 to 10000"),
    ("deliveries:\n  connect_seconds: 0\n", "deliveries.connect_seconds: must be a number from 0.01 to 86400, not 0"),
    ("deliveries:\n  request_seconds: -1\n", "deliveries.request_seconds: must be a number"),
    ("deliveries:\n  receipts_file: 5\n", "deliveries.receipts_file: must be the name of a file"),
    ("deliveries:\n  allow: h\n", "deliveries.allow: must be a list of hosts, addresses and networks"),
    ("deliveries:\n  allow: [5]\n", "deliveries.allow: must be a list of hosts, addresses and networks, not 5"),
    ("deliveries:\n  allow: [h, 'http://h']\n", "deliveries.allow[1]: must be a host as hooks.example.org"),
    ("deliveries:\n  allow: ['*']\n", "deliveries.allow[0]: * would be every host"),
    ("deliveries:\n  allow: ['10.1.2.3/8']\n", "deliveries.allow[0]: has bits set after the length of the network"),
    ("deliveries:\n  allow: ['127.1']\n", "deliveries.allow[0]: a host that ends in a number must be an IPv4 address"),
    ("targets: [a]\n", "targets: must be a mapping"),
    ("targets: {a: }\n", "targets.a.url: is missing: http://HOST or https://HOST"),
    ("targets: {a: 5}\n", "targets.a: must be a mapping"),
    (target("url: 'http://h'", name="a b"), "targets: the name of a target must have 1 to 64 letters"),
    (target("url: 'http://h'", name="'http://h'"), "targets: the name of a target must have 1 to 64 letters"),
    ('{"targets": {"a": {"url": "http://h"}, "a": {"url": "http://h"}}}', "targets.a: is there twice"),
    (target("urls: 'http://h'"), "unknown key targets.a.urls; did you mean targets.a.url?"),
    (target("url: 'http://h', tokenfile: x"), "unknown key targets.a.tokenfile; did you mean targets.a.token_file?"),
    (target("url: 5"), "targets.a.url: must be http://HOST or https://HOST"),
    (target("url: h"), "targets.a.url: must begin with http:// or https://"),
    (target("url: 'http://127.1/'"), "targets.a.url: a host that ends in a number must be"),
    (target("url: 'http://me:geheim@h/'"), "targets.a.url: must not have a user or a password"),
    (target("url: ['http://me:geheim@h/']"), "targets.a.url: must be http://HOST or https://HOST"),
    ('{"targets": {"a": {"url": "http://h/\\u0000geheim"}}}', "targets.a.url: must not have control characters"),
    (target("url: 'http://h:0'"), "targets.a.url: the port must be a number from 1 to 65535"),
    (target("url: 'http://h', kind: soap"), 'targets.a.kind: must be http or mcp, not "soap"'),
    (target("url: 'http://h', kind: 5"), "targets.a.kind: must be http or mcp, not 5"),
    (target("url: 'http://h', tool: t"), "targets.a.tool: is only for a target of kind mcp"),
    (target("url: 'http://h', kind: mcp, tool: ''"), "targets.a.tool: must not be empty"),
    (target("url: 'http://h', kind: mcp, tool: 5"), "targets.a.tool: must be a name, not 5"),
    (target("url: 'http://h', policy: ''"), "targets.a.policy: must not be empty"),
    (target("url: 'http://h', policy: " + 65 * "p"), "targets.a.policy: must have at most 64 bytes"),
    (target("url: 'http://h', token_file: ''"), "targets.a.token_file: must be the name of a file"),
    (target("url: 'http://h', token_file: f, token_env: E"), "targets.a: has both, a token_file and a token_env"),
    (target("url: 'http://h', secret_file: f, secret_env: E"), "targets.a: has both, a secret_file and a secret_env"),
    (target("url: 'http://h', token_env: 'geheim=1'"), "targets.a.token_env: must be the name of an environment variable"),
    (target("url: 'http://h', token_env: 1geheim"), "targets.a.token_env: must be the name of an environment variable"),
    (target("url: 'http://h', secret_env: [geheim]"), "targets.a.secret_env: must be the name of an environment variable"),
    (target("url: 'http://h', headers: geheim"), "targets.a.headers: must be a mapping of names and texts"),
    (target("url: 'http://h', headers: {X-Key: [geheim]}"), "targets.a.headers.X-Key: must be a text: put it in quotes"),
    (target("url: 'http://h', headers: {X-Key: 7}"), "targets.a.headers.X-Key: must be a text: put it in quotes"),
    (target("url: 'http://h', headers: {X-Key: ''}"), "targets.a.headers.X-Key: must be a text of at most 4096 bytes, not empty"),
    (target("url: 'http://h', headers: {X-Key: ' geheim'}"), "targets.a.headers.X-Key: must be a text"),
    (target('url: "http://h", headers: {X-Key: "geheim\\r\\nX-Evil: 1"}'), "targets.a.headers.X-Key: must be a text"),
    (target('url: "http://h", headers: {X-Key: "geheim\\u0000"}'), "targets.a.headers.X-Key: must be a text"),
    (target("url: 'http://h', headers: {'X Key': geheim}"), "targets.a.headers: the name of a header must be of letters"),
    (target("url: 'http://h', headers: {'': geheim}"), "targets.a.headers: the name of a header must be of letters"),
    (target("url: 'http://h', headers: {'X-Key:': geheim}"), "targets.a.headers: the name of a header must be of letters"),
    (target("url: 'http://h', headers: {authorization: geheim}"), "targets.a.headers: authorization is set by each delivery itself"),
    (target("url: 'http://h', headers: {Content-Type: a}"), "targets.a.headers: Content-Type is set by each delivery itself"),
    (target("url: 'http://h', headers: {CONTENT-LENGTH: '1'}"), "targets.a.headers: CONTENT-LENGTH is set by"),
    (target("url: 'http://h', headers: {Host: a}"), "targets.a.headers: Host is set by"),
    (target("url: 'http://h', headers: {Idempotency-Key: a}"), "targets.a.headers: Idempotency-Key is set by"),
    (target("url: 'http://h', headers: {Webhook-Id: a}"), "targets.a.headers: Webhook-Id is set by"),
    (target("url: 'http://h', headers: {Transfer-Encoding: chunked}"), "targets.a.headers: Transfer-Encoding is set by"),
    (target("url: 'http://h', headers: {" + ", ".join(f"X-{n}: a" for n in range(65)) + "}"),
     "targets.a.headers: has 65 headers; at most 64 are taken"),
    (target("url: 'http://h', follow_redirects: 'yes'"), 'targets.a.follow_redirects: must be true or false, not "yes"'),
    (target("url: 'http://h', connect_seconds: soon"), "targets.a.connect_seconds: must be a number from 0.01 to 86400"),
    (target("url: 'http://h', parallel: 0"), "targets.a.parallel: must be a whole number from 1 to 10000, not 0"),
])
def test_a_mistake_in_targets_names_the_key_and_shows_no_secret(lz, tmp_path, text, said):
    err = lz.fails(2, "status", "--config", config(tmp_path, text))
    assert "lazaret.yml" in err and said in err
    assert "geheim" not in err
    assert not lz.data.exists()


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
