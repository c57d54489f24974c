"""Who may come in, and as what: tokens and roles, other sites, media types, TLS; and what every answer carries."""

import json
import os
import re
import socket
import ssl
import struct
import subprocess

import pytest
from conftest import DENIED, PATIENCE, PROGRAM, ROOT, environment, wait_until

JOBS = "/api/v1/jobs"
ROLES = ["none", "viewer", "worker", "operator", "reviewer", "admin"]
ROUTE = re.compile(r'\{"(GET|POST|PUT)", "([^"]+)", ROLE_(\w+), ROUTE_(\w+)')
ROUTES = ROUTE.findall((ROOT / "src/api/api.c").read_text())
SECURITY = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
            "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"}


@pytest.fixture
def guarded(serve):
    """A server with a token for each role: guarded.tokens[role]."""
    server = serve(start=False)
    server.data.mkdir(mode=0o700)
    server.tokens = {role: server.make_token(f"the-{role}", role) for role in ROLES[1:]}
    server.tokens["none"] = None
    server.start()
    server.token = server.tokens["admin"]
    return server


def head_of(server, method, path, token, body=None):
    """The status of an answer and its headers; the body may have no end."""
    connection = server.connection()
    fields = {"Authorization": f"Bearer {token}"} if token else {}
    if body is not None:
        fields["Content-Type"] = "application/json"
    connection.request(method, path, body=body, headers=fields)
    answer = connection.getresponse()
    read = b"" if answer.headers.get_content_type() == "text/event-stream" else answer.read()
    connection.close()
    return answer.status, answer.headers, read


def events_of(server, job_id):
    return server.get(f"/api/v1/audit?job_id={job_id}").expect(200)


# ---- roles ---------------------------------------------------------------------------------------


def test_the_table_of_routes_was_found():
    assert len(ROUTES) > 40 and {role.lower() for _, _, role, _ in ROUTES} <= set(ROLES)


def test_every_route_is_open_to_its_role_and_those_above_and_to_nobody_else(guarded):
    for method, pattern, needed, _ in ROUTES:
        path = pattern.replace("{id}", "nothing")
        for level, role in enumerate(ROLES):
            status, headers, body = head_of(guarded, method, path, guarded.tokens[role], b"{}" if method != "GET" else None)
            where = (method, path, role, status, body[:200])
            if level >= ROLES.index(needed.lower()):
                assert status not in (401, 403), where
            elif role == "none":
                assert status == 401, where
                assert headers["WWW-Authenticate"] == 'Bearer realm="lazaret"', where
                assert json.loads(body) == {"error": 'a token is needed: send "Authorization: Bearer TOKEN"', "code": "unauthorized"}
            else:
                assert status == 403 and "WWW-Authenticate" not in headers, where
                assert json.loads(body) == {"error": f"this needs the role {needed.lower()}; the token has {role}", "code": "refused"}


@pytest.mark.parametrize("value", ["Bearer nonsense", "Bearer ", "Basic YTpi", "Bearer lzt_aaaaaaaaaaaa_bbbbbbbbbbbb", "nonsense", "Bearer " + "x" * 5000,
                                   "Bearer lzt__", "Bearer \u00fc"])
def test_a_token_that_is_unknown_is_401_even_where_none_is_needed_to_be_refused(guarded, value):
    answer = guarded.get(JOBS, token=None, headers={"Authorization": value.encode("latin-1")})
    assert answer.status == 401 and answer.headers["WWW-Authenticate"] == 'Bearer realm="lazaret"'
    assert answer.json == {"error": "the token is unknown, revoked or expired", "code": "unauthorized"}
    assert guarded.get("/healthz", token=None, headers={"Authorization": value.encode("latin-1")}).status == 200


def test_part_of_a_token_and_a_token_with_more_are_unknown(guarded):
    token = guarded.tokens["admin"]
    for wrong in [token[:-1], token + "a", token.upper(), token[:-1] + ("a" if token[-1] != "a" else "b"), " ".join(token), token.split("_")[-1]]:
        assert guarded.get(JOBS, token=wrong).status == 401, wrong
    for right in [f"Bearer {token}", f"bearer {token}", f"BEARER   {token}"]:
        assert guarded.get(JOBS, token=None, headers={"Authorization": right}).status == 200, right


def test_two_authorizations_do_not_add_up(guarded):
    with guarded.socket() as sock:
        head = "".join(f"Authorization: Bearer {guarded.tokens[role]}\r\n" for role in ["viewer", "admin"])
        sock.sendall(f"POST {JOBS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n{head}\r\n".encode() + b'{"action":"a"}')
        assert sock.recv(100).startswith((b"HTTP/1.1 400", b"HTTP/1.1 403"))


