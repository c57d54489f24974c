"""Ten thousand requests that are wrong, and what becomes of them.

Every case is made from a seed and its number alone.  A failure prints both and the bytes; `LAZARET_SEED` and
`LAZARET_CASES` (numbers, with commas between) run it again.

A request that is wrong carries a second one in its tail: a push whose job must never exist.  What may follow a case:

    REFUSED  the request is whole: it is answered with 4xx, 501 or 505.  When the connection is left open, the next
             request on it must be answered, and be the one that was sent
    LINES    lines that are each wrong: 200, and an error for each
    CUT      the request never becomes whole: an answer as above, or none; then the end
    NOISE    not recognisable as HTTP: the same
    ENDLESS  a head or a body that goes on long after its limit: refused, or cut off, as nobody waits for its end (and an end
             before all was read can reach the client before the answer does)
    CROWDED  an address with thousands of parameters: libmicrohttpd has no room for them and ends the connection
    AFTER    a good request, then noise: 200, then as above
"""

import concurrent.futures
import json
import os
import random
import re
import socket

import pytest
from conftest import PATIENCE, wait_until

COUNT = 10000
SEED = int(os.environ.get("LAZARET_SEED", "20260213"))
CASES = [int(n) for n in os.environ.get("LAZARET_CASES", "").split(",") if n] or range(COUNT)
CLIENTS = 4
WAVE = 600
MEMORY_MAX = 64 << 20  # what the server may have grown by; its pools and the page cache of the store are in it

REFUSED, LINES, CUT, NOISE, ENDLESS, CROWDED, AFTER = "refused", "lines", "cut", "noise", "endless", "crowded", "after"
HOST = b"Host: localhost\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
PUSH = b"POST /api/v1/jobs HTTP/1.1\r\n"


def job(name):
    return json.dumps({"job_id": name, "action": "a"}).encode()


def length(body):
    return b"Content-Length: %d\r\n" % len(body)


def smuggled(number):
    """A whole push, for the tail of a request that must be refused."""
    body = job(f"smuggled-{number}")
    return PUSH + HOST + length(body) + b"\r\n" + body


def chunk(body):
    return b"%x\r\n%b\r\n" % (len(body), body)


def get(path, more=b""):
    return b"GET " + path + b" HTTP/1.1\r\n" + HOST + more + b"\r\n"


def post(body, head=b"", path=b"/api/v1/jobs"):
    return b"POST " + path + b" HTTP/1.1\r\n" + HOST + head + length(body) + b"\r\n" + body


# ---- the cases: each takes a Random and a number, and gives the bytes and the rule ---------------------------------


def length_that_is_no_number(rng, n):
    value = rng.choice([b"-1", b"+5", b"0x10", b"1e3", b"", b" ", b"ten", b"5;", b"5,", b"1 0", b"5, 5", b"5,6", b"\xb2", b"9" * 30, b"-0",
                        b"5.0", b"5\t5", b"18446744073709551616", b"99999999999999999999", b"1_0"])
    return PUSH + HOST + b"Content-Length: " + value + b"\r\n\r\n" + smuggled(n), REFUSED


def length_twice(rng, n):
    body = job(f"smuggled-{n}")
    lines = [length(body), rng.choice([b"Content-Length: 0\r\n", b"content-length: 5\r\n", length(body), b"CONTENT-LENGTH: 99\r\n"])]
    rng.shuffle(lines)
    return PUSH + HOST + lines[0] + rng.choice([b"", b"X-A: b\r\n"]) + lines[1] + b"\r\n" + body, REFUSED


def length_too_big(rng, n):
    return PUSH + HOST + b"Content-Length: %d\r\n\r\n" % rng.choice([4194305, 1 << 31, 1 << 32, (1 << 32) + 5, 1 << 53, 10**17]) + smuggled(n), REFUSED


