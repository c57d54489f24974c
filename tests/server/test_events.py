"""GET /api/v1/events over real connections: every event once, in order, resumable; the slow are dropped."""

import dataclasses
import json
import socket
import threading

import pytest
from conftest import PATIENCE, wait_until

EVENTS = "/api/v1/events"
RING = 8192  # events that a live reader may be behind


@dataclasses.dataclass
class Event:
    id: int
    event: str
    data: dict


class Stream:
    """One reader.  Iterating yields events, and ends with the stream; `begin` is where it said that it goes on from."""

    def __init__(self, server, query="", last=None, token=None, connection=None):
        self.connection = connection or server.connection()
        headers = {"Accept": "text/event-stream"}
        if last is not None:
            headers["Last-Event-ID"] = str(last)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self.connection.request("GET", EVENTS + query, headers=headers)
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.read()
        assert self.answer.headers["Content-Type"].startswith("text/event-stream")
        self.comments = 0
        self.begin = None
        self.events = self._events()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def __iter__(self):
        return self.events

    def blocks(self):
        lines = []
        while line := self.answer.readline():
            assert line.endswith(b"\n"), "the stream ends inside of a line"
            if line == b"\n":
                yield lines
                lines = []
            else:
                lines.append(line.decode().rstrip("\n"))
        assert not lines, "the stream ends inside of an event"

    def _events(self):
        for block in self.blocks():
            self.comments += sum(line.startswith(":") for line in block)
            assert self.comments < PATIENCE / 15, "nothing comes any more"
            fields = dict(line.split(": ", 1) for line in block if not line.startswith(":"))
            if "data" in fields:
                yield Event(int(fields["id"]), fields["event"], json.loads(fields["data"]))
            elif "retry" in fields:
                assert fields["retry"] == "1000"
                self.begin = int(fields["id"])

    def take(self, count):
        return [next(self.events) for _ in range(count)]

    def until(self, seq):
        """The events up to `seq`, or the end."""
        taken = []
        for event in self.events:
            taken.append(event)
            if event.id >= seq or event.event == "dropped":
                break
        return taken


def push_many(server, count):
    """Pushes jobs, one event each, and returns the seq of the last event."""
    answer = server.post("/api/v1/jobs", '{"action":"work"}\n' * count, type="application/x-ndjson")
    assert answer.status in (200, 201), answer
    return head(server)


def head(server):
    return server.get("/api/v1/audit/head").expect(200)["seq"]


def audit(server):
    events, after = [], 0
    while page := server.get(f"/api/v1/audit?after={after}&limit=1000").expect(200):
        events += page
        after = page[-1]["seq"]
    return events


def assert_run(events, first, last):
    assert [event.id for event in events] == list(range(first, last + 1))


# ---- what is given -------------------------------------------------------------------------------


def test_events_come_as_they_are_committed_and_say_what_the_audit_list_says(server):
    with Stream(server) as stream:
        dlq_id = server.dead()
        events = stream.until(head(server))
        assert [event.event for event in events] == ["pushed", "leased", "dead-lettered"]
        assert [event.data for event in events] == audit(server)
        assert events[-1].data["why"]["dlq_id"] == dlq_id
        assert stream.begin == 0
        server.post(f"/api/v1/dlq/{dlq_id}/discard", {"note": "one\ntwo"}).expect(200)
        [discarded] = stream.take(1)
        assert (discarded.id, discarded.event, discarded.data["why"]["note"]) == (4, "discarded", "one\ntwo")


def test_the_headers_keep_caches_and_proxies_away(server):
    with Stream(server) as stream:
        assert "no-store" in stream.answer.headers["Cache-Control"]
        assert "Content-Length" not in stream.answer.headers


def test_a_reader_resumes_with_last_event_id_or_after(server):
    last = push_many(server, 20)
    for seen in (0, 1, 7, 19):
        with Stream(server, last=seen) as stream:
            assert_run(stream.until(last), seen + 1, last)
            assert stream.begin == seen
        with Stream(server, f"?after={seen}") as stream:
            assert_run(stream.until(last), seen + 1, last)
    with Stream(server, "?after=2", last=15) as stream:  # a browser that comes back asks with both
        assert_run(stream.until(last), 16, last)


def test_a_reader_that_names_no_event_is_given_what_comes(server):
    last = push_many(server, 5)
    with Stream(server) as stream:
        assert_run(stream.until(push_many(server, 2)), last + 1, last + 2)


def test_a_filter_lets_one_kind_through(server):
    with Stream(server, "?what=dead-lettered&after=0") as stream:
        push_many(server, 50)
        server.dead(queue="other")
        [event] = stream.take(1)
        assert event.event == "dead-lettered" and event.id == head(server)


@pytest.mark.parametrize("query, last", [("?after=x", None), ("?after=-2", None), ("?since=1", None), ("", "x")])
def test_what_is_no_event_number_is_refused(server, query, last):
    answer = server.get(EVENTS + query, headers={} if last is None else {"Last-Event-ID": last})
    assert answer.expect(400)["code"] == "invalid"


def test_the_socket_of_the_directory_streams_too(server):
    last = push_many(server, 3)
    with Stream(server, last=0, connection=server.local()) as stream:
        assert_run(stream.until(last), 1, last)


