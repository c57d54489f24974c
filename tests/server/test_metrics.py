"""/metrics from outside: a strict reader of the format, and numbers that agree with what was done.

The dashboard and the alerts are held to it: they may only ask for what is there.
"""

import json
import math
import re
import shutil
import subprocess

import pytest

from conftest import DENIED, ONCE, ROOT, TIMEOUT, TWICE, wait_until

DASHBOARD = ROOT / "packaging/grafana/lazaret.json"
ALERTS = ROOT / "packaging/prometheus/alerts.yml"
SCRAPE = ROOT / "packaging/prometheus/scrape.yml"
ALERT_TESTS = ROOT / "tests/server/alerts_test.yml"

# What INTERFACES 6 and 10 promise, and what is there beside it: the type and the labels of each.
PROMISED = {
    "lazaret_jobs": ("gauge", {"queue", "state"}),
    "lazaret_attempts_total": ("counter", {"queue", "outcome"}),
    "lazaret_retries_scheduled_total": ("counter", {"policy"}),
    "lazaret_dead_letters": ("gauge", {"reason", "state"}),
    "lazaret_dead_letters_total": ("counter", {"reason", "source"}),
    "lazaret_oldest_seconds": ("gauge", {"queue", "state"}),
    "lazaret_commit_seconds": ("histogram", set()),
    "lazaret_commit_batch_jobs": ("histogram", set()),
    "lazaret_lease_expired_total": ("counter", set()),
    "lazaret_breaker_state": ("gauge", {"dependency"}),
    "lazaret_redrive_items": ("gauge", {"id", "outcome"}),
    "lazaret_http_requests_total": ("counter", {"route", "status"}),
    "lazaret_audit_seq": ("gauge", set()),
    "cognigate_receipts_total": ("counter", {"status", "success"}),
    "cognigate_receipt_retries_total": ("counter", set()),
    "cognigate_dead_letter_queue_size": ("gauge", set()),
}
EXTRA = {
    "lazaret_build_info": ("gauge", {"version"}),
    "lazaret_live_jobs": ("gauge", set()),
    "lazaret_queue_paused": ("gauge", {"queue"}),
    "lazaret_commit_failed_total": ("counter", set()),
    "lazaret_http_request_seconds": ("histogram", set()),
    "lazaret_http_connections": ("gauge", set()),
    "lazaret_event_streams": ("gauge", set()),
    "process_resident_memory_bytes": ("gauge", set()),
    "process_open_fds": ("gauge", set()),
    "process_start_time_seconds": ("gauge", set()),
}
FAMILIES = {**PROMISED, **EXTRA}
# What a server has that takes part in a swarm; tests/swarm sees them.
SWARM = {
    "lazaret_nats_connected": ("gauge", set()),
    "lazaret_nats_reconnects_total": ("counter", set()),
    "lazaret_nats_letters_total": ("counter", {"outcome"}),
    "lazaret_scanner_scans_total": ("counter", set()),
    "lazaret_scanner_letters_total": ("counter", {"outcome"}),
    "lazaret_scanner_left": ("gauge", set()),
    "lazaret_alerts_total": ("counter", {"to"}),
    "lazaret_alerts_failed_total": ("counter", set()),
    "lazaret_alert_letters_total": ("counter", {"how"}),
    "lazaret_inbox_rows_total": ("counter", {"outcome"}),
}


# ---- a strict reader of the text format, version 0.0.4 ----------------------------------------

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)")
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf)|NaN")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