def length_beside_chunks(rng, n):
    body = job(f"smuggled-{n}")
    lines = [CHUNKED, rng.choice([b"Content-Length: 0\r\n", b"Content-Length: 4\r\n", length(body)])]
    rng.shuffle(lines)
    return PUSH + HOST + b"".join(lines) + b"\r\n" + rng.choice([chunk(body) + b"0\r\n\r\n", b"0\r\n\r\n" + smuggled(n)]), REFUSED


def encoding_that_is_unknown(rng, n):
    value = rng.choice([b"xchunked", b"chunked, chunked", b"identity", b"gzip, chunked", b"chunked, identity", b"\x0bchunked", b"chunked\x0c", b"'chunked'",
                        b"", b"chunked;q=1", b"chunk", b"chunked ", b"chunked\t", b"CHUNKEDX", b"cow", b", chunked", b"chunked,"])
    return PUSH + HOST + b"Transfer-Encoding: " + value + b"\r\n\r\n" + chunk(job(f"smuggled-{n}")) + b"0\r\n\r\n", REFUSED


def encoding_twice(rng, n):
    other = rng.choice([CHUNKED, b"Transfer-Encoding: identity\r\n", b"transfer-encoding: x\r\n"])
    lines = [CHUNKED, other]
    rng.shuffle(lines)
    return PUSH + HOST + b"".join(lines) + b"\r\n" + b"0\r\n\r\n" + smuggled(n), REFUSED


def encoding_of_an_older_version(rng, n):
    body = job(f"smuggled-{n}")
    return b"POST /api/v1/jobs HTTP/1.0\r\n" + HOST + CHUNKED + b"\r\n" + chunk(body) + b"0\r\n\r\n", REFUSED


def header_that_is_folded(rng, n):
    fold = rng.choice([b"\r\n ", b"\r\n\t", b"\r\n  \t ", b"\n ", b" \r\n "])
    line = rng.choice([b"Transfer-Encoding:" + fold + b"chunked\r\n", b"Content-Length:" + fold + b"%d\r\n" % len(smuggled(n)), b"X-A: b" + fold + b"c\r\n",
                       b"X-A: b" + fold + b"Transfer-Encoding: chunked\r\n", b"X-A:" + fold + b"\r\n", b"Content-Length: 1" + fold + b"2\r\n"])
    return PUSH + HOST + line + b"\r\n" + rng.choice([b"", b"0\r\n\r\n"]) + smuggled(n), REFUSED


def header_with_a_bad_name(rng, n):
    body = job(f"smuggled-{n}")
    line = rng.choice([b"Content-Length : 5\r\n", b"Transfer-Encoding\t: chunked\r\n", b" X-A: b\r\n", b"X A: b\r\n", b"X\x01A: b\r\n", b": b\r\n", b":\r\n",
                       b"X(A): b\r\n", b"X\xffA: b\r\n", b"\"X\": b\r\n", b"X\x7f: b\r\n", b"no colon\r\n", b"\0\r\n", b"X\0A: b\r\n", b"[x]: b\r\n", b"X@: b\r\n"])
    lines = [line, length(body)]
    rng.shuffle(lines)
    return PUSH + HOST + b"".join(lines) + b"\r\n" + body + smuggled(n), REFUSED


def header_with_a_bad_value(rng, n):
    body = job(f"smuggled-{n}")
    bad = bytes([rng.choice([0, 1, 7, 8, 11, 12, 13, 27, 31, 127])])
    line = b"X-A: " + rng.choice([b"", b"a"]) + bad + b"b\r\n"
    return PUSH + HOST + line + length(body) + b"\r\n" + body + smuggled(n), REFUSED


def line_that_ends_wrong(rng, n):
    request = post(job(f"smuggled-{n}"))
    places = [m.start() for m in re.finditer(b"\r\n", request)]
    at = rng.choice(places)
    return request[:at] + rng.choice([b"\n", b"\r\r\n", b"\0\r\n"]) + request[at + 2:] + smuggled(n), REFUSED


