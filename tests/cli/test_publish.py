"""dlq publish: dead letters of scripts, on the stream of a real NATS server."""

import json
import pathlib
import re
import socket
import subprocess
import sys
import threading

import pytest

from natskeys import Key, certificates, operator_setup

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "swarm"))

from parts import LAST_WORD, Nats, free_port, wait_until  # noqa: E402

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
FIELDS = ["dlq_id", "original_subject", "original_payload", "reason", "reason_detail", "failed_at", "retry_count", "max_retries",
          "retry_history", "source", "recoverable", "recovered"]
WHY = ["--subject", "swarm.task.request", "--reason", "no_capable_agent"]


@pytest.fixture(scope="module")
def nats():
    server = Nats()
    server.client().stream_create("DLQ", ["dlq.>"])
    yield server
    server.close()


@pytest.fixture
def bare():
    """A server without a stream, or one that a test makes with another configuration."""
    made = []

    def make(*args, **kw):
        made.append(Nats(*args, **kw))
        return made[-1]
    yield make
    for server in made:
        server.close()


@pytest.fixture
def publish(lz, nats):
    """Publishes to the server of the module; the message as it is in the stream."""
    def run(*args, input="{}", text=True):
        done = lz.run("dlq", "publish", "--nats", nats.url, *args, input=input, text=text)
        assert (done.returncode, done.stderr or "") == (0, ""), done
        last = nats.client().stream_info("DLQ")["state"]["last_seq"]
        return nats.client().stream_message("DLQ", last)
    return run


def refused(lz, code, sentence, *args, input="{}", **kw):
    done = lz.run("dlq", "publish", *args, input=input, **kw)
    assert (done.returncode, done.stdout) == (code, ""), done
    assert sentence in done.stderr, done.stderr
    return done.stderr


# ---- the letter ----------------------------------------------------------------------------------


def test_a_letter_has_the_fields_of_the_swarm_in_their_order(lz, nats, tmp_path):
    payload = tmp_path / "task.json"
    payload.write_text('{"task": 7}')
    done = lz.run("dlq", "publish", "--nats", nats.url, *WHY, "--detail", "nobody can \"research\"", "--source", "dispatch",
                  "--retry-count", 3, "--max-retries", 5, "--failed-at", "2026-11-16T08:00:00+01:00", payload)
    assert done.returncode == 0, done
    assert UUID.fullmatch(done.stdout.strip())
    message = nats.client().stream_messages("DLQ")[-1]
    assert message.headers["Nats-Msg-Id"] == done.stdout.strip()
    assert message.subject == "dlq.task.unassignable"
    letter = json.loads(message.data)
    assert list(letter) == FIELDS
    assert letter == {
        "dlq_id": done.stdout.strip(), "original_subject": "swarm.task.request", "original_payload": {"task": 7},
        "reason": "no_capable_agent", "reason_detail": 'nobody can "research"', "failed_at": "2026-11-16T07:00:00Z", "retry_count": 3,
        "max_retries": 5, "retry_history": [], "source": "dispatch", "recoverable": True, "recovered": False}


@pytest.mark.parametrize("payload", [
    b'{"b":1,  "a":[1.0,1e2,-0],"\xc3\xbc":"\\u00e9\\/", "b":2}', b"[]", b"17", b'"text"', b"null", b'{"deep":' * 50 + b"1" + b"}" * 50,
    b'{"big":"' + b"x" * 900_000 + b'"}'], ids=range(7))
def test_json_is_published_byte_for_byte(publish, payload):
    message = publish(*WHY, input=payload, text=False)
    assert b'"original_payload":' + payload + b',"reason":"no_capable_agent"' in message.data
    assert "payload_encoding" not in json.loads(message.data)


def test_white_space_around_json_is_left_out(publish):
    assert b'"original_payload":{ "a" : 1 },' in publish(*WHY, input=b'\n { "a" : 1 }\n', text=False).data


@pytest.mark.parametrize("payload, value, encoding", [
    (b"hello, \xc3\xbc\n", "hello, ü\n", "text"), (b"", "", "text"), (b"\xff\x00\xfe", "/wD+", "base64")])
def test_other_bytes_say_how_they_are_written(publish, payload, value, encoding):
    letter = json.loads(publish(*WHY, input=payload, text=False).data)
    assert (letter["original_payload"], letter["payload_encoding"]) == (value, encoding)
    assert list(letter) == [f for f in FIELDS if f != "reason_detail"] + ["payload_encoding"]