# ---- many, and slow ------------------------------------------------------------------------------


def test_a_hundred_readers_are_given_everything(server):
    streams = [Stream(server) for _ in range(100)]
    last = push_many(server, 200)
    for stream in streams:
        assert_run(stream.until(last), 1, last)
    last = push_many(server, 1)
    for stream in streams:
        assert_run(stream.until(last), last, last)
        stream.connection.close()


def test_more_readers_than_there_may_be_are_asked_to_come_later(server):
    streams = [Stream(server) for _ in range(256)]
    answer = server.get(EVENTS)
    assert answer.expect(503)["code"] == "unavailable" and int(answer.headers["Retry-After"]) >= 1
    streams.pop().connection.close()

    def joins():
        push_many(server, 1)  # the server sees that the one has left when it writes
        connection = server.connection()
        connection.request("GET", EVENTS)
        if connection.getresponse().status == 200:
            streams.append(connection)
            return True
        return False

    wait_until(joins, "a place becoming free")
    for stream in streams:
        getattr(stream, "connection", stream).close()


def narrow_connection(server):
    """A connection whose client takes little before it is read."""
    connection = server.connection()
    connection.sock = socket.socket()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.sock.settimeout(PATIENCE)
    connection.sock.connect((server.host, server.port))
    return connection


def test_a_slow_reader_is_dropped_with_a_mark_while_others_go_on_and_can_come_back(server):
    with Stream(server, connection=narrow_connection(server)) as slow, Stream(server) as fast:
        push_many(server, 1)
        assert_run(slow.take(1), 1, 1)  # it is live, and reads no more
        assert_run(fast.take(1), 1, 1)
        last = 1
        while last < 4 * RING:
            following = push_many(server, 2000)
            assert_run(fast.until(following), last + 1, following)
            last = following
        *given, mark = list(slow)  # to the end of the stream, which is a proper one
    assert mark.event == "dropped" and mark.data == {"seq": mark.id}
    assert_run(given, 2, mark.id)
    assert mark.id < last
    with Stream(server, last=mark.id) as back:
        assert_run(back.until(last), mark.id + 1, last)


def test_a_reader_from_far_back_reads_all_of_it_while_more_comes(server):
    push_many(server, 5000)
    stop = threading.Event()

    def push():
        while not stop.is_set():
            push_many(server, 20)

    pusher = threading.Thread(target=push)
    with Stream(server, last=0) as stream:
        pusher.start()
        events = stream.take(6000)
        stop.set()
        pusher.join()
        last = head(server)
        if events[-1].id < last:
            events += stream.until(last)
        assert_run(events, 1, last)


# ---- the life of a stream ------------------------------------------------------------------------


def test_a_quiet_stream_gets_a_comment(server):
    with Stream(server) as stream:
        for block in stream.blocks():
            if block == [": "]:
                break
        else:
            pytest.fail("the stream ended")


def test_the_end_of_the_server_ends_the_streams(server):
    last = push_many(server, 10)
    streams = [Stream(server, last=0) for _ in range(10)]
    idle = Stream(server)
    assert_run(streams[0].until(last), 1, last)
    server.stop()
    assert list(streams[0]) == []
    for stream in streams[1:]:
        events = list(stream)
        assert_run(events, 1, len(events))
    assert list(idle) == []


def test_a_reader_follows_from_one_server_to_the_next(server):
    with Stream(server) as stream:
        seen = stream.until(push_many(server, 3))[-1].id
        server.restart()
        assert list(stream) == []
    last = push_many(server, 3)
    with Stream(server, last=seen) as stream:
        assert_run(stream.until(last), seen + 1, last)


def test_a_stream_needs_a_token_and_shows_a_viewer_the_mask(serve):
    server = serve(config={"redact": ["/event/note", "/inputs/dispatch_reference"]})
    tokens = {role: server.make_token(role, role) for role in ("admin", "reviewer", "viewer")}
    for token in tokens.values():  # they are known within a second
        wait_until(lambda: server.get("/api/v1/jobs", token=token).status == 200)
    wait_until(lambda: server.get("/api/v1/jobs").status == 401)
    assert server.get(EVENTS).status == 401
    server.token = tokens["admin"]
    with Stream(server, token=tokens["reviewer"]) as reviewer, Stream(server, token=tokens["viewer"]) as viewer:
        dlq_id = server.dead(inputs={"outcome": "mail", "dispatch_reference": "secret-1"})
        server.post(f"/api/v1/dlq/{dlq_id}/discard", {"note": "secret-2"}).expect(200)
        last = head(server)
        plain, masked = reviewer.until(last), viewer.until(last)
    listed = server.get("/api/v1/audit", token=tokens["viewer"]).expect(200)
    assert [event.data for event in masked] == listed
    assert plain[-2].data["why"]["dispatch_reference"] == "secret-1" and plain[-1].data["why"]["note"] == "secret-2"
    assert masked[-2].data["why"]["dispatch_reference"] == "[redacted]" and masked[-1].data["why"]["note"] == "[redacted]"
    assert masked[-2].data["why"]["outcome"] == "mail"
    assert "secret" not in json.dumps(listed)