def host_that_is_wrong(rng, n):
    return b"GET /healthz HTTP/1.1\r\n" + rng.choice([b"", HOST + HOST, HOST + b"host: other\r\n", b"Hosts: a\r\n"]) + b"\r\n" + smuggled(n), REFUSED


def chunk_with_a_bad_size(rng, n):
    body = job(f"smuggled-{n}")
    size = rng.choice([b"", b"-1", b"+5", b"0x5", b"5 ", b" 5", b"5\t", b"g", b"zz", b"\xff", b"1" * 17, b"f" * 40, b"5,", b"5.", b"\0", b"5\0", b";a=b", b"5h"])
    return PUSH + HOST + CHUNKED + b"\r\n" + size + b"\r\n" + body + b"\r\n0\r\n\r\n" + smuggled(n), REFUSED


def chunk_with_a_wrong_end(rng, n):
    body = job(f"smuggled-{n}")
    shift = rng.choice([-9, -2, -1, 1, 3])
    piece = b"%x\r\n%b" % (len(body) + shift, body)
    if shift > 0:
        piece += b"x" * (shift + 2)
    return PUSH + HOST + CHUNKED + b"\r\n" + piece + rng.choice([b"", b"\r", b"0\r\n\r\n", b"x\r\n0\r\n\r\n"]) + b"\r\n0\r\nx\r\n" + smuggled(n), REFUSED


def trailer(rng, n):
    body = job(f"smuggled-{n}")
    line = rng.choice([b"X-A: b\r\n", b"Content-Length: 5\r\n", b": x\r\n", b"X-A: b\r\n: x\r\n", b"no colon\r\n", b"Transfer-Encoding: chunked\r\n", b" x: y\r\n"])
    return PUSH + HOST + CHUNKED + b"\r\n" + chunk(body) + b"0\r\n" + line + b"\r\n" + smuggled(n), REFUSED


def version_that_is_unknown(rng, n):
    version = rng.choice([b"HTTP/1.2", b"HTTP/2.0", b"HTTP/3.7", b"HTTP/0.9", b"HTTP/9.9", b"HTTP/1.10", b"http/1.1", b"HTTP/1", b"HTTP/1.", b"HTTP/11", b"HTTP/-1.1",
                          b"HTTPS/1.1", b"HTTP/1.1x", b"HTTP/1.1 x", b"HTTP 1.1", b"HTTP/1,1", b"HTP/1.1", b"HTTP/1.1\x0b", b"HTTP/x.y", b"HTTP/2", b"ICY/1.1"])
    return b"GET /healthz " + version + b"\r\n" + HOST + b"\r\n" + smuggled(n), REFUSED


def version_that_is_missing(rng, n):
    return rng.choice([b"GET /healthz\r\n", b"GET /\r\n\r\n", b"POST /api/v1/jobs\r\n" + HOST + b"\r\n", b"GET /healthz \r\n\r\n"]) + smuggled(n), REFUSED


def preface_of_http_2(rng, n):
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + rng.randbytes(rng.randrange(64)) + smuggled(n), REFUSED


def spaces_in_the_first_line(rng, n):
    line = rng.choice([b"GET  /healthz HTTP/1.1", b"GET /healthz  HTTP/1.1", b"GET /heal thz HTTP/1.1", b"GET /healthz HTTP/1.1 ", b"GET /healthz\tx HTTP/1.1",
                       b"GET /healthz \x0bHTTP/1.1", b"GET /healthz\0 HTTP/1.1", b"GET\0 /healthz HTTP/1.1", b"GET /healthz x HTTP/1.1"])
    return line + b"\r\n" + HOST + b"\r\n" + smuggled(n), REFUSED


def method_that_is_malformed(rng, n):
    method = rng.choice([b"G(T", b"G@T", b"GET,", b"G\x01T", b"G\xffT", b"\"GET\"", b"{}", b"G[", b"GET/", b"G:T", b"a=b"])
    return method + b" /healthz HTTP/1.1\r\n" + HOST + b"\r\n" + smuggled(n), REFUSED