class Scrape:
    """What one answer of /metrics says."""

    def __init__(self, text):
        self.types, self.help, self.samples = {}, {}, {}
        assert text.endswith("\n") and "\r" not in text
        family = None
        for line in text[:-1].split("\n"):
            if line.startswith("# HELP "):
                family, help = re.fullmatch(rf"# HELP ({NAME}) (\S.*)", line).groups()
                assert family not in self.help, f"{family} stands twice"
                self.help[family] = help
            elif line.startswith("# TYPE "):
                name, kind = re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge|histogram)", line).groups()
                assert name == family and name not in self.types, line
                self.types[name] = kind
            else:
                self.sample(line, family)
        assert set(self.types) == set(self.help)
        for name, kind in self.types.items():
            if kind == "histogram":
                self.histogram(name)

    def sample(self, line, family):
        match = SAMPLE.fullmatch(line)
        assert match, f"no sample: {line!r}"
        name, labels, value = match.group(1), match.group(2) or "", match.groups()[-1]
        kind = self.types[family]
        assert name in [family + suffix for suffix in SUFFIXES[kind]], f"{line} is not of {family}"
        pairs = [(k, re.sub(r"\\(.)", lambda m: "\n" if m.group(1) == "n" else m.group(1), v))
                 for k, v in re.findall(LABEL, labels)]
        key = (name, frozenset(pairs))
        assert len(dict(pairs)) == len(pairs), f"a label stands twice: {line}"
        assert key not in self.samples, f"a sample stands twice: {line}"
        assert NUMBER.fullmatch(value), f"no number: {line}"
        number = float(value)
        assert not math.isnan(number)
        assert kind == "gauge" or number >= 0, line
        self.samples[key] = number

    def histogram(self, name):
        """Its buckets rise to +Inf, which is its count."""
        buckets = [(dict(labels)["le"], value) for (n, labels), value in self.samples.items() if n == name + "_bucket"]
        bounds = [float(le) for le, _ in buckets]
        counts = [value for _, value in buckets]
        assert bounds == sorted(set(bounds)) and bounds[-1] == math.inf, name
        assert counts == sorted(counts), name
        assert counts[-1] == self.value(name + "_count") and self.value(name + "_sum") >= 0

    def value(self, name, **labels):
        """The one sample with exactly these labels; None: there is none."""
        return self.samples.get((name, frozenset(labels.items())))

    def sum(self, name, **labels):
        """The sum of all that have these labels."""
        return sum(v for (n, have), v in self.samples.items() if n == name and set(labels.items()) <= have)

    def counters(self):
        """Every sample that may not go down."""
        down = {n + s for n, kind in self.types.items() if kind != "gauge" for s in SUFFIXES[kind]}
        return {key: value for key, value in self.samples.items() if key[0] in down}


def scrape(server, **kw):
    answer = server.get("/metrics", **kw)
    assert answer.status == 200, answer
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Scrape(answer.text)


def lease_one(server, queue):
    [lease] = server.lease(queue, count=1)
    return lease


# ---- the reader itself ------------------------------------------------------------------------

HEAD = "# HELP a Help.\n# TYPE a gauge\n"
BAD = {
    "no newline at the end": HEAD + "a 1",
    "an empty line": HEAD + "\na 1\n",
    "a sample twice": HEAD + "a 1\na 2\n",
    "a family twice": HEAD + "a 1\n" + HEAD,
    "a sample without its family": "b 1\n",
    "a sample of another family": HEAD + "b 1\n",
    "a type without help": "# TYPE a gauge\na 1\n",
    "a label twice": HEAD + 'a{x="1",x="2"} 1\n',
    "a bad escape": HEAD + 'a{x="\\t"} 1\n',
    "an open quote": HEAD + 'a{x="1} 1\n',
    "a comma too many": HEAD + 'a{x="1",} 1\n',
    "no value": HEAD + "a \n",
    "no number": HEAD + "a one\n",
    "a counter below 0": "# HELP a H.\n# TYPE a counter\na -1\n",
    "buckets that fall": '# HELP a H.\n# TYPE a histogram\na_bucket{le="1"} 2\na_bucket{le="+Inf"} 1\na_sum 1\na_count 1\n',
    "no last bucket": '# HELP a H.\n# TYPE a histogram\na_bucket{le="1"} 1\na_sum 1\na_count 1\n',
    "a count of its own": '# HELP a H.\n# TYPE a histogram\na_bucket{le="+Inf"} 1\na_sum 1\na_count 2\n',
}


@pytest.mark.parametrize("what", BAD)
def test_the_reader_is_strict(what):
    with pytest.raises((AssertionError, KeyError, AttributeError, TypeError, IndexError)):
        Scrape(BAD[what])


def test_the_reader_undoes_escapes():
    read = Scrape(HEAD + 'a{x="1\\\\n\\"\\n"} 1\n')
    assert read.value("a", x='1\\n"\n') == 1


# ---- what is there ----------------------------------------------------------------------------

