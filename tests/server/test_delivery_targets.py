"""Where a server delivers to: what its operator configured, and nowhere else; and what it shows there of itself."""

import base64
import hashlib
import hmac
import os
import ssl
import subprocess
import time

import pytest
from conftest import wait_until
from office import Office, facts, receipt, secrets_on_disk

from endpoint import Endpoint, answer, redirect, result

SECRET = base64.b64encode(bytes(range(32))).decode()


@pytest.fixture
def endpoint():
    with Endpoint() as made:
        yield made


@pytest.fixture
def other():
    with Endpoint() as made:
        yield made


def denied(office, job_id):
    """Expects that a delivery is refused for good, without a call, and returns the sentence that says so."""
    letter = office.letter(job_id)
    assert (letter["reason"], letter["failure_count"], letter["recoverable"]) == ("policy_denied", 1, False), letter
    [attempt] = letter["failure_history"]
    assert facts(attempt) == ("policy_violation", 0, "none")
    return attempt["error_message"]


# ---- addresses -------------------------------------------------------------------------------------------------------


def test_an_address_that_is_listed_is_called(serve, endpoint):
    office = Office(serve, endpoint, allow=[endpoint.address])
    office.delivered(office.deliver(receipt("a"), endpoint.url))
    office.delivered(office.push(endpoint.url, receipt("b")))
    assert len(endpoint.requests) == 2


def test_the_allow_list_takes_networks_and_any_port(serve, endpoint):
    office = Office(serve, endpoint, allow=["127.0.0.0/8"])
    office.delivered(office.deliver(receipt(), endpoint.url))


@pytest.mark.parametrize("allow", [None, [], ["192.0.2.0/24"], ["127.0.0.1:1"], ["example.org"], ["*.example.org"]], ids=str)
def test_an_address_that_is_not_listed_is_refused_before_it_is_on_disk(serve, endpoint, allow):
    office = Office(serve, None, {"some": "http://127.0.0.1:1/"}, allow=allow)
    refusal = office.order(receipt(), endpoint.url)
    assert (refusal.status, "127.0.0.1" in refusal.json["error"]) == (403, True), refusal
    assert not office.letters() and not endpoint.requests


FORBIDDEN = [
    "http://127.0.0.1:{port}/", "http://127.1.2.3:{port}/", "http://[::1]:{port}/", "http://[::ffff:127.0.0.1]:{port}/",
    "http://localhost:{port}/", "http://0.0.0.0:{port}/", "http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/",
    "http://192.168.1.1/", "http://172.16.0.1/", "http://[fe80::1]/", "http://[fd00::1]/", "http://2.2.2.2/",
]


def test_a_job_that_was_pushed_cannot_make_the_server_call_an_address(serve, endpoint):
    office = Office(serve, None, {"some": "http://127.0.0.1:1/"}, allow=["hooks.example.org"])
    for n, form in enumerate(FORBIDDEN):
        url = form.format(port=endpoint.port)
        assert office.order(receipt(), url).status == 403, url
        assert denied(office, office.push(url, receipt(f"lease-{n}"))), url
    assert not endpoint.requests


AMBIGUOUS = [
    "http://2130706433:{port}/", "http://0x7f000001:{port}/", "http://0177.0.0.1:{port}/", "http://127.1:{port}/",
    "http://127.0.0.1:{port}\\@example.org/", "http://example.org@127.0.0.1:{port}/", "http://example.org#@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}/ HTTP/1.1\r\nX: y", "file:///etc/passwd", "gopher://127.0.0.1:{port}/", "//127.0.0.1:{port}/",
]


def test_an_address_that_clients_read_in_different_ways_is_none(serve, endpoint):
    office = Office(serve, None, {"some": "http://127.0.0.1:1/"}, allow=["example.org", "hooks.example.org", "127.0.0.0/8"])
    for n, form in enumerate(AMBIGUOUS):
        url = form.format(port=endpoint.port)
        assert office.order(receipt(), url).status in (400, 404), url
        letter = office.letter(office.push(url, receipt(f"lease-{n}")))
        assert (letter["reason"], letter["failure_count"]) == ("not_retryable", 1), (url, letter)
    assert not endpoint.requests


def test_a_listed_name_may_not_lead_back_inside(serve, endpoint):
    office = Office(serve, endpoint, allow=["localhost"])
    url = f"http://localhost:{endpoint.port}/"
    said = denied(office, office.deliver(receipt("a"), url))
    assert "127.0.0.1" in said or "::1" in said
    assert denied(office, office.push(url, receipt("b")))
    assert not endpoint.requests


def test_a_listed_name_that_leads_to_a_listed_network_is_called(serve, endpoint):
    office = Office(serve, endpoint, allow=["localhost", "127.0.0.0/8", "::1"])
    office.delivered(office.deliver(receipt(), f"http://localhost:{endpoint.port}/"))
    assert endpoint.requests[0].headers["host"] == f"localhost:{endpoint.port}"


