"""--server: what is sent, and what is said when the other side is not there, not Lazaret, or goes away."""

import http.server
import json
import ssl
import subprocess
import threading

import pytest
from conftest import own_only

pytestmark = own_only

JSON = "application/json"


class Fake:
    """An HTTP server that keeps what it was sent and answers what a test says."""

    def __init__(self, answer, context=None, refuse_bodies=0):
        self.requests = []
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_expect_100(self):
                if len([r for r in fake.requests if r == "refused"]) < refuse_bodies:
                    fake.requests.append("refused")
                    self.close_connection = True
                    return False
                return super().handle_expect_100()

            def carry_out(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                if self.path.endswith("/healthz"):  # whether anybody is at home: not what a test is about
                    answered = (200, JSON, '{"status":"ok"}')
                else:
                    fake.requests.append((self.command, self.path, dict(self.headers), body, self.client_address))
                    answered = answer(self.command, self.path, body)
                if answered is None:
                    self.close_connection = True
                    return
                status, kind, text, *headers = answered
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(text.encode())))
                for name, value in headers:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_POST = do_PUT = carry_out

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def fake():
    made = []

    def make(answer, **kw):
        made.append(Fake(answer, **kw))
        return made[-1]

    yield make
    for one in made:
        one.server.shutdown()
        one.server.server_close()


def always(*answer):
    return lambda method, path, body: answer


# ---- what is sent ---------------------------------------------------------------------------------------------------


def test_a_request_says_who_asks_and_with_what(lz, fake):
    server = fake(always(200, JSON, '{"job_id":"j","state":"pending","created":true}'))
    lz.ok("push", "--action", "a", "--server", server.url, "--token", "s3cret", "--actor", "human:Zoë")
    method, path, headers, body, _ = server.requests[0]
    assert (method, path, json.loads(body)["action"]) == ("POST", "/api/v1/jobs", "a")
    assert headers["Authorization"] == "Bearer s3cret"
    assert headers["X-Lazaret-Actor"].encode("latin-1").decode() == "human:Zoë"
    assert headers["Content-Type"] == JSON and headers["User-Agent"].startswith("lazaret/")


def test_a_server_may_live_under_a_path(lz, fake):
    server = fake(always(200, JSON, "[]"))
    for end in ["", "/"]:
        lz.ok("dlq", "list", "--server", server.url + "/lazaret" + end)
    assert {request[1].split("?")[0] for request in server.requests} == {"/lazaret/api/v1/dlq"}


def test_an_id_with_dots_and_slashes_stays_one_part_of_the_path(lz, fake):
    server = fake(always(404, JSON, '{"error":"no such policy","code":"not_found"}'))
    lz.fails(3, "policy", "show", "..", "--server", server.url)
    lz.fails(3, "policy", "show", "a/b?c", "--server", server.url)
    assert [request[1] for request in server.requests] == ["/api/v1/policies/..", "/api/v1/policies/a%2Fb%3Fc"]


def test_pages_are_asked_for_over_one_connection(lz, fake):
    pages = iter(["7", "3", None])

    def answer(method, path, body):
        cursor = next(pages)
        return (200, JSON, "[]", *([("X-Next-Cursor", cursor)] if cursor else []))

    server = fake(answer)
    assert lz.ok("dlq", "export", "-", "--server", server.url) == "[]\n"
    assert [request[1].split("cursor=")[1:] for request in server.requests] == [[], ["7"], ["3"]]
    assert len({request[4] for request in server.requests}) == 1


def test_no_proxy_stands_between_this_machine_and_itself(lz, fake):
    server = fake(always(200, JSON, "[]"))
    lz.ok("dlq", "list", "--server", server.url, env={"http_proxy": "http://127.0.0.1:1"})


def test_a_file_is_sent_in_bodies_that_the_server_takes(lz, fake):
    def answer(method, path, body):
        return 200, JSON, json.dumps({"results": [{"job_id": e["job_id"], "state": "pending", "created": True}
                                                  for e in json.loads(body)]})

    server = fake(answer)
    jobs = [{"action": "a", "job_id": f"j{n}", "inputs": {"x": "y" * 900_000}} for n in range(9)]
    assert len(lz.json("push", "-", "--server", server.url, input=jobs)) == 9
    assert all(len(request[3]) <= 4 << 20 for request in server.requests)


# ---- who answers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer, said", [
    ((200, "text/html", "<html>"), "is not Lazaret, or something stands in between: it answered 200 with text/html"),
    ((502, "text/html", "<html>"), "it answered 502 with text/html"),
    ((200, JSON, "<html>"), "with something that is not JSON"),
    ((302, "text/html", "", ("Location", "https://elsewhere/x")), "sends requests on to https://elsewhere/x"),
    ((500, JSON, "{}"), "answered 500 without saying why"),
    (None, "went away before it answered"),
])
def test_an_answer_that_is_not_lazarets_is_exit_code_5(lz, fake, tmp_path, answer, said):
    (tmp_path / "quick.yml").write_text("lock_wait_seconds: 0.05\n")
    server = fake(lambda *request: answer)
    err = lz.fails(5, "dlq", "list", "--server", server.url, "--config", tmp_path / "quick.yml")
    assert said in err and err.count("\n") == 1


def test_a_refused_token_is_exit_code_4_and_says_what_to_do(lz, fake):
    server = fake(always(401, JSON, '{"error":"no","code":"unauthorized"}'))
    assert "give --token or set LAZARET_TOKEN" in lz.fails(4, "dlq", "list", "--server", server.url)
    assert "does not know this token" in lz.fails(4, "dlq", "list", "--server", server.url, "--token", "x")