def test_everything_that_is_promised_is_there_from_the_start(server):
    got = scrape(server)
    assert got.types == {name: kind for name, (kind, _) in FAMILIES.items()}
    assert got.value("lazaret_audit_seq") == 0
    assert got.value("lazaret_live_jobs") == 0
    assert got.value("cognigate_dead_letter_queue_size") == 0
    assert got.value("cognigate_receipt_retries_total") == 0
    assert [value for (name, _), value in got.samples.items() if name == "cognigate_receipts_total"] == [0] * 6
    version = server.cli("--version").stdout.split()[1]
    assert got.value("lazaret_build_info", version=version) == 1


def test_every_sample_has_the_labels_of_its_family(server):
    server.dead(queue="mail")
    server.push(queue="mail")
    server.fail(lease_one(server, "mail"))
    got = scrape(server)
    for (name, labels), _ in got.samples.items():
        family = name if name in FAMILIES else re.sub("_(bucket|sum|count)$", "", name)
        wanted = FAMILIES[family][1] | ({"le"} if name.endswith("_bucket") else set())
        assert {k for k, _ in labels} == wanted, name


def test_the_numbers_are_those_of_what_was_done(server):
    for _ in range(5):
        server.push(queue="mail", retry_policy=ONCE)
    server.push(queue="print", retry_policy="map")
    server.complete(lease_one(server, "mail"))
    server.fail(lease_one(server, "mail"), TIMEOUT)
    server.fail(lease_one(server, "mail"), DENIED)
    server.fail(lease_one(server, "print"), TIMEOUT)
    running = lease_one(server, "mail")
    got = scrape(server)
    assert got.value("lazaret_jobs", queue="mail", state="pending") == 1
    assert got.value("lazaret_jobs", queue="mail", state="running") == 1
    assert got.value("lazaret_jobs", queue="mail", state="done") == 1
    assert got.value("lazaret_jobs", queue="mail", state="dead") == 2
    assert got.value("lazaret_jobs", queue="print", state="scheduled") == 1
    assert got.value("lazaret_live_jobs") == 3
    assert got.value("lazaret_attempts_total", queue="mail", outcome="complete") == 1
    assert got.value("lazaret_attempts_total", queue="mail", outcome="failed") == 2
    assert got.value("lazaret_attempts_total", queue="mail", outcome="crashed") == 0
    assert got.value("lazaret_attempts_total", queue="print", outcome="failed") == 1
    assert got.value("lazaret_retries_scheduled_total", policy="map") == 1
    assert got.value("lazaret_retries_scheduled_total", policy="inline") is None
    stats = server.get("/api/v1/dlq/stats").json
    for reason, count in stats["by_reason"].items():
        assert got.value("lazaret_dead_letters", reason=reason, state="dead") == count
        assert got.value("lazaret_dead_letters_total", reason=reason, source="lazaret") == count
    assert got.sum("lazaret_dead_letters", state="dead") == stats["unrecovered"] == 2
    # Six pushed, five leased, four resolved.
    assert got.value("lazaret_commit_batch_jobs_sum") == 6 + 5 + 4
    assert got.value("lazaret_commit_seconds_count") >= got.value("lazaret_commit_batch_jobs_count") > 0
    assert got.value("lazaret_audit_seq") == server.get("/api/v1/audit/head").json["seq"]
    assert got.value("lazaret_oldest_seconds", queue="mail", state="pending") > 0
    assert got.value("lazaret_oldest_seconds", queue="mail", state="dead") > 0
    assert got.value("lazaret_oldest_seconds", queue="print", state="dead") == 0
    server.complete(running)
    assert scrape(server).value("lazaret_attempts_total", queue="mail", outcome="complete") == 2


def test_retries_of_an_inline_policy_are_counted_as_such(server):
    server.push(retry_policy=TWICE)
    server.fail(lease_one(server, "default"))
    assert scrape(server).value("lazaret_retries_scheduled_total", policy="inline") == 1


def test_a_lease_that_ends_is_counted(server):
    server.push(queue="mail")
    server.lease("mail", count=1, lease_ms=1)
    wait_until(lambda: scrape(server).value("lazaret_lease_expired_total") == 1, "the end of the lease")
    assert scrape(server).value("lazaret_attempts_total", queue="mail", outcome="crashed") == 1


