"""How a server says to NATS who it is, and whom it trusts: each way takes a letter in and brings it back."""

import ssl
import subprocess

import pytest
from keys import Authority, Key, Operator, with_key
from letters import DLQ, SUBJECT, letter, message, new_id, publish, wait_for, wait_for_stream
from station import PROGRAM

ADMIN = {"user": "admin", "pass": "secret"}


def works(serve, nats, *args, url=None):
    """A letter comes in and goes out."""
    server = serve("--nats", url or nats.url, *args)
    wait_for_stream(nats)
    client = nats.client()
    heard = client.subscribe(SUBJECT)
    dlq_id = new_id()
    publish(client, message(dlq_id))
    wait_for(server, 1)
    server.post(f"{DLQ}/{dlq_id}/retry").expect(200)
    assert heard.next().json == {"id": dlq_id}
    assert letter(server, dlq_id)["state"] == "recovered"
    return server


def users(*more):
    return "authorization { users = [ {user: admin, password: secret}, " + ", ".join(more) + " ] }"


def test_without_any_of_it(serve, nats):
    works(serve, nats)


def test_by_user_and_password_in_the_url(serve, natsd):
    nats = natsd(users('{user: lazaret, password: "p:w"}'), login=ADMIN)
    server = works(serve, nats, url=nats.url.replace("//", "//lazaret:p%3Aw@"))
    assert "p%3Aw" not in server.stderr and "p:w" not in server.stderr


def test_by_user_and_password_in_a_file(serve, natsd, tmp_path):
    nats = natsd(users("{user: lazaret, password: pw}"), login=ADMIN)
    (tmp_path / "password").write_text("pw\n")
    works(serve, nats, "--nats-user", "lazaret", "--nats-password-file", tmp_path / "password")


def test_by_token(serve, natsd, tmp_path):
    nats = natsd("authorization { token: hush }", login={"auth_token": "hush"})
    (tmp_path / "token").write_text("hush\n")
    works(serve, nats, "--nats-token-file", tmp_path / "token")


def test_by_nkey(serve, natsd, tmp_path):
    key = Key(tmp_path, "user")
    nats = natsd(users(f"{{nkey: {key.public}}}"), login=ADMIN)
    (tmp_path / "seed").write_text(key.seed + "\n")
    works(serve, nats, "--nats-nkey", tmp_path / "seed")


def test_by_credentials(serve, natsd, tmp_path):
    operator = Operator(tmp_path)
    nats = natsd(operator.config, login=with_key(*operator.user("admin")))
    works(serve, nats, "--nats-creds", operator.creds("lazaret"))


@pytest.fixture
def tls(natsd, tmp_path):
    """A nats-server that wants certificates, and its authority."""
    authority = Authority(tmp_path)
    cert, key = authority.certificate("server")
    mine = authority.certificate("admin")
    context = ssl.create_default_context(cafile=str(authority.file))
    context.load_cert_chain(*map(str, mine))
    nats = natsd(f'tls {{ cert_file: "{cert}", key_file: "{key}", ca_file: "{authority.file}", verify: true }}', context=context)
    return nats, authority


def test_by_tls_with_a_certificate(serve, tls):
    nats, authority = tls
    cert, key = authority.certificate("lazaret")
    works(serve, nats, "--nats-tls-ca", authority.file, "--nats-tls-cert", cert, "--nats-tls-key", key)


def refused(tmp_path, nats, *args):
    """How the server ends that is not let in."""
    done = subprocess.run([PROGRAM, "serve", "--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--nats", nats.url, *args],
                          capture_output=True, text=True, timeout=60)
    assert "DLQ" not in nats.client().stream_names()
    return done


def test_a_nats_server_that_is_not_trusted_is_told_nothing(tls, tmp_path):
    nats, authority = tls
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    cert, key = authority.certificate("lazaret")
    done = refused(tmp_path, nats, "--nats-tls-ca", other.file, "--nats-tls-cert", cert, "--nats-tls-key", key)
    assert done.returncode == 5 and "name the authority that signed its certificate" in done.stderr, done


def test_a_password_that_is_wrong_is_said_and_not_shown(natsd, tmp_path):
    nats = natsd(users("{user: lazaret, password: right}"), login=ADMIN)
    (tmp_path / "password").write_text("wrong-one\n")
    done = refused(tmp_path, nats, "--nats-user", "lazaret", "--nats-password-file", tmp_path / "password")
    assert done.returncode == 4 and "does not accept the credentials" in done.stderr and "wrong-one" not in done.stderr, done


@pytest.mark.parametrize("flag, text", [("--nats-nkey", "SUNOSEED\n"), ("--nats-creds", "nothing\n")])
def test_a_file_that_is_no_key_is_refused_at_the_start(tmp_path, flag, text):
    (tmp_path / "file").write_text(text)
    done = subprocess.run([PROGRAM, "serve", "--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--nats", "nats://127.0.0.1:1", flag, tmp_path / "file"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and str(tmp_path / "file") in done.stderr and "SUNOSEED" not in done.stderr, done