# ---- tokens come and go --------------------------------------------------------------------------


def test_a_token_that_is_revoked_is_refused_on_an_open_connection(guarded):
    connection = guarded.connection()
    token = guarded.tokens["operator"]
    assert guarded.get(JOBS, token=token, connection=connection).status == 200
    assert guarded.cli("token", "revoke", "the-operator", "--yes").returncode == 0
    wait_until(lambda: guarded.get(JOBS, token=token, connection=connection).status == 401, "being refused")
    assert guarded.get(JOBS, token=guarded.tokens["viewer"]).status == 200


def test_what_is_under_way_when_its_token_is_revoked_hands_out_nothing(guarded):
    """A stream ends at its next event, a long poll is refused, and the job is there for who may have it."""
    token = guarded.tokens["operator"]
    streaming, waiting = guarded.connection(), guarded.connection()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    streaming.request("GET", "/api/v1/events", headers=headers)
    stream = streaming.getresponse()
    waiting.request("POST", "/api/v1/leases", '{"worker_id":"w","wait_ms":60000}', headers)
    assert guarded.cli("token", "revoke", "the-operator", "--yes").returncode == 0
    wait_until(lambda: guarded.get(JOBS, token=token).status == 401, "being refused")
    assert guarded.post(JOBS, {"action": "a", "job_id": "late"}, token=guarded.tokens["admin"]).status == 201
    assert waiting.getresponse().status == 401
    wait_until(lambda: guarded.get(JOBS + "/late", token=guarded.tokens["admin"]).json["state"] == "pending", "being given back")
    assert guarded.get(JOBS + "/late", token=guarded.tokens["admin"]).json["attempt"] == 0
    assert b"late" not in stream.read()


def test_when_all_tokens_are_revoked_nobody_gets_in(guarded):
    for role in ROLES[1:]:
        assert guarded.cli("token", "revoke", f"the-{role}", "--yes").returncode == 0
    wait_until(lambda: guarded.get(JOBS).status == 401, "being refused")
    assert guarded.get(JOBS, token=None).status == 401
    assert guarded.get("/healthz", token=None).status == 200


def test_from_the_first_token_on_tokens_are_needed(server):
    connection = server.connection()
    assert server.get(JOBS, connection=connection).status == 200
    token = server.make_token("first", "viewer")
    wait_until(lambda: server.get(JOBS, connection=connection).status == 401, "being asked for a token")
    assert server.get(JOBS, token=token).status == 200
    assert server.post(JOBS, {"action": "a"}, token=token).status == 403


def test_a_token_that_expires_is_refused(guarded):
    token = guarded.make_token("short", "viewer", "--expires", "2s")
    wait_until(lambda: guarded.get(JOBS, token=token).status == 200, "being known")
    wait_until(lambda: guarded.get(JOBS, token=token).status == 401, "being refused")


def test_the_socket_of_the_directory_needs_no_token(guarded):
    connection = guarded.local()
    assert guarded.get(JOBS, token=None, connection=connection).status == 200
    assert guarded.cli("push", "--action", "a", "-o", "json").returncode == 0


# ---- the actor -----------------------------------------------------------------------------------


def test_the_actor_of_every_event_is_the_tokens_and_not_the_bodys(guarded):
    tokens = guarded.tokens
    guarded.post(JOBS, {"job_id": "j", "action": "a", "requested_by": "human:eve", "retry_policy": {"max_attempts": 1}}, token=tokens["worker"],
                 headers={"X-Lazaret-Actor": "human:eve"}).expect(201)
    lease = guarded.post("/api/v1/leases", {"worker_id": "eve"}, token=tokens["worker"]).expect(200)["leases"][0]
    failed = {"lease_id": lease["lease_id"], "status": "failed", "failure": {"message": "m", "class": "timeout", "agent_id": "eve"}}
    letter = guarded.post("/api/v1/results", failed, token=tokens["worker"]).expect(200)["results"][0]["dlq_id"]
    guarded.post(f"/api/v1/dlq/{letter}/retry", {"actor": "human:eve", "note": "n"}, token=tokens["operator"], headers={"X-Lazaret-Actor": "human:eve"})
    guarded.post(f"/api/v1/jobs/j/cancel", {"actor": "human:eve"}, token=tokens["operator"])
    actors = [(event["what"], event["actor"]) for event in events_of(guarded, "j")]
    assert [what for what, _ in actors][:3] == ["pushed", "leased", actors[2][0]] and len(actors) >= 4
    assert {actor for _, actor in actors} <= {"the-worker", "the-operator"}, actors
    assert ("pushed", "the-worker") in actors