def method_that_is_unknown(rng, n):
    method = rng.choice([b"BREW", b"get", b"TRACE", b"TRACK", b"PROPFIND", b"DELETE", b"PATCH", b"LOCK", b"X" * rng.choice([20, 200, 3000]), b"M-SEARCH", b"CONNECT",
                         b"OPTIONS"])
    path = rng.choice([b"/healthz", b"/api/v1/jobs", b"/nothing", b"/api/v1/dlq/x/retry"])
    return method + b" " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n", REFUSED


def address_of_another_form(rng, n):
    address = rng.choice([b"*", b"localhost:80", b"healthz", b"ftp://localhost/healthz", b"http://evil.example/healthz", b"http:///healthz", b"http://localhost",
                          b"http://localhost?/healthz", b"//localhost/healthz", b"http:/healthz", b"http://user@localhost/healthz", b"http://localhost:1/healthz",
                          b"https://localhost.evil.example/healthz", b"javascript:alert(1)", b"file:///etc/passwd", b"?", b"#", b"\\healthz"])
    return rng.choice([b"GET", b"OPTIONS", b"CONNECT", b"POST"]) + b" " + address + b" HTTP/1.1\r\n" + HOST + b"\r\n" + smuggled(n), REFUSED


def path_with_a_trick(rng, n):
    path = rng.choice([b"/../healthz", b"/api/../healthz", b"/%2e%2e/healthz", b"/./healthz", b"//healthz", b"/healthz//", b"/healthz/..", b"/healthz%00", b"/healthz%20",
                       b"/%68ealthz", b"/healthz;a=b", b"/healthz.json", b"/HEALTHZ", b"/api/v1/jobs/%00", b"/api/v1/jobs/a%00b", b"/api/v1/jobs/a%2F..%2Fb",
                       b"/api/v1/jobs/%2e%2e%2f%2e%2e%2fetc%2fpasswd", b"/api/v1/jobs/..", b"/api/v1/jobs/a/../b", b"/api/v1/dlq/%2F", b"/api/v1//jobs", b"/api/v1/dlq//retry",
                       b"/api%2fv1/jobs", b"/api/v1/jobs/%", b"/api/v1/jobs/%a", b"/api/v1/jobs/%zz", b"/api/v1/jobs/%u0041", b"/api/v1/jobs/" + b"a" * 201,
                       b"/" + b"../" * rng.randrange(1, 99) + b"etc/passwd", b"/" + b"%2e%2e%2f" * rng.randrange(1, 99), b"/" + b"a/" * 2000])
    return get(path), REFUSED