def test_what_is_decided_about_a_letter_moves_its_count(server):
    letter = server.dead(failure=DENIED)
    other = server.dead(failure=DENIED)
    server.post(f"/api/v1/dlq/{letter}/discard").expect(200)
    got = scrape(server)
    [reason] = {dict(labels)["reason"] for name, labels in got.samples if name == "lazaret_dead_letters"}
    assert got.value("lazaret_dead_letters", reason=reason, state="dead") == 1
    assert got.value("lazaret_dead_letters", reason=reason, state="discarded") == 1
    server.post(f"/api/v1/dlq/{other}/discard").expect(200)
    got = scrape(server)
    assert got.value("lazaret_dead_letters", reason=reason, state="dead") == 0  # it does not vanish
    assert got.sum("lazaret_dead_letters_total") == 2  # deaths are not taken back


def test_a_queue_that_is_paused_says_so(server):
    server.push(queue="mail")
    server.post("/api/v1/queues/mail/pause").expect(200)
    assert scrape(server).value("lazaret_queue_paused", queue="mail") == 1
    server.post("/api/v1/queues/mail/resume").expect(200)
    assert scrape(server).value("lazaret_queue_paused", queue="mail") == 0


def test_receipts_in_the_quarantine_are_counted(server):
    receipts = [{"receipt": {"lease_id": str(n), "status": "complete", "task_id": str(n), "worker_id": "w"}, "failed_at": "2026-01-01T00:00:00Z", "attempts": 5}
                for n in range(3)]
    server.post("/api/v1/dlq/import", receipts).expect(200)
    server.dead()
    got = scrape(server)
    assert got.value("cognigate_dead_letter_queue_size") == 3
    assert got.sum("lazaret_dead_letters_total", source="receipts") == 3


def test_names_come_back_as_they_were_given(server):
    names = ['a"b', "a\\b", "a\\nb", "{queue=,}", "näme ☃", "other"]
    for name in names:
        server.push(queue=name)
    got = scrape(server)
    for name in names:
        assert got.value("lazaret_jobs", queue=name, state="pending") == 1, name


def test_requests_are_counted_by_route_and_status(server):
    before = scrape(server)
    server.push()
    server.push()
    job = server.push()
    server.get(f"/api/v1/jobs/{job}").expect(200)
    server.get("/api/v1/jobs/no-such-job").expect(404)
    server.get("/no/such/path").expect(404)
    # A request is counted when its answer is on its way, which may be after it has arrived.
    wait_until(lambda: scrape(server).value("lazaret_http_requests_total", route="none", status="404") == 1)
    got = scrape(server)
    assert got.value("lazaret_http_requests_total", route="/api/v1/jobs", status="201") == 3
    assert got.value("lazaret_http_requests_total", route="/api/v1/jobs/{id}", status="200") == 1
    assert got.value("lazaret_http_requests_total", route="/api/v1/jobs/{id}", status="404") == 1
    assert got.sum("lazaret_http_requests_total") >= before.sum("lazaret_http_requests_total") + 6
    assert got.value("lazaret_http_request_seconds_count") >= 6
    assert got.value("lazaret_http_connections") >= 1  # this one


def test_counters_never_go_down(server):
    before = scrape(server).counters()
    for n in range(6):
        server.push(queue=f"q{n % 3}", retry_policy=ONCE if n % 2 else TWICE)
        lease = lease_one(server, f"q{n % 3}")
        server.fail(lease) if n % 3 else server.complete(lease)
        after = scrape(server).counters()
        assert set(before) <= set(after)
        for key, value in before.items():
            assert after[key] >= value, key
        before = after


def test_what_was_counted_is_since_the_start_and_what_is_there_is_kept(server):
    server.dead(queue="mail")
    first = scrape(server)
    server.restart()
    second = scrape(server)
    assert second.sum("lazaret_dead_letters", state="dead") == 1
    assert second.value("lazaret_audit_seq") >= first.value("lazaret_audit_seq")
    assert second.sum("lazaret_attempts_total") == 0
    assert second.sum("lazaret_dead_letters_total") == 0
    assert second.value("process_start_time_seconds") >= first.value("process_start_time_seconds")


def test_a_viewer_may_scrape_and_a_stranger_may_not(server):
    token = server.make_token("prometheus", "viewer")
    wait_until(lambda: server.get("/metrics").status == 401, "the token is wanted")
    assert b"lazaret_jobs" not in server.get("/metrics").body
    scrape(server, token=token)