@pytest.mark.parametrize("reason, source, subject", [
    ("no_capable_agent", "dispatch", "dlq.task.unassignable"), ("all_agents_unavailable", "dispatch", "dlq.task.no_available_agent"),
    ("policy_denied", "dispatch", "dlq.task.policy_denied"), ("timeout_assigned", "dispatch", "dlq.task.assignment_timeout"),
    ("timeout_in_progress", "dispatch", "dlq.task.execution_timeout"), ("agent_crashed", "dispatch", "dlq.task.agent_crashed"),
    ("boot_failure", "warren", "dlq.agent.boot_failure"), ("pull_failure", "warren", "dlq.agent.pull_failure"),
    ("crash_loop", "warren", "dlq.agent.crash_loop"), ("retries_exhausted", "cli", "dlq.task.retries_exhausted"),
    ("not_retryable", "cli", "dlq.task.not_retryable"), ("dependency_down", "cli", "dlq.task.dependency_down"),
    ("not_idempotent", "cli", "dlq.task.not_idempotent"), ("undeliverable", "cli", "dlq.task.undeliverable"),
    ("malformed", "cli", "dlq.task.malformed"), ("something else", "dispatch", "dlq.task.unknown"),
    ("something else", "warren", "dlq.agent.unknown")])
def test_a_reason_decides_the_subject(publish, reason, source, subject):
    message = publish("--subject", "a.b", "--reason", reason, "--source", source)
    assert (message.subject, message.json["reason"], message.json["source"]) == (subject, reason, source)


def test_attempts_come_from_a_file(publish, tmp_path):
    history = tmp_path / "history.json"
    attempts = [{"attempt": 1, "attempted_at": "2026-11-16T08:00:00Z", "agent": "a", "failure_reason": "no\nanswer"},
                {"attempt": 4, "attempted_at": "2026-11-16T08:00:10.5Z", "agent": "b", "failure_reason": "busy"}]
    history.write_text(json.dumps(attempts))
    letter = publish(*WHY, "--history", history, "--not-recoverable").json
    attempts[1]["attempted_at"] = "2026-11-16T08:00:10.500Z"
    assert letter["retry_history"] == attempts
    assert (letter["retry_count"], letter["max_retries"], letter["recoverable"]) == (2, 2, False)
    history.write_text('[{}, {"agent": null}]')
    letter = publish(*WHY, "--history", history, "--max-retries", 9).json
    assert letter["retry_history"] == [{"attempt": n, "attempted_at": None, "agent": "", "failure_reason": ""} for n in (1, 2)]
    assert letter["max_retries"] == 9


def test_the_same_id_is_stored_once(lz, nats):
    line = ["dlq", "publish", "--nats", nats.url, *WHY, "--dlq-id", "019A8C5D-AC96-774B-BCCE-B302099A8057", "-o", "json"]
    before = nats.client().stream_info("DLQ")["state"]["messages"]
    answers = [json.loads(lz.ok(*line, input="{}")) for _ in range(2)]
    assert answers == [{"dlq_id": "019a8c5d-ac96-774b-bcce-b302099a8057", "subject": "dlq.task.unassignable", "duplicate": again}
                       for again in (False, True)]
    assert nats.client().stream_info("DLQ")["state"]["messages"] == before + 1


def test_nats_url_is_the_default(lz, nats):
    assert UUID.fullmatch(lz.ok("dlq", "publish", *WHY, input="{}", env={"NATS_URL": nats.url}).strip())


def test_a_list_of_servers_is_tried(lz, nats):
    assert lz.ok("dlq", "publish", "--nats", f"nats://127.0.0.1:{free_port()},{nats.url}", *WHY, input="{}")


def test_neither_a_data_directory_nor_a_server_is_touched(lz, nats, tmp_path):
    data = tmp_path / "nothing"
    lz.ok("dlq", "publish", "--nats", nats.url, "--data", data, *WHY, input="{}")
    assert not data.exists()


# ---- mistakes ------------------------------------------------------------------------------------


def test_a_server_that_is_away_is_named_without_its_password(lz):
    port = free_port()
    said = refused(lz, 5, f"NATS cannot be reached at nats://127.0.0.1:{port}: is it running", "--nats",
                   f"nats://ada:secret@127.0.0.1:{port}", *WHY)
    assert "secret" not in said