def test_a_limit_says_when_to_try_again(lz, fake):
    server = fake(always(429, JSON, '{"error":"enough","code":"limit"}', ("Retry-After", "7")))
    assert "hint: try again in 7 s" in lz.fails(4, "push", "--action", "a", "--server", server.url)


def test_nobody_there_is_exit_code_5_at_once(lz, fake):
    server = fake(always(200, JSON, "[]"))
    server.server.shutdown()
    server.server.server_close()
    err = lz.fails(5, "push", "--action", "a", "--server", server.url)
    assert err == f"lazaret: no server answers at {server.url}: Connection refused\n"


@pytest.mark.parametrize("url", ["nonsense", "http://", "ftp://127.0.0.1/", "http://u:p@127.0.0.1/", "http://127.0.0.1/?q",
                                 "http://127.0.0.1:99999", "http:// x"])
def test_a_url_that_is_no_address_is_exit_code_2(lz, url):
    assert "is no address of a server" in lz.fails(2, "dlq", "list", "--server", url)


def test_what_cannot_stand_in_a_header_is_exit_code_2(lz):
    assert "token" in lz.fails(2, "dlq", "list", "--server", "http://127.0.0.1:1", "--token", "a\nb")
    assert "--actor" in lz.fails(2, "status", "--actor", "a\r\nX-Evil: 1")
    assert "--actor" in lz.fails(2, "status", env={"USER": "a\nb"})


# ---- TLS ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def certificate(tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem", "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    return context, str(tmp_path / "cert.pem")


def test_a_certificate_is_checked_against_authorities_that_can_be_named(lz, fake, certificate):
    context, authority = certificate
    server = fake(always(200, JSON, "[]"), context=context)
    err = lz.fails(5, "dlq", "list", "--server", server.url)
    assert "is not trusted" in err and "SSL_CERT_FILE" in err
    lz.ok("dlq", "list", "--server", server.url, env={"SSL_CERT_FILE": authority})
    assert "SSL_CERT_FILE" in lz.fails(5, "dlq", "list", "--server", server.url, env={"SSL_CERT_FILE": "/none.pem"})


def test_https_to_a_server_without_tls_is_explained(lz, fake):
    server = fake(always(200, JSON, "[]"))
    assert "does it speak plain http?" in lz.fails(5, "dlq", "list", "--server", server.url.replace("http", "https"))


# ---- answers that are lost ------------------------------------------------------------------------------------------


def losing(*answers):
    """Answers that come after others were lost (None)."""
    left = list(answers)
    return lambda method, path, body: left.pop(0) if len(left) > 1 else left[0]


def test_a_look_whose_answer_was_lost_is_repeated(lz, fake):
    server = fake(losing(None, (200, JSON, "[]")))
    assert lz.ok("dlq", "list", "--server", server.url, "-o", "json") == "[]\n"


def test_a_push_whose_answer_was_lost_is_sent_again_and_counts_as_created(lz, fake):
    server = fake(losing(None, (200, JSON, '{"job_id":"j","state":"running","created":false}')))
    assert lz.json("push", "--action", "a", "--job-id", "j", "--server", server.url) == {
        "job_id": "j", "state": "running", "created": True}
    assert len(server.requests) == 2 and server.requests[0][3] == server.requests[1][3]


def test_a_push_that_was_never_given_an_id_carries_one(lz, fake):
    server = fake(lambda m, p, body: (200, JSON, json.dumps({"job_id": json.loads(body)["job_id"], "state": "pending",
                                                             "created": True})))
    assert lz.json("push", "--action", "a", "--server", server.url)["job_id"][14] == "7"


def test_of_a_batch_that_was_sent_again_only_its_own_jobs_count_as_created(lz, fake):
    results = [{"job_id": "x", "state": "pending", "created": False}, {"job_id": "held", "state": "running", "created": False},
               {"error": "priority: no", "code": "invalid"}, {"job_id": "z", "state": "pending", "created": True}]
    server = fake(losing(None, (200, JSON, json.dumps({"results": results}))))
    jobs = [{"action": "a", "job_id": i} for i in "xywz"]
    done = lz.run("push", "-", "-o", "json", "--server", server.url, input=jobs)
    assert done.returncode == 2
    assert [entry.get("created") for entry in json.loads(done.stdout)] == [True, False, None, True]


@pytest.mark.parametrize("args, input", [
    (["push", "-"], [{"action": "a", "job_id": "x"}, {"action": "b"}]),
    (["policy", "set", "p", "-"], {"max_attempts": 1}),
    (["dlq", "purge", "--older-than-days", "1", "--yes"], None),
])
def test_what_must_not_happen_twice_is_not_sent_again(lz, fake, args, input):
    server = fake(lambda *request: None)
    err = lz.fails(5, *args, "--server", server.url, input=input)
    assert "whether it did what was asked is not known" in err and "audit show" in err
    assert len(server.requests) == 1


def test_a_body_that_was_never_asked_for_did_nothing(lz, fake):
    server = fake(always(200, JSON, '{"version":1}'), refuse_bodies=99)
    err = lz.fails(5, "policy", "set", "p", "-", "--server", server.url, input={"max_attempts": 1})
    assert "went away before it answered" in err and "not known" not in err
    assert server.requests == ["refused"]