def test_without_tokens_the_actor_is_who_the_asker_says(server):
    server.post(JOBS, {"job_id": "j", "action": "a"}, headers={"X-Lazaret-Actor": "human:ada"}).expect(201)
    server.post(JOBS, {"job_id": "k", "action": "a"}).expect(201)
    assert [event["actor"] for event in events_of(server, "j")] == ["human:ada"]
    assert [event["actor"] for event in events_of(server, "k")] == ["api"]


# ---- other sites ---------------------------------------------------------------------------------


@pytest.mark.parametrize("fields,status", [
    ({"Origin": "http://evil.example"}, 403),
    ({"Origin": "null"}, 403),
    ({"Origin": "https://localhost.evil.example"}, 403),
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Sec-Fetch-Site": "same-site"}, 403),
    ({"Sec-Fetch-Site": "Same-Origin"}, 403),
    ({"Sec-Fetch-Site": "same-origin", "Origin": "http://evil.example"}, 403),
    ({"Sec-Fetch-Site": "same-origin"}, 201),
    ({"Sec-Fetch-Site": "none"}, 201),
    ({}, 201),
])
@pytest.mark.parametrize("with_token", [False, True])
def test_a_browser_cannot_write_for_another_site(serve, guarded, with_token, fields, status):
    server = guarded if with_token else serve()
    answer = server.post(JOBS, {"action": "a"}, headers=fields)
    assert answer.status == status, answer
    if status == 403:
        assert answer.json["code"] == "refused" and "another site" in answer.json["error"]
        assert server.get(JOBS, headers=fields).status == 200  # looking is not forbidden: the answer cannot be read there
        assert "Access-Control-Allow-Origin" not in server.get(JOBS, headers=fields).headers


def test_a_page_of_the_server_itself_may_write(server):
    own = f"http://127.0.0.1:{server.port}"
    assert server.post(JOBS, {"action": "a"}, headers={"Origin": own}).status == 201
    assert server.post(JOBS, {"action": "a"}, headers={"Origin": own + "0"}).status == 403


@pytest.mark.parametrize("host,status", [("localhost", 200), ("LOCALHOST:1", 200), ("127.0.0.1", 200), ("[::1]:99", 200), ("evil.example", 403),
                                         ("localhost.evil.example", 403), ("127.0.0.1.evil.example", 403), ("", 403), ("192.0.2.1", 403)])
def test_without_tokens_only_a_loopback_name_is_answered(server, host, status):
    """Otherwise a page could have its name point here (DNS rebinding)."""
    answer = server.get(JOBS, headers={"Host": host})
    assert answer.status == status, answer
    if status == 403:
        assert "lazaret token create" in answer.json["error"]


def test_with_tokens_any_name_is_answered(guarded):
    assert guarded.get(JOBS, headers={"Host": "lazaret.example"}).status == 200


# ---- media types ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind,status", [("application/json", 201), ("application/json; charset=utf-8", 201), ("Application/JSON", 201), ("", 201), ("text/plain", 415),
                                         ("application/x-www-form-urlencoded", 415), ("multipart/form-data; boundary=x", 415), ("application/jsonp", 415),
                                         ("text/json", 415), ("*/*", 415)])
def test_a_body_must_be_json(server, kind, status):
    answer = server.post(JOBS, {"action": "a"}, type=kind)
    assert answer.status == status
    if status == 415:
        assert answer.json["code"] == "unsupported_media_type" and "application/json" in answer.json["error"]
        assert server.get(JOBS).json == []


# ---- methods, ids, headers -----------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/healthz", JOBS, "/metrics", "/api/v1/openapi.json", "/nothing", "/api/v1/jobs/none"])
def test_head_is_get_without_a_body(server, path):
    got, head = server.get(path), server.request("HEAD", path)
    assert (head.status, head.body) == (got.status, b"")
    assert head.headers.get_content_type() == got.headers.get_content_type()
    if path != "/metrics":
        assert head.headers["Content-Length"] == str(len(got.body))


def test_options_and_others_are_405_with_what_is_allowed(server):
    for method in ["OPTIONS", "DELETE", "PATCH", "TRACE"]:
        answer = server.request(method, JOBS)
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD, POST")
        assert "Access-Control-Allow-Methods" not in answer.headers


@pytest.mark.parametrize("given,kept", [("abc-DEF_1.2", True), ("a" * 64, True), ("a" * 65, False), ("", False), ("a b", False), ("a\"b", False), ("a;b", False),
                                        ("\u00e9", False), ("<script>", False)])