def test_without_a_stream_it_says_what_to_do(lz, bare):
    said = refused(lz, 5, 'publishing to dlq.task.unassignable: no stream of NATS at ', "--nats", bare().url, *WHY)
    assert 'turn JetStream on there, and let "lazaret serve --nats" make the stream' in said
    assert UUID.fullmatch(said.split("--dlq-id ")[1].strip())


def test_somebody_else_may_answer_there(lz):
    with socket.create_server(("127.0.0.1", 0)) as other:
        threading.Thread(target=lambda: other.accept()[0].sendall(b"SSH-2.0-x\r\n"), daemon=True).start()
        refused(lz, 5, "does not speak the protocol of NATS", "--nats", f"nats://127.0.0.1:{other.getsockname()[1]}", *WHY)


@pytest.mark.parametrize("text, sentence", [
    ("", "history.json: "), ("{}", "must be an array"), ("[1]", "attempt 1: must be an object"),
    ('[{}, {"attempt": 0}]', "attempt 2: attempt: "), ('[{"attempted_at": "yesterday"}]', "attempt 1: attempted_at: "),
    ('[{"agent": 5}]', "attempt 1: agent: ")])
def test_a_wrong_history_is_named(lz, tmp_path, text, sentence):
    history = tmp_path / "history.json"
    history.write_text(text)
    assert "--history: " in refused(lz, 2, sentence, "--nats", "nats://127.0.0.1:1", *WHY, "--history", history)


@pytest.mark.parametrize("args, sentence", [
    ([*WHY, "--server", "http://127.0.0.1:1"], "--server: a letter is published on NATS"), (["--reason", "x"], "--subject is required"), (["--subject", "x"], "--reason is required"), (WHY, "--nats is required"),
    ([*WHY, "--nats", ""], "--nats: must not be empty"), ([*WHY, "--nats", "http://127.0.0.1"], "must begin with nats:// or tls://"),
    ([*WHY, "--nats", "nats://h:99999"], "the port must be a number"), ([*WHY, "--nats", "nats://h", "--retry-count", "-1"], "--retry-count"),
    ([*WHY, "--nats", "nats://h", "--failed-at", "noon"], "--failed-at: "), ([*WHY, "--nats", "nats://h", "--timeout", "0"], "--timeout: "),
    ([*WHY, "--nats", "nats://h", "--history", "/nowhere"], "/nowhere"), ([*WHY, "--nats", "nats://h", "/nowhere"], "/nowhere"),
    ([*WHY, "--nats", "nats://h", "--nats-user", "ada"], "the password is missing"),
    ([*WHY, "--nats", "nats://h", "--nats-creds", "a", "--nats-nkey", "b"], "one kind of credentials"),
    ([*WHY, "--nats", "nats://h", "--nats-tls-cert", "a"], "the key is missing"),
    ([*WHY, "--nats", "nats://h", "--nats-creds", "/nowhere"], "/nowhere: cannot be read as the credentials of NATS"),
    ([*WHY, "--nats", "nats://h", "--nats-nkey", "/dev/null"], "/dev/null: has no seed of an nkey"),
    ([*WHY, "--nats", "nats://h", "--nats-password-file", "/dev/null", "--nats-user", "a"], "/dev/null must have one line of text"),
    ([*WHY, "--nats", "nats://h", "--nats-tls-ca", "/dev/null"], "/dev/null: cannot be used as the certificates")])
def test_a_wrong_flag_is_named(lz, args, sentence):
    refused(lz, 2, sentence, *args)


@pytest.mark.parametrize("args, sentence", [
    (["--subject", "a.*"], "--subject: must be a subject"), (["--subject", "a..b"], "--subject: must be"),
    (["--subject", "a b"], "--subject: must be"), (["--subject", ""], "--subject: is required"), (["--reason", ""], "--reason: is required"),
    (["--source", ""], "--source: is required"), (["--dlq-id", "7"], "--dlq-id: must be a UUID")])
def test_a_letter_that_is_wrong_is_not_published(lz, nats, args, sentence):
    before = nats.client().stream_info("DLQ")["state"]["last_seq"]
    refused(lz, 2, sentence, "--nats", nats.url, *WHY, *args)
    assert nats.client().stream_info("DLQ")["state"]["last_seq"] == before