def path_or_query_that_is_no_utf_8(rng, n):
    bad = rng.choice([b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\x80", b"\xe2\x82", b"\xf0\x9f"])
    quoted = b"".join(b"%%%02X" % byte for byte in bad)
    where = rng.choice([b"/api/v1/jobs/%b", b"/api/v1/jobs?queue=%b", b"/api/v1/dlq?reason=%b", b"/api/v1/dlq/%b", b"/api/v1/jobs?%b=x"])
    return get(where % rng.choice([bad, quoted, b"a" + quoted + b"b"])), REFUSED


def query_that_is_wrong(rng, n):
    query = rng.choice([b"queue=a&queue=b", b"limit=-1", b"limit=%00", b"limit=1e9", b"limit=9" + b"9" * 40, b"nothing=1", b"cursor=x", b"limit=%zz", b"queue=%", b"&&&=",
                        b"=", b"queue=a%00b", b"state=sleeping", b"a=" * 300, b"%00=1"])
    return get(b"/api/v1/jobs?" + query), REFUSED


def address_with_bytes_that_do_not_belong(rng, n):
    bad = bytes([rng.choice([1, 9, 11, 13, 31, 34, 35, 60, 62, 92, 94, 96, 123, 124, 125, 127, 128, 200, 255])])
    return get(b"/healthz" + rng.choice([b"", b"?", b"/a"]) + bad + b"a"), REFUSED


def head_that_is_huge(rng, n):
    size = rng.choice([9000, 10000, 17000, 40000, 70000, 200000])
    rule = REFUSED if size <= 10000 else ENDLESS
    kind = rng.randrange(4)
    if kind == 0:
        return get(b"/" + b"a" * size), rule
    if kind == 1:
        return get(b"/healthz", b"X-A: " + b"b" * size + b"\r\n"), rule
    if kind == 2:
        return get(b"/healthz", b"X-A: b\r\n" * (size // 8)), rule
    return get(b"/healthz?" + b"a=b&" * (size // 4)), CROWDED


def body_that_is_no_json(rng, n):
    good = job(f"smuggled-{n}")
    at = rng.randrange(1, len(good) - 1)
    body = rng.choice([b"", b"{", b"[", b"nul", b"\xff\xfe" + good, b"\xef\xbb\xbf" + good, good[:at], good + b"}", good + good, good.replace(b"a\"}", b"\xff\"}"), b"\0" + good,
                       good.replace(b":", b"=", 1), b"{'action':'a'}", b"{\"action\":\"a\",}", b"{\"action\":\"a\\ud800\"}", b"{\"action\":\"\\u0000\"}", b"[[]]x", b"\"a\"", b"12",
                       b"true", b"null", b"{\"action\":\"a\nb\"}", b"{\"action\":01}", b"{action:1}", rng.randbytes(rng.randrange(1, 300))])
    return post(body), REFUSED


def body_that_is_a_bomb(rng, n):
    depth = rng.choice([300, 5000, 200000])
    digits = rng.choice([b"9" * 5000, b"1e" + b"9" * 300, b"0." + b"1" * 50000, b"-" + b"9" * 400000])
    body = rng.choice([b"[" * depth, b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth, b'{"action":"a","inputs":' + b"[" * depth + b"]" * depth + b"}",
                       b'{"action":"a","priority":' + digits + b"}", b'{"action":' + digits + b"}", b'{"action":"a","job_id":"' + b"j" * 300000 + b'"}',
                       b'{"action":"a","inputs":"' + b"a" * (1100 << 10) + b'"}', b'{"action":"' + b"\\u0041" * 100000 + b'","queue":7}'])
    return post(body), REFUSED


def lines_that_are_broken(rng, n):
    wrong = [b"{", b"}", b"{\"action\"", b"\xff", b"[]", b"1", b"{\"queue\":\"q\"}", b"{\"action\":7}", b"nul", b"{\"action\":\"a\"} x", b"\0", b"{\"action\":\"a\",\"priority\":99}"]
    body = b"\n".join(rng.choice(wrong) for _ in range(rng.randrange(1, 60)))
    return post(body, b"Content-Type: application/x-ndjson\r\n"), LINES


def body_of_another_kind(rng, n):
    kind = rng.choice([b"text/plain", b"application/xml", b"multipart/form-data; boundary=x", b"application/x-www-form-urlencoded", b"application/jsonx", b"json", b"text/json",
                       b"image/png", b"a" * 3000])
    return post(job(f"smuggled-{n}"), b"Content-Type: " + kind + b"\r\n") + smuggled(n), REFUSED


def body_for_a_path_that_is_not_there(rng, n):
    body = smuggled(n)
    path = rng.choice([b"/nothing", b"/api/v1/job", b"/api/v2/jobs", b"/api/v1/dlq/a/b/c"])
    if rng.random() < 0.5:
        return b"POST " + path + b" HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\n" + chunk(body) + b"0\r\n\r\n", REFUSED
    return post(body, path=path), REFUSED


def request_that_is_cut(rng, n):
    body = job(f"smuggled-{n}")
    whole = rng.choice([post(body), PUSH + HOST + CHUNKED + b"\r\n" + chunk(body) + b"0\r\n\r\n", get(b"/healthz")])
    return whole[:rng.randrange(1, len(whole))], CUT


def body_that_is_shorter_than_it_says(rng, n):
    body = job(f"smuggled-{n}")
    more = rng.choice([1, 5, 1000, 4000000])
    if rng.random() < 0.5:
        return PUSH + HOST + CHUNKED + b"\r\n" + rng.choice([b"%x" % (len(body) + more), b"f" * 16, b"7" * 15]) + b"\r\n" + body, CUT
    return PUSH + HOST + b"Content-Length: %d\r\n\r\n" % (len(body) + more) + body, CUT


def body_without_an_end(rng, n):
    piece = chunk(b"x" * 0x10000)
    return PUSH + HOST + CHUNKED + b"\r\n" + piece * rng.choice([300, 400]), ENDLESS


def noise(rng, n):
    size = rng.randrange(1, 400)
    if rng.random() < 0.05:
        return b"\r\n" * size, NOISE  # empty lines before a request are no fault
    return rng.choice([
        rng.randbytes(size),
        rng.randbytes(size) + b"\r\n\r\n",
        b"\0" * size,
        b"\r" * size,
        bytes(rng.choice(b"GETPOSHTP/1. \r\n:") for _ in range(size)),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(508),  # the hello of TLS
        b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + rng.randbytes(160),
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"EHLO localhost\r\nMAIL FROM:<a@b>\r\n",
        b"\x00\x00\x00\x08\x04\xd2\x16\x2f",  # Postgres asks for TLS
        b"*1\r\n$4\r\nPING\r\n",
        b"GET\t/healthz\tHTTP/1.1\r\n" + HOST + b"\r\n",
        b" GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET\r\n\r\n",
        b"/healthz\r\n\r\n",
        post(job(f"smuggled-{n}")).replace(b"\r\n", b"\r"),
    ]) + (smuggled(n) if rng.random() < 0.3 else b""), NOISE


def good_and_then_noise(rng, n):
    after = rng.choice([b"\xff" + rng.randbytes(60) + b"\r\n", b"GET\r\n", b"x" * 70000, b"GET /healthz HTTP/7.0\r\n\r\n", b"POST /api/v1/jobs HTTP/1.1\r\n: x\r\n\r\n",
                        b"POST /api/v1/jobs HTTP/1.1\r\nContent-Length: x\r\n\r\n"])
    return get(b"/healthz") + after + smuggled(n), AFTER


KINDS = [length_that_is_no_number, length_twice, length_too_big, length_beside_chunks, encoding_that_is_unknown, encoding_twice, encoding_of_an_older_version,
         header_that_is_folded, header_with_a_bad_name, header_with_a_bad_value, line_that_ends_wrong, host_that_is_wrong, chunk_with_a_bad_size, chunk_with_a_wrong_end,
         trailer, version_that_is_unknown, version_that_is_missing, preface_of_http_2, spaces_in_the_first_line, method_that_is_malformed, method_that_is_unknown,
         address_of_another_form, path_with_a_trick, path_or_query_that_is_no_utf_8, query_that_is_wrong, address_with_bytes_that_do_not_belong, head_that_is_huge,
         body_that_is_no_json, body_that_is_a_bomb, lines_that_are_broken, body_of_another_kind, body_for_a_path_that_is_not_there, request_that_is_cut,
         body_that_is_shorter_than_it_says, noise, good_and_then_noise]
SELDOM = [body_without_an_end]  # they take their time


def make(number):
    """Case `number`: its kind, its bytes and its rule."""
    rng = random.Random(f"{SEED}:{number}")
    kind = SELDOM[number // 1000 % len(SELDOM)] if number % 1000 == 999 else KINDS[number % len(KINDS)]
    return kind, *kind(rng, number)


# ---- asking --------------------------------------------------------------------------------------------------------


class Talk:
    """A connection on which everything may happen."""

    def __init__(self, server):
        self.sock = server.socket()
        self.data = b""
        self.ended = False

    def send(self, data):
        try:
            self.sock.sendall(data)
        except (ConnectionResetError, BrokenPipeError):
            pass  # it has said all that it wanted to

    def half_close(self):
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def receive(self):
        """Takes what there is; false at the end.  Nothing for PATIENCE seconds is a hang, and an error."""
        try:
            got = self.sock.recv(65536)
        except ConnectionResetError:
            got = b""
        self.data += got
        self.ended = self.ended or not got
        return bool(got)

    def answer(self):
        """The next answer: (status, head, body); None when the connection ended before one."""
        while True:
            head, separator, rest = self.data.partition(b"\r\n\r\n")
            if separator and head.startswith(b"HTTP/1.1 100"):
                self.data = rest
                continue
            size = re.search(rb"\r\nContent-Length: (\d+)", head, re.I) if separator else None
            if separator and (self.ended or size and len(rest) >= int(size.group(1))):
                size = int(size.group(1)) if size else len(rest)
                self.data = rest[size:]
                return int(head[9:12]), head, rest[:size]
            if self.ended:
                return None
            self.receive()

    def to_the_end(self):
        while not self.ended:
            self.receive()

    def close(self):
        self.sock.close()


def is_refusal(status):
    return 400 <= status < 500 or status in (501, 505)


def check_refused(talk, number):
    answer = talk.answer()
    assert answer, "it was not answered"
    assert is_refusal(answer[0]), answer
    if b"connection: close" in answer[1].lower():
        talk.to_the_end()
        return answer
    talk.send(get(b"/healthz", b"X-Request-Id: next-%d\r\n" % number))
    after = talk.answer()
    assert after and after[0] == 200 and b"next-%d" % number in after[1], (answer, after)
    return answer


def check_end(talk):
    """Whatever is still answered must be a refusal."""
    talk.to_the_end()
    answer = talk.answer()
    assert answer is None or is_refusal(answer[0]), answer


def check(talk, rule, number):
    if rule == REFUSED:
        check_refused(talk, number)
    elif rule == LINES:
        status, _, body = talk.answer()
        assert status == 200 and all("code" in entry for entry in json.loads(body)["results"]), (status, body)
    elif rule == ENDLESS:
        answer = talk.answer()
        assert answer is None or answer[0] in (413, 414, 431), answer
    elif rule == AFTER:
        answer = talk.answer()
        assert answer and answer[0] == 200, answer


class Case:
    """One case: begun, and ended a little later, as a server may take a moment to see that a client has left."""

    def __init__(self, server, number):
        self.number = number
        self.kind, self.data, self.rule = make(number)
        self.talk = Talk(server)
        self.problem = None

    def attempt(self, step):
        try:
            if not self.problem:
                step()
        except Exception as problem:
            self.problem = f"seed {SEED}, case {self.number}, {self.kind.__name__}: {type(problem).__name__} {problem}\n{self.data[:3000]!r}"

    def begin(self):
        self.talk.send(self.data)
        check(self.talk, self.rule, self.number)
        self.talk.half_close()

    def end(self):
        if self.rule not in (REFUSED, LINES, ENDLESS):
            check_end(self.talk)

    def run(self):
        self.attempt(self.begin)
        return self

    def finish(self):
        self.attempt(self.end)
        self.talk.close()
        return self.problem


def run_all(server, numbers):
    """Runs cases, several at a time and some hundreds in a wave, and returns what was wrong."""
    problems = []
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        for first in range(0, len(numbers), WAVE):
            cases = list(pool.map(lambda number: Case(server, number).run(), numbers[first:first + WAVE]))
            problems += [problem for problem in map(Case.finish, cases) if problem]
    return problems


def resident(server):
    with open(f"/proc/{server.pid}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))


def open_files(server):
    return len(os.listdir(f"/proc/{server.pid}/fd"))


def is_sanitized(server):
    with open(f"/proc/{server.pid}/maps") as maps:
        return any("libasan" in line or "libtsan" in line for line in maps)


# ---- the tests -----------------------------------------------------------------------------------------------------


def test_ten_thousand_malformed_requests_are_refused_and_nothing_is_smuggled_or_leaked(serve):
    server = serve()
    print(f"seed {SEED}")
    assert run_all(server, [0]) == []
    memory, files = resident(server), open_files(server)
    problems = run_all(server, CASES)
    assert not problems, f"{len(problems)} cases; the first:\n" + "\n".join(problems[:5])
    made = [job["job_id"] for job in server.get("/api/v1/jobs?limit=1000").expect(200)]
    assert made == [], [(name, make(int(name.split("-")[1]))) for name in made[:5]]
    assert server.get("/api/v1/status").expect(200)["live"] == 0
    server.push(job_id="good")
    assert [lease["job_id"] for lease in server.lease("default")] == ["good"]
    wait_until(lambda: open_files(server) <= files, "closing what was opened")
    if not is_sanitized(server):
        assert resident(server) - memory < MEMORY_MAX
    server.stop()


def test_a_good_head_is_taken_however_it_is_cut_and_however_long(server):
    """The counterpart: what is refused above is not refused because of how it arrived."""
    plain = b"POST /api/v1/jobs?%s HTTP/1.1\r\nHost: localhost\r\nX-Tab:\tvalue\r\nX-None:\r\nX-Blanks:   a b  c\r\n%sContent-Length: %d\r\n\r\n%s"
    for number, size in enumerate([0, 100, 3000, 7500]):
        body = job(f"good-{number}")
        request = plain.replace(b"?%s", b"") % (b"X-Long: %b\r\n" % (b"y" * size), len(body), body)
        for step in ([1, 7] if size < 1000 else [997, 4096]) + [len(request)]:
            talk = Talk(server)
            for at in range(0, len(request), step):
                talk.send(request[at:at + step])
                if step == 1:
                    talk.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            status, _, said = talk.answer()
            assert status in (200, 201), (size, step, said)
            talk.send(request + get(b"/healthz") + request)
            assert [talk.answer()[0] for _ in range(3)] == [200, 200, 200]
            talk.close()
    assert len(server.get("/api/v1/jobs").json) == 4


@pytest.mark.parametrize("address", [b"/api/v1/jobs", b"http://localhost/api/v1/jobs", b"http://LOCALHOST/api/v1/jobs/"])
def test_the_absolute_form_of_this_host_is_its_path(server, address):
    talk = Talk(server)
    talk.send(get(address))
    assert talk.answer()[0] == 200
    talk.close()


@pytest.mark.parametrize("request_head,sentence", [
    (b"POST /api/v1/jobs HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "a request must have one Host header"),
    (b"POST /api/v1/jobs HTTP/1.1\r\n\r\n", "a request must have one Host header"),
    (PUSH + HOST + CHUNKED + b"Content-Length: 3\r\n\r\n", "the request says its length more than once"),
    (PUSH + HOST + b"X: a\r\n b\r\n\r\n", "folded lines"),
    (PUSH + HOST + b"X : a\r\n\r\n", "a header has a malformed name"),
    (b"GET * HTTP/1.1\r\n" + HOST + b"\r\n", "the address must be a path"),
    (b"GET /a|b HTTP/1.1\r\n" + HOST + b"\r\n", "percent-encoded"),
    (b"GET /healthz HTTP/1.2\r\n" + HOST + b"\r\n", "only HTTP/1.1 and HTTP/1.0 are understood"),
    (PUSH + HOST + b"Content-Length: 4194305\r\n\r\n", "the body is over the limit"),
])
def test_a_refusal_says_why_in_json_and_ends_the_connection(server, request_head, sentence):
    talk = Talk(server)
    talk.send(request_head)
    status, head, body = talk.answer()
    assert is_refusal(status) and sentence in json.loads(body)["error"]
    assert b"Content-Type: application/json" in head and b"nosniff" in head and b"Connection: close" in head
    talk.to_the_end()
    talk.close()