def test_the_process_is_this_one(server):
    got = scrape(server)
    resident = int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{server.pid}/status").read()).group(1)) * 1024
    assert resident / 2 < got.value("process_resident_memory_bytes") < resident * 2
    assert 3 < got.value("process_open_fds") < 500


# ---- Prometheus's own opinion -----------------------------------------------------------------

def promtool(*args, **kw):
    program = shutil.which("promtool")
    if not program:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    done = subprocess.run([program, *map(str, args)], capture_output=True, text=True, **kw)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done


def test_promtool_has_nothing_against_it(server):
    server.dead(queue='a"b\\c')
    done = promtool("check", "metrics", input=server.get("/metrics").text)
    assert (done.stdout, done.stderr) == ("", "")


def test_promtool_reads_the_alerts():
    promtool("check", "rules", ALERTS)


def test_the_alerts_fire_when_they_should():
    promtool("test", "rules", ALERT_TESTS.name, cwd=ALERT_TESTS.parent)


def test_promtool_reads_the_example_of_a_scrape():
    promtool("check", "config", "--syntax-only", SCRAPE)


# ---- the dashboard and the alerts ask for what is there ---------------------------------------

def dashboard_expressions():
    dashboard = json.loads(DASHBOARD.read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]
    for annotation in dashboard["annotations"]["list"]:
        if "expr" in annotation:
            yield annotation["name"], annotation["expr"]


def alert_rules():
    """The rules as (name, expression), read without a YAML library: the file keeps to one shape."""
    for block in ALERTS.read_text().split("- alert: ")[1:]:
        expression = re.search(r"^ +expr: (?:>-\n)?(.*?)\n +for: ", block, re.S | re.M).group(1)
        yield block.split("\n")[0], expression, block


def check_expression(where, expression, types):
    """Every metric is one that there is, with labels that it has; returns the families."""
    families = set()
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)
    found = re.findall(r"\b((?:lazaret|cognigate|process)_[a-z_]+)(?:\{([^}]*)\})?", bare)
    assert found or bare.startswith("up{"), f"{where}: no metric in {expression}"
    for name, matchers in found:
        family = name if name in types else re.sub("_(bucket|sum|count)$", "", name)
        assert family in types, f"{where}: there is no {name}"
        assert (types[family] == "histogram") == (name != family), f"{where}: {name}"
        labels = set(re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", matchers))
        assert labels <= FAMILIES[family][1] | {"instance", "job"}, f"{where}: {name} has no {labels}"
        families.add(family)
    return families


def test_the_dashboard_asks_for_what_is_there(server):
    types = scrape(server).types
    asked = set().union(*(check_expression(where, expression, types) for where, expression in dashboard_expressions()))
    assert set(PROMISED) <= asked  # and shows all that is promised


def test_the_dashboard_can_be_imported():
    dashboard = json.loads(DASHBOARD.read_text())
    assert dashboard["id"] is None and dashboard["uid"] and dashboard["title"] and dashboard["schemaVersion"] >= 30
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
    source = dashboard["templating"]["list"][0]
    assert (source["type"], source["name"], source["query"]) == ("datasource", "datasource", "prometheus")
    taken = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}" and panel["targets"], panel["title"]


def test_the_alerts_ask_for_what_is_there_and_say_what_to_do(server):
    types = scrape(server).types
    rules = list(alert_rules())
    assert len(rules) == ALERTS.read_text().count("- alert:") > 5
    for name, expression, block in rules:
        check_expression(name, expression, types)
        assert re.search(r"^ +for: \d+[mh]$", block, re.M), name
        assert re.search(r"^ +severity: (page|ticket)$", block, re.M), name
        description = re.search(r"^ +description: >-\n(.*)", block, re.S | re.M)
        assert description and len(description.group(1).split()) > 10, name
        assert f'alertname="{name}"' in ALERT_TESTS.read_text(), f"{name} is not tested"


def test_the_manual_names_every_metric_and_its_labels():
    rows = [line for line in (ROOT / "docs/metrics.md").read_text().split("\n") if line.startswith("| `")]
    told = {}
    for row in rows:
        names, kind = row.split(" | ")[:2]
        for name, labels in re.findall(r"`([a-z_]+)(?:\{([a-z,]+)\})?`", names):
            told[name] = (kind, set(filter(None, labels.split(","))))
    assert told == {**FAMILIES, **SWARM}