def test_a_request_id_is_echoed_when_it_is_a_plain_word(server, given, kept):
    echoed = server.get("/healthz", headers={"X-Request-Id": given.encode("latin-1")}).headers["X-Request-Id"]
    assert (echoed == given) if kept else re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]+", echoed)


def test_request_ids_that_are_made_differ(server):
    assert len({server.get("/healthz").headers["X-Request-Id"] for _ in range(20)}) == 20


def test_every_answer_carries_the_headers_that_keep_browsers_honest(guarded):
    admin, none = guarded.tokens["admin"], None
    answers = [guarded.get("/healthz"), guarded.get(JOBS), guarded.get(JOBS, token=none), guarded.get(JOBS, token="x"), guarded.get("/nothing"), guarded.request("DELETE", JOBS),
               guarded.post(JOBS, "{"), guarded.post(JOBS, "x", type="text/plain"), guarded.post(JOBS, {"action": "a"}, headers={"Origin": "http://evil.example"}),
               guarded.post(JOBS, {"action": "a"}, token=guarded.tokens["viewer"]), guarded.get("/metrics"), guarded.get("/api/v1/openapi.json"), guarded.get("/"),
               guarded.get(JOBS + "?x=y"), guarded.request("HEAD", JOBS)]
    assert {answer.status for answer in answers} >= {200, 400, 401, 403, 404, 405, 415}
    for answer in answers:
        assert answer.headers["X-Request-Id"], answer
        for name, value in SECURITY.items():
            assert name in answer.headers, (name, answer)
            assert answer.headers[name] == value or answer.headers.get_content_type() == "text/html", (name, answer)
    status, headers, _ = head_of(guarded, "GET", "/api/v1/events", admin)
    assert status == 200 and all(headers[name] == value for name, value in SECURITY.items())
    for bad in [b"GET * HTTP/1.1\r\nHost: a\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n"]:
        with guarded.socket() as sock:
            sock.sendall(bad)
            said = sock.recv(65536).decode()
        assert all(f"{name}: {value}\r\n" in said for name, value in SECURITY.items()), said


# ---- where it listens ----------------------------------------------------------------------------


def own_address():
    """An address of this machine that is not loopback, when there is one; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            address = probe.getsockname()[0]
        except OSError:
            return None
    return None if address.startswith(("127.", "0.")) else address


def refusal(server, *args):
    """Starts a server that must not start: (exit code, what it said)."""
    done = subprocess.run([PROGRAM, "serve", "--data", str(server.data), *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=server.env, timeout=PATIENCE)
    return done.returncode, done.stderr


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_without_tokens_it_does_not_listen_for_other_machines(serve, address):
    if address.startswith("[") and not socket.has_ipv6:
        pytest.skip("there is no IPv6")
    code, said = refusal(serve(start=False), "--listen", address)
    if "cannot be listened on" in said:
        pytest.skip("there is no IPv6")
    assert code == 4 and "can be reached from other machines" in said and "lazaret token create" in said


def test_with_tokens_others_may_ask_and_without_one_they_may_not(serve):
    address = own_address()
    if not address:
        pytest.skip("this machine has no address but loopback")
    server = serve(start=False, listen=f"{address}:0")
    server.data.mkdir(mode=0o700)
    token = server.make_token("ada", "admin")
    server.start()
    assert server.host == address
    assert server.get(JOBS).status == 401 and server.get(JOBS, token=token).status == 200
    assert server.get("/healthz").status == 200
    assert "unencrypted" in server.stderr


@pytest.mark.parametrize("address,words", [("nonsense", "is no address"), ("127.0.0.1:99999", "is no address"), ("127.0.0.1:", "is no address"), ("::1:80", "is no address"),
                                           ("127.0.0.1:-1", "is no address"), ("host.invalid:80", "cannot be listened on")])
def test_an_address_that_is_none_is_wrong_usage(serve, address, words):
    code, said = refusal(serve(start=False), "--listen", address)
    assert code == 2 and words in said


def test_a_port_that_is_taken_is_said(serve, server):
    code, said = refusal(serve(start=False), "--listen", f"127.0.0.1:{server.port}")
    assert code == 5 and "cannot be listened on" in said and "in use" in said


def test_a_second_server_on_the_directory_says_who_owns_it(server):
    code, said = refusal(server, "--listen", "127.0.0.1:0")
    assert code == 5 and str(server.pid) in said and server.url in said


# ---- TLS -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A certificate for localhost with its key, and the key of another."""
    folder = tmp_path_factory.mktemp("tls")
    for name in ["own", "other"]:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem"], check=True, capture_output=True)
    return folder