def test_a_payload_that_is_too_large_is_refused(lz, nats):
    refused(lz, 2, "has more than 1048576 bytes", "--nats", nats.url, *WHY, input="1" * 1048577)
    refused(lz, 2, "the message is larger than NATS at", "--nats", nats.url, *WHY, input="1" * 1048576)


def test_a_stream_that_is_silent_is_not_waited_for_without_end(lz, bare):
    """Somebody listens there, but is no stream: no acknowledgement comes."""
    server = bare()
    server.client().subscribe("dlq.>")
    said = refused(lz, 5, "did not answer in time", "--nats", server.url, *WHY, "--timeout", "300ms")
    assert "--dlq-id " in said


# ---- who asks ------------------------------------------------------------------------------------


def with_stream(server):
    server.client().stream_create("DLQ", ["dlq.>"])
    return server


def login(user, password):
    return {"user": user, "pass": password}


def test_a_user_shows_a_password(lz, bare, tmp_path):
    server = with_stream(bare('authorization { user: ada, password: "s e\\"cret" }', login("ada", 's e"cret')))
    password = tmp_path / "password"
    password.write_text('s e"cret\n')
    plain = f"nats://127.0.0.1:{server.port}"
    assert lz.ok("dlq", "publish", "--nats", plain, "--nats-user", "ada", "--nats-password-file", password, *WHY, input="{}")
    assert "wants credentials" in refused(lz, 4, plain, "--nats", plain, *WHY)
    password.write_text("wrong\n")
    said = refused(lz, 4, "does not accept the credentials (Authorization Violation)", "--nats", plain, "--nats-user", "ada",
                   "--nats-password-file", password, *WHY)
    assert "wrong" not in said


def test_the_configuration_says_where_and_who(lz, bare, tmp_path):
    server = with_stream(bare("authorization { user: ada, password: secret }", login("ada", "secret")))
    (tmp_path / "password").write_text("secret")
    config = tmp_path / "lazaret.yml"
    config.write_text(f"nats:\n  url: nats://127.0.0.1:{server.port}\n  user: ada\n  password_file: {tmp_path}/password\n")
    line = ["dlq", "publish", "--config", config, *WHY]
    assert lz.ok(*line, input="{}")
    # Credentials of another kind by flags replace those of the file.
    (tmp_path / "token").write_text("t")
    done = lz.run(*line, "--nats-token-file", tmp_path / "token", input="{}")
    assert done.returncode == 4, done
    config.write_text("nats:\n  password: secret\n")
    done = lz.run(*line, input="{}")
    assert (done.returncode, "unknown key nats.password" in done.stderr) == (2, True), done


def test_a_token_is_shown(lz, bare, tmp_path):
    server = with_stream(bare('authorization { token: "t0k" }', {"auth_token": "t0k"}))
    (tmp_path / "token").write_text("t0k\n")
    assert lz.ok("dlq", "publish", "--nats", server.url, "--nats-token-file", tmp_path / "token", *WHY, input="{}")
    assert lz.ok("dlq", "publish", "--nats", f"nats://t0k@127.0.0.1:{server.port}", *WHY, input="{}")
    refused(lz, 4, "wants credentials", "--nats", server.url, *WHY)


def test_an_nkey_signs(lz, bare, tmp_path):
    key, other = Key(tmp_path, name="a"), Key(tmp_path, name="b")
    server = with_stream(bare(f"authorization {{ users = [ {{nkey: {key.public}}}, {{user: look, password: x}} ] }}", login("look", "x")))
    seed = tmp_path / "seed"
    where = ["--nats", f"nats://127.0.0.1:{server.port}", "--nats-nkey", seed, *WHY]
    for text in [f"{key.seed}\n", f"-----BEGIN USER NKEY SEED-----\n{key.seed}\n------END USER NKEY SEED------\n"]:
        seed.write_text(text)
        assert lz.ok("dlq", "publish", *where, input="{}")
    seed.write_text(other.seed)
    refused(lz, 4, "does not accept the credentials", *where)
    seed.write_text(key.seed[:-1] + ("A" if key.seed[-1] != "A" else "B"))
    said = refused(lz, 2, "the seed of an nkey: it is damaged, or no seed of a user", *where)
    assert key.seed[:20] not in said
    seed.write_text(Key(tmp_path, "account", "c").seed)
    refused(lz, 2, "has no seed of an nkey", *where)