def test_a_target_is_the_operators_word_and_goes_where_it_says(serve, endpoint):
    office = Office(serve, None, {"near": f"http://localhost:{endpoint.port}/x?y=z"})
    office.delivered(office.deliver(receipt(), "near"))
    assert endpoint.requests[0].path == "/x?y=z"


def test_a_job_for_a_target_that_is_not_configured_goes_to_the_quarantine(serve, endpoint):
    office = Office(serve, endpoint)
    letter = office.letter(office.push("nobody"))
    assert (letter["failure_count"], letter["recoverable"]) == (1, False)
    assert "nobody" in letter["failure_history"][0]["error_message"]


def test_a_proxy_of_the_environment_is_not_asked(serve, endpoint, other):
    """What a proxy resolves and connects to cannot be checked here."""
    office = Office(serve, endpoint, env={"http_proxy": f"http://{other.address}", "all_proxy": f"http://{other.address}"})
    office.delivered(office.deliver(receipt()))
    assert len(endpoint.requests) == 1 and not other.requests


# ---- redirects -------------------------------------------------------------------------------------------------------


def test_a_redirect_is_not_followed_unless_it_is_asked_for(serve, endpoint, other):
    endpoint.script(redirect(other.url, 307))
    office = Office(serve, endpoint)
    letter = office.letter(office.deliver(receipt()))
    assert (letter["reason"], len(endpoint.requests), len(other.requests)) == ("not_retryable", 1, 0)
    assert other.url in letter["failure_history"][0]["error_message"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_that_is_followed_stays_a_post_of_the_same_receipt(serve, endpoint, status):
    endpoint.script(redirect("/moved", status), answer(200))
    office = Office(serve, None, {"moved": {"url": endpoint.url, "follow_redirects": True}})
    office.delivered(office.deliver(receipt(), "moved"))
    request = endpoint.requests[1]
    assert (request.method, request.path, request.json, request.key) == ("POST", "/moved", receipt(), "abc-123:complete")


def test_a_target_by_name_follows_a_redirect_to_itself(serve, endpoint):
    endpoint.script(redirect(f"http://LOCALHOST:{endpoint.port}/moved", 307), answer(200))
    office = Office(serve, None, {"near": {"url": f"http://localhost:{endpoint.port}/", "follow_redirects": True}})
    office.delivered(office.deliver(receipt(), "near"))
    assert [request.path for request in endpoint.requests] == ["/", "/moved"]


@pytest.mark.parametrize("to", ["http://{other}/", "http://localhost:{port}/", "http://127.0.0.2:{port}/", "https://127.0.0.1:{port}/",
                                "//{other}/", "http://nowhere.invalid/", "http://127.0.0.1:1/"])
def test_nobody_but_the_target_gets_anything_by_a_redirect(serve, endpoint, other, to):
    """Neither the receipt, nor the token, nor the signature, nor a key in a header: not even a connection."""
    location = to.format(other=other.address, port=endpoint.port)
    endpoint.script(redirect(location, 307), answer(200))
    target = {"url": endpoint.url, "follow_redirects": True, "token_env": "HOOK", "secret_env": "SIGN", "headers": {"X-Api-Key": "open"}}
    office = Office(serve, None, {"moved": target}, allow=["127.0.0.0/8"], env={"HOOK": "sesame-street", "SIGN": SECRET})
    letter = office.letter(office.deliver(receipt(), "moved"))
    [attempt] = letter["failure_history"]
    assert (letter["reason"], *facts(attempt)) == ("not_retryable", "client_error", 307, "unsaid")
    assert f"redirected to {location}, where it is not sent on" in attempt["error_message"]
    assert endpoint.requests[0].headers["authorization"] == "Bearer sesame-street"
    assert (len(endpoint.requests), endpoint.connections, other.connections) == (1, 1, 0)


def test_a_redirect_loop_ends(serve, endpoint):
    endpoint.script(redirect(endpoint.url, 307))
    office = Office(serve, None, {"moved": {"url": endpoint.url, "follow_redirects": True}})
    letter = office.letter(office.deliver(receipt(), "moved"))
    assert letter["state"] == "dead" and len(endpoint.requests) == 6 * letter["failure_count"]


# ---- what is shown there ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["file", "environment"])
def test_a_token_is_sent_and_stands_in_no_file_of_ours(serve, endpoint, tmp_path, where):
    (tmp_path / "token").write_text("sesame-street\n")
    os.chmod(tmp_path / "token", 0o600)
    target = {"url": endpoint.url, **({"token_file": str(tmp_path / "token")} if where == "file" else {"token_env": "HOOK_TOKEN"})}
    office = Office(serve, None, {"gated": target}, env={"HOOK_TOKEN": "sesame-street"})
    office.delivered(office.deliver(receipt("a"), "gated"))
    endpoint.script(answer(401, "who is sesame-street?"))
    letter = office.letter(office.deliver(receipt("b"), "gated"))
    assert [request.headers["authorization"] for request in endpoint.requests] == ["Bearer sesame-street"] * 2
    assert "Bearer" not in str(letter)
    endpoint.script(answer(200))
    office.delivered(office.deliver(receipt("c"), "gated"))
    office.server.stop()
    assert "Bearer" not in office.server.stderr and secrets_on_disk(office.server.data, "Bearer sesame-street") == []


def test_headers_of_a_target_are_sent(serve, endpoint):
    office = Office(serve, None, {"more": {"url": endpoint.url, "headers": {"X-Tenant": "seven", "X-Trace": "a: b"}}})
    office.delivered(office.deliver(receipt(), "more"))
    headers = endpoint.requests[0].headers
    assert (headers["x-tenant"], headers["x-trace"]) == ("seven", "a: b")


def verify(request, secret):
    """The receiving side of Standard Webhooks, written from its text."""
    identity, stamp = request.headers["webhook-id"], request.headers["webhook-timestamp"]
    key = base64.b64decode(secret.removeprefix("whsec_")) if secret.startswith("whsec_") else secret.encode()
    expected = base64.b64encode(hmac.new(key, f"{identity}.{stamp}.".encode() + request.body, hashlib.sha256).digest()).decode()
    signatures = [entry.split(",", 1) for entry in request.headers["webhook-signature"].split(" ")]
    return any(version == "v1" and hmac.compare_digest(signature, expected) for version, signature in signatures)


@pytest.mark.parametrize("secret, kind", [("whsec_" + SECRET, "http"), ("whsec_" + SECRET, "mcp"), ("a secret of many letters", "http")])
def test_a_signature_verifies_on_every_attempt(serve, endpoint, secret, kind):
    office = Office(serve, None, {"signed": {"url": endpoint.url, "kind": kind, "secret_env": "HOOK_SECRET"}}, env={"HOOK_SECRET": secret})
    endpoint.script(answer(503), result())
    before = int(time.time())
    office.delivered(office.deliver(receipt(summary="é\n\U0001f600"), "signed"))
    assert len(endpoint.requests) == 2 and len({request.headers["webhook-id"] for request in endpoint.requests}) == 1
    for request in endpoint.requests:
        assert verify(request, secret) and not verify(request, "whsec_" + base64.b64encode(bytes(32)).decode())
        assert before <= int(request.headers["webhook-timestamp"]) <= time.time()
        request.body += b" "
        assert not verify(request, secret)
    office.server.stop()
    assert secrets_on_disk(office.server.data, secret) == []


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("trusted", [True, False])
def test_a_certificate_is_verified(serve, certificate, trusted):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    with Endpoint(context=context) as secure:
        office = Office(serve, secure, env={"SSL_CERT_FILE": certificate / "cert.pem"} if trusted else None)
        job = office.ended(office.deliver(receipt()))
        assert (job["state"], len(secure.requests)) == (("done", 1) if trusted else ("dead", 0)), job
        if not trusted:
            assert {facts(attempt) for attempt in job["attempts"]} == {("network", 0, "none")}
            assert "certificate" in job["attempts"][0]["error_message"].lower()


# ---- who may -----------------------------------------------------------------------------------------------------------


def test_who_may_only_look_may_not_order_a_delivery(serve, endpoint):
    office = Office(serve, endpoint)
    tokens = {role: office.server.make_token(role, role) for role in ("viewer", "worker", "operator")}
    order = {"target": "hook", "body": receipt()}
    wait_until(lambda: office.server.post("/api/v1/deliveries", {}).status == 401, "tokens are wanted")
    assert office.server.post("/api/v1/deliveries", order, token=tokens["viewer"]).status == 403
    office.server.token = tokens["operator"]
    made = office.server.post("/api/v1/deliveries", order, token=tokens["worker"]).expect(202)
    office.delivered(made["job_id"])
    assert len(endpoint.requests) == 1


# ---- configurations that are wrong -----------------------------------------------------------------------------------


@pytest.mark.parametrize("targets, allow, words", [
    ({"hook": {}}, None, "url"), ({"hook": {"url": "ftp://x/"}}, None, "http"), ({"hook": {"url": "http://x/", "kind": "smtp"}}, None, "kind"),
    ({"hook": {"url": "http://x/", "tokne_env": "X"}}, None, "tokne_env"), ({"hook": {"url": "http://x/", "token_env": "UNSET"}}, None, "token_env"),
    ({"hook": {"url": "http://x/", "token_file": "/nowhere/token"}}, None, "/nowhere/token"), ({"a b": {"url": "http://x/"}}, None, "targets: the name"),
    ({"hook": {"url": "http://x/", "secret_env": "SHORT"}}, None, "secret_env"), ({"hook": {"url": "http://x/", "headers": {"A": "b\nC: d"}}}, None, "header"),
    ({}, ["x", "10.0.0.1/8"], "deliveries.allow[1]"), ({}, ["http://x/"], "deliveries.allow[0]"), ({}, "example.org", "allow")], ids=str)
def test_a_configuration_that_is_wrong_stops_the_server_and_says_where(serve, targets, allow, words):
    server = serve(start=False, config={"targets": targets, **({"deliveries": {"allow": allow}} if allow else {})}, env={"SHORT": "abc"})
    said = server.cli("serve", "--listen", "127.0.0.1:0", *server.args)
    assert said.returncode == 2 and words in said.stderr and said.stdout == "", said