def tls_flags(folder, certificate="own.pem", key="own.key"):
    return "--tls-cert", folder / certificate, "--tls-key", folder / key


def test_https_works_and_its_certificate_is_the_one_given(serve, certificates):
    context = ssl.create_default_context(cafile=certificates / "own.pem")
    server = serve(*tls_flags(certificates), context=context)
    assert server.url.startswith("https://")
    connection = server.connection()
    for number in range(5):
        assert server.post(JOBS, {"job_id": f"j{number}", "action": "a"}, connection=connection).status == 201
    assert len(server.lease("default", count=9, wait_ms=1000)) == 5
    assert server.lease("default", wait_ms=50) == []
    assert server.post(JOBS, {"action": "a", "inputs": {"text": "x" * 900000}}).status == 201
    assert connection.sock.version() in ("TLSv1.2", "TLSv1.3")
    for version in [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1]:
        ancient = ssl.create_default_context(cafile=certificates / "own.pem")
        ancient.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning):
            ancient.minimum_version = version
            ancient.maximum_version = version
        with pytest.raises((ssl.SSLError, ConnectionError)), socket.create_connection((server.host, server.port)) as sock:
            ancient.wrap_socket(sock, server_hostname="localhost")


def test_what_is_no_tls_on_its_port_is_cut_off_and_others_are_served(serve, certificates):
    server = serve(*tls_flags(certificates))
    for data in [b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", os.urandom(500), b"\x16\x03\x01\x00\x05nonsense", b"\x80\x2e\x01"]:
        with server.socket() as sock:
            said = b""
            try:
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
                while got := sock.recv(4096):
                    said += got
            except OSError:
                pass  # it was cut off before all was said
        assert not said.startswith(b"HTTP/")
    assert server.get("/healthz").status == 200


def test_a_worker_that_leaves_over_tls_holds_no_job(serve, certificates):
    server = serve(*tls_flags(certificates))
    for number in range(10):
        connection = server.connection()
        body = json.dumps({"worker_id": "gone", "wait_ms": 600000, "lease_ms": 3600000})
        connection.request("POST", "/api/v1/leases", body=body, headers={"Content-Type": "application/json"})
        server.get("/healthz")
        if number % 2:
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sock.close()
        server.push(job_id=f"j{number}")
        [lease] = server.lease("default", wait_ms=30000, lease_ms=3600000)
        assert (lease["job_id"], lease["attempt"]) == (f"j{number}", 1)


@pytest.mark.parametrize("certificate,key,words", [
    ("own.pem", "other.key", "do they belong together"),
    ("own.key", "own.pem", "do they belong together"),
    ("nothing.pem", "own.key", "nothing.pem"),
    ("own.pem", None, "give both or neither"),
])
def test_a_certificate_and_a_key_that_do_not_go_together_are_said(serve, certificates, certificate, key, words):
    flags = ["--tls-cert", str(certificates / certificate)] + (["--tls-key", str(certificates / key)] if key else [])
    code, said = refusal(serve(start=False), "--listen", "127.0.0.1:0", *flags)
    assert code in (2, 5) and words in said, (code, said)


# ---- what is masked ------------------------------------------------------------------------------


def test_what_the_rules_name_is_masked_below_reviewer(serve):
    server = serve(start=False, config="redact:\n  - /inputs/card\n")
    server.data.mkdir(mode=0o700)
    tokens = {role: server.make_token(f"the-{role}", role) for role in ROLES[1:]}
    server.start()
    server.token = tokens["admin"]
    letter = server.dead(DENIED, job_id="j", inputs={"card": "4111-1111-1111-1111", "name": "ada"})
    server.push(job_id="k", queue="q", inputs={"card": "4111-1111-1111-1111", "name": "ada"})
    for role, masked in [("viewer", True), ("worker", True), ("operator", True), ("reviewer", False), ("admin", False)]:
        for path in [f"/api/v1/dlq/{letter}", "/api/v1/dlq", JOBS + "/k", JOBS, JOBS + "/j"]:
            answer = server.get(path, token=tokens[role])
            assert answer.status == 200
            assert ("4111" not in answer.text) == masked or "card" not in answer.text, (role, path, answer.text[:500])
            if masked and "card" in answer.text:
                assert '"[redacted]"' in answer.text
    # A worker needs what it works on.
    [lease] = server.post("/api/v1/leases", {"worker_id": "w", "queues": ["q"]}, token=tokens["worker"]).expect(200)["leases"]
    assert lease["job"]["inputs"]["card"] == "4111-1111-1111-1111"