def test_a_credentials_file_signs(lz, bare, tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    config, creds, user = operator_setup(ours)
    server = with_stream(bare(config, user))
    file = tmp_path / "user.creds"
    where = ["--nats", server.url, "--nats-creds", file, *WHY]
    file.write_text(creds)
    assert lz.ok("dlq", "publish", *where, input="{}")
    file.write_text(operator_setup(theirs)[1])
    refused(lz, 4, "does not accept the credentials", *where)
    file.write_text(creds.split("\n\n")[0])
    refused(lz, 2, "has no seed of an nkey", *where)
    file.write_text("ada\n")
    refused(lz, 2, "is no credentials file of NATS", *where)


def test_what_the_server_forbids_is_said(lz, bare):
    server = with_stream(bare('accounts { A { jetstream: enabled, users: [ {user: look, password: x}, {user: ada, password: y, '
                              'permissions: {publish: {deny: "dlq.task.>"}}} ] } }', login("look", "x")))
    said = refused(lz, 4, "forbids it: ", "--nats", f"nats://ada:y@127.0.0.1:{server.port}", *WHY, "--timeout", "2s")
    assert 'Publish to "dlq.task.unassignable"' in said
    assert lz.ok("dlq", "publish", "--nats", f"nats://ada:y@127.0.0.1:{server.port}", "--subject", "a", "--reason", "crash_loop", input="{}")


# ---- TLS -----------------------------------------------------------------------------------------


@pytest.fixture
def secured():
    """Starts a server with a stream, and then once more at the same place, with TLS; its port."""
    made = []

    def make(directory, more=""):
        server = with_stream(Nats())
        made.append(server)
        server.kill()
        with open(server.directory / "nats.conf", "a") as config:
            config.write(f'tls {{ cert_file: "{directory}/server.pem", key_file: "{directory}/server.key"{more} }}\n')
        log = server.directory / "tls.log"
        with open(log, "wb") as said:
            server.process = subprocess.Popen([*LAST_WORD, "nats-server", "-c", config.name], stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        wait_until(lambda: "Server is ready" in log.read_text(), "nats-server is ready")
        return server.port
    yield make
    for server in made:
        server.close()


def test_tls_trusts_the_authority_that_is_named(lz, secured, tmp_path):
    certificates(tmp_path)
    port = secured(tmp_path)
    for scheme in ["tls", "nats"]:
        where = ["--nats", f"{scheme}://127.0.0.1:{port}", *WHY]
        assert lz.ok("dlq", "publish", *where, "--nats-tls-ca", tmp_path / "ca.pem", input="{}")
        assert "certificate" in refused(lz, 5, "TLS with NATS at", *where)
    assert lz.ok("dlq", "publish", *where, input="{}", env={"SSL_CERT_FILE": str(tmp_path / "ca.pem")})
    other = tmp_path / "other"
    other.mkdir()
    certificates(other)
    refused(lz, 5, "TLS with NATS at", *where, "--nats-tls-ca", other / "ca.pem")


def test_tls_checks_the_host(lz, secured, tmp_path):
    certificates(tmp_path, "DNS:localhost")
    port = secured(tmp_path)
    refused(lz, 5, "TLS with NATS at", "--nats", f"tls://127.0.0.1:{port}", *WHY, "--nats-tls-ca", tmp_path / "ca.pem")
    assert lz.ok("dlq", "publish", "--nats", f"tls://localhost:{port}", *WHY, "--nats-tls-ca", tmp_path / "ca.pem", input="{}")


def test_tls_shows_a_certificate(lz, secured, tmp_path):
    certificates(tmp_path)
    port = secured(tmp_path, f', ca_file: "{tmp_path}/ca.pem", verify: true')
    where = ["--nats", f"tls://127.0.0.1:{port}", "--nats-tls-ca", tmp_path / "ca.pem", *WHY]
    assert lz.ok("dlq", "publish", *where, "--nats-tls-cert", tmp_path / "client.pem", "--nats-tls-key", tmp_path / "client.key", input="{}")
    assert lz.run("dlq", "publish", *where, input="{}").returncode == 5
    refused(lz, 2, "cannot be used as a certificate with its key", *where, "--nats-tls-cert", tmp_path / "client.pem", "--nats-tls-key",
            tmp_path / "server.key")


def test_a_server_without_tls_is_not_spoken_to_in_the_clear(lz, nats):
    refused(lz, 5, "does not speak TLS", "--nats", nats.url.replace("nats:", "tls:"), *WHY)
