"""The description of the API, src/api/openapi.json, held against the program.

The document is checked by itself (its structure, its references, its examples), against the table of routes in
src/api/api.c, and against a running server: each documented answer is provoked, and what comes back has to fit the schema
of exactly that path, method and status.  At the end nothing may be documented that was not seen.
"""

import json
import re
import signal
import urllib.parse

import jsonschema
import pytest
from conftest import DENIED, ROOT, TIMEOUT, Answer, wait_until

DOCUMENT = json.loads((ROOT / "src/api/openapi.json").read_text())
RESOLVER = jsonschema.RefResolver.from_schema(DOCUMENT)
METHODS = ["get", "put", "post", "delete", "options", "head", "patch", "trace"]
ROLES = ["none", "viewer", "worker", "operator", "reviewer", "admin"]
BODY_MAX = 65536  # of the server that is started here


def resolve(value):
    """What a reference points to; anything else is itself."""
    while isinstance(value, dict) and "$ref" in value:
        value = RESOLVER.resolve(value["$ref"])[1]
    return value


def operations():
    """(path, method, operation) of everything that is documented."""
    return [(path, method, item[method]) for path, item in DOCUMENT["paths"].items() for method in METHODS if method in item]


def parameters(operation, where):
    return [p for p in map(resolve, operation.get("parameters", [])) if p["in"] == where]


def validator(schema):
    return jsonschema.Draft202012Validator(schema, resolver=RESOLVER, format_checker=jsonschema.FormatChecker())


def check(schema, value, what):
    problems = sorted(validator(schema).iter_errors(value), key=lambda problem: list(map(str, problem.path)))
    assert not problems, f"{what}: {problems[0].message[:500]} at {list(problems[0].path)}\n{json.dumps(value)[:2000]}"


def walk(value, path=()):
    yield path, value
    if isinstance(value, dict):
        for key, child in value.items():
            yield from walk(child, path + (key,))
    elif isinstance(value, list):
        for number, child in enumerate(value):
            yield from walk(child, path + (number,))


# ---- the document by itself ----------------------------------------------------------------------


def test_the_document_has_the_structure_of_openapi_3_1():
    assert re.fullmatch(r"3\.1\.\d+", DOCUMENT["openapi"])
    assert {"title", "version"} <= set(DOCUMENT["info"])
    assert set(DOCUMENT) <= {"openapi", "info", "jsonSchemaDialect", "servers", "paths", "webhooks", "components", "security", "tags", "externalDocs"}
    assert set(DOCUMENT["components"]) <= {"schemas", "responses", "parameters", "examples", "requestBodies", "headers", "securitySchemes", "links", "callbacks", "pathItems"}
    tags = {tag["name"] for tag in DOCUMENT["tags"]}
    ids = [operation["operationId"] for _, _, operation in operations()]
    assert len(ids) == len(set(ids))
    for path, item in DOCUMENT["paths"].items():
        assert path.startswith("/") and set(item) <= set(METHODS), path
    for path, method, operation in operations():
        where = f"{method} {path}"
        assert set(operation) <= {"operationId", "summary", "description", "tags", "parameters", "requestBody", "responses", "security", "x-role"}, where
        assert operation["summary"] and set(operation["tags"]) <= tags and operation["x-role"] in ROLES, where
        assert operation["security"] == ([] if operation["x-role"] == "none" else [{"bearer": []}]), where
        assert all(re.fullmatch(r"[1-5]\d\d", status) for status in operation["responses"]), where
        assert any(status.startswith("2") for status in operation["responses"]), where
        assert {p["name"] for p in parameters(operation, "path")} == set(re.findall(r"{(\w+)}", path)), where
        names = [(p["in"], p["name"]) for p in map(resolve, operation.get("parameters", []))]
        assert len(names) == len(set(names)), where
        for parameter in map(resolve, operation.get("parameters", [])):
            assert parameter["in"] in ("path", "query", "header") and "schema" in parameter and parameter["description"], where
            assert parameter["in"] != "path" or parameter["required"], where
        for status, response in operation["responses"].items():
            response = resolve(response)
            assert response["description"] and "X-Request-Id" in response["headers"] and len(response["content"]) == 1, (where, status)
        for media in operation.get("requestBody", {"content": {}})["content"].values():
            assert "schema" in media and ("example" in media or "examples" in media), where


def test_every_reference_resolves_and_every_component_is_used():
    used = set()
    for path, value in walk(DOCUMENT):
        if isinstance(value, dict) and isinstance(value.get("$ref"), str):
            RESOLVER.resolve(value["$ref"])
            used.add(value["$ref"])
    for kind in ["schemas", "responses", "parameters", "headers"]:
        for name in DOCUMENT["components"][kind]:
            # What every path may answer is described once, beside them.
            assert f"#/components/{kind}/{name}" in used or (kind, name) == ("responses", "MethodNotAllowed"), (kind, name)


def test_every_schema_is_a_schema():
    for name, schema in DOCUMENT["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
    for path, value in walk(DOCUMENT["paths"]):
        if path and path[-1] == "schema":
            jsonschema.Draft202012Validator.check_schema(value)


def examples(holder):
    """The documented examples of a media type or a parameter."""
    if "example" in holder:
        yield holder["example"]
    for example in holder.get("examples", {}).values():
        yield example["value"]


def test_every_example_fits_its_schema():
    count = 0
    for path, value in walk(DOCUMENT):
        if isinstance(value, dict) and "schema" in value:
            for example in examples(value):
                check(value["schema"], example, "/".join(map(str, path)))
                if "responses" in path:
                    in_order(value["schema"], example, path)
                count += 1
    assert count > 120


# ---- against the table of routes -----------------------------------------------------------------


def routes():
    """The program's routes: (method, pattern, role, parameters), read from its table."""
    source = (ROOT / "src/api/api.c").read_text()
    texts = {name: re.sub(r'"\s*\\?\s*"', "", body) for name, body in re.findall(r'#define (\w+) +\\?\s*((?:"[^"]*"[\s\\]*)+)', source)}
    table = re.search(r"struct route routes\[\] = \{(.*?)\n\};", source, re.S).group(1)
    found = []
    for method, pattern, role, kind, handler, params in re.findall(
            r'\{"(\w+)", "([^"]+)",\s*ROLE_(\w+),\s*(\w+),\s*(\w+),\s*("[^"]*"|\w+),', table):
        params = texts[params].strip() if params in texts else params
        found.append((method.lower(), pattern, role.lower(), set(params.strip('" ').split())))
    assert len(found) == len(re.findall(r'\{"[A-Z]+",', table)) > 40
    return found


def test_every_route_is_documented_and_nothing_else():
    assert sorted((m, p) for m, p, _, _ in routes()) == sorted((m, p) for p, m, _ in operations())


@pytest.mark.parametrize("method,pattern,role,params", routes())
def test_a_route_has_the_documented_role_and_parameters(method, pattern, role, params):
    operation = DOCUMENT["paths"][pattern][method]
    assert operation["x-role"] == role
    assert {p["name"] for p in parameters(operation, "query")} == params


# ---- against a server ----------------------------------------------------------------------------


def in_order(schema, value, what):
    """The members of an answer come in the order of the document."""
    schema = resolve(schema)
    for choice in schema.get("oneOf", schema.get("anyOf", [])):
        if validator(choice).is_valid(value):
            in_order(choice, value, what)
            break
    if isinstance(value, dict):
        known = [key for key in schema.get("properties", {}) if key in value]
        assert [key for key in value if key in known] == known, what
        for key in known:
            in_order(schema["properties"][key], value[key], what)
    if isinstance(value, list) and "items" in schema:
        for entry in value:
            in_order(schema["items"], entry, what)


class Checked:
    """A client that holds every answer against the document, and remembers which ones it has seen."""

    def __init__(self, server):
        self.server = server
        self.seen = set()

    def __call__(self, method, path, expect, id="x", query=None, body=None, **kw):
        address = path.replace("{id}", urllib.parse.quote(id, safe=""))
        if query:
            address += "?" + urllib.parse.urlencode(query)
        answer = self.server.request(method.upper(), address, body, **kw)
        assert expect in (None, answer.status), (method, address, answer.status, answer.body[:500])
        self.check(method, path, answer)
        return answer

    def check(self, method, path, answer):
        what = f"{method} {path} {answer.status}"
        operation = DOCUMENT["paths"].get(path, {}).get(method, {"responses": {}})
        response = operation["responses"].get(str(answer.status))
        if answer.status == 405:
            response = DOCUMENT["components"]["responses"]["MethodNotAllowed"]
        assert response, f"{what} is not documented: {answer.body[:500]}"
        response = resolve(response)
        [(type, media)] = response["content"].items()
        assert answer.headers.get_content_type() == type, what
        value = answer.text
        if type == "application/json":
            value = answer.json
            assert answer.body.endswith(b"\n"), what
        check(media["schema"], value, what)
        in_order(media["schema"], value, what)
        for name, header in response["headers"].items():
            given = answer.headers.get(name)
            # There is not always a next page, nor a time to come back; what never was a whole request has no id.
            assert given or name == "X-Next-Cursor" or (name, answer.status) in [("Retry-After", 503), ("X-Request-Id", 413)], (what, name)
            if given:
                schema = resolve(header)["schema"]
                check(schema, int(given) if schema["type"] == "integer" else given, what)
        self.seen.add((path, method, answer.status))


@pytest.fixture
def station(serve):
    """A server with small limits and a token for each role."""
    server = serve(config={"http": {"body_max_bytes": BODY_MAX}, "limits": {"live_jobs_max": 40}}, start=False)
    server.tokens = {role: server.make_token(role, role) for role in ROLES[1:]}
    server.token = server.tokens["admin"]
    return server.start()


def body_example(operation, number=0):
    return list(examples(operation["requestBody"]["content"]["application/json"]))[number]


def methods_of(path):
    """What a path takes; a fixed name is also a name that an {id} could have."""
    fits = [other for other in DOCUMENT["paths"] if re.fullmatch(other.replace("{id}", "[^/]+").replace(".", r"\."), path)]
    return {method for other in fits for method in DOCUMENT["paths"][other]}


def ask_all(ask):
    """What every operation answers alike: a parameter, a token, a role, a body or an id that is wrong."""
    server = ask.server
    for path, method, operation in operations():
        role = ROLES.index(operation["x-role"])
        ask(method, path, 400, query={"nonsense": "1"})
        if role > 0:
            ask(method, path, 401, token=None)
            ask(method, path, 401, token=server.token[:-1] + ("x" if server.token[-1] != "x" else "y"))
        if role > 1:
            ask(method, path, 403, token=server.tokens[ROLES[role - 1]])
        if "requestBody" in operation:
            ask(method, path, 415, body="a=1", type="application/x-www-form-urlencoded")
            ask(method, path, 415, body="{}", type="text/plain")
            ask(method, path, 413, body=json.dumps({"note": "n" * BODY_MAX}))
            ask(method, path, 400, body="[{")
        if "{id}" in path:
            ask(method, path, None, id="nothing has this id")
    for path in DOCUMENT["paths"]:
        has = methods_of(path)
        for method in {"get", "post", "put", "delete", "patch"} - has:
            allowed = ask(method, path, 405).headers["Allow"].lower().split(", ")
            assert set(allowed) == has | ({"head"} if "get" in has else set()), path
    for path in ["/api/v1/nothing", "/api/v2/jobs", "/nothing", "/api/v1/dlq/a/b/c"]:
        missing = server.get(path)
        assert missing.status == 404
        check({"$ref": "#/components/schemas/Error"}, missing.json, path)


def ask_from_elsewhere(ask, server):
    """Without tokens, what calls this machine by another name may not come in."""
    ask.server = server
    for path, method, operation in operations():
        open_to_all = operation["x-role"] == "none"
        ask(method, path, 200 if open_to_all else 403, headers={"Host": "lazaret.example"})


def ask_parameters(ask):
    """Every documented parameter is taken; a value outside of its schema is not."""
    for path, method, operation in operations():
        known = parameters(operation, "query")
        required = {p["name"]: p["example"] for p in known if p.get("required")}
        if path == "/api/v1/events":
            continue  # a stream without end: test_events.py
        for parameter in known:
            name, schema = parameter["name"], resolve(parameter["schema"])
            right = [parameter["example"], *schema.get("enum", []), *(schema[edge] for edge in ("minimum", "maximum") if edge in schema)]
            for good in right if method == "get" else []:
                status = 404 if path == "/api/v1/audit" and name in ("job_id", "dlq_id") else 200
                ask(method, path, status, query={**required, name: str(good).lower() if isinstance(good, bool) else good})
            wrong = []
            if "enum" in schema or schema.get("format") == "date-time" or schema["type"] in ("boolean", "integer"):
                wrong.append("nonsense")
            if "minimum" in schema:
                wrong.append(schema["minimum"] - 1)
            if "maximum" in schema:
                wrong.append(schema["maximum"] + 1)
            if schema.get("maxLength"):
                wrong.append("x" * (schema["maxLength"] + 1))
            for value in wrong:
                answer = ask(method, path, 400, query={**required, name: value}, body=None if method == "get" else "[]")
                assert answer.json["error"].startswith(name + ":"), answer.text
        for name in required:
            ask(method, path, 400, query={k: v for k, v in required.items() if k != name})


def ask_jobs(ask):
    server = ask.server
    push = DOCUMENT["paths"]["/api/v1/jobs"]["post"]
    one = ask("post", "/api/v1/jobs", 201, body=body_example(push, 0)).json
    ask("post", "/api/v1/jobs", 200, body=body_example(push, 0))
    ask("post", "/api/v1/jobs", 409, body={**body_example(push, 0), "priority": 1})
    ask("post", "/api/v1/jobs", 200, body=body_example(push, 1))
    many = push["requestBody"]["content"]["application/x-ndjson"]["example"] + "{}\n{\n"
    results = ask("post", "/api/v1/jobs", 200, body=many, type="application/x-ndjson").json["results"]
    assert [entry.get("code") for entry in results] == [None, None, "invalid", "invalid"]
    page = ask("get", "/api/v1/jobs", 200, query={"limit": 1})
    assert page.cursor and ask("get", "/api/v1/jobs", 200, query={"cursor": page.cursor}).json
    assert ask("get", "/api/v1/jobs/{id}", 200, id=one["job_id"]).json["state"] == "pending"
    ask("post", "/api/v1/jobs/{id}/cancel", 200, id=one["job_id"], body={"actor": "ada"})
    ask("post", "/api/v1/jobs/{id}/cancel", 409, id=one["job_id"])
    for job in server.get("/api/v1/jobs?state=pending").json:
        ask("post", "/api/v1/jobs/{id}/cancel", 200, id=job["job_id"])


def ask_deliveries(ask):
    body = body_example(DOCUMENT["paths"]["/api/v1/deliveries"]["post"])
    first = ask("post", "/api/v1/deliveries", 202, body=body).json
    assert ask("post", "/api/v1/deliveries", 202, body=body).json == {**first, "created": False}
    ask("post", "/api/v1/deliveries", 409, body={**body, "body": {**body["body"], "summary": "another"}})
    ask("post", "/api/v1/deliveries", 404, body={**body, "target": "nothing", "claim": False})
    ask("post", "/api/v1/deliveries", 403, body={**body, "claim": False})
    [lease] = ask("post", "/api/v1/leases", 200, body={"worker_id": "w", "job_ids": [first["job_id"]], "capabilities": ["deliver"]}).json["leases"]
    result = {"lease_id": lease["lease_id"], "status": "complete", "receipt": "complete"}
    assert ask("post", "/api/v1/results", 200, body=result).json["results"][0]["state"] == "done"


def ask_workers(ask):
    server = ask.server
    for number in range(4):
        server.push(queue="mail", inputs={"number": number}, retry_policy="map")
    first, second, third = ask("post", "/api/v1/leases", 200, body={"worker_id": "w1", "queues": ["mail"], "count": 3}).json["leases"]
    paths = DOCUMENT["paths"]
    [other] = ask("post", "/api/v1/leases", 200, body=body_example(paths["/api/v1/leases"]["post"])).json["leases"]
    ask("post", "/api/v1/leases/heartbeat", 200, body={"worker_id": "w1", "lease_ids": [first["lease_id"], "gone"]})
    ask("post", "/api/v1/workers", 200, body={**body_example(paths["/api/v1/workers"]["post"]), "worker_id": "w2"})
    assert {entry["worker_id"] for entry in ask("get", "/api/v1/workers", 200).json} >= {"w1", "w2"}
    server.push(queue="research", retry_policy={"hints": [{"match": "best"}], "max_attempts": 2}, required_capabilities=["research"])
    [dispatched] = ask("post", "/api/v1/leases", 200, body={"worker_id": "w2", "scopes": ["market"], "permissions": []}).json["leases"]
    server.fail(dispatched, {**TIMEOUT, "agent_id": "another", "retry_eligible": True})
    [attempt] = ask("get", "/api/v1/jobs/{id}", 200, id=dispatched["job_id"]).json["attempts"]
    assert attempt["worker_id"] == "w2"
    ask("post", "/api/v1/jobs/{id}/cancel", 200, id=dispatched["job_id"])
    ask("post", "/api/v1/leases/release", 200, body={"lease_ids": [other["lease_id"], "gone"]})
    assert ask("get", "/api/v1/jobs/{id}", 200, id=first["job_id"]).json["started"]
    results = paths["/api/v1/results"]["post"]
    complete = {**body_example(results, 0), "lease_id": first["lease_id"]}
    failed = {**body_example(results, 1), "lease_id": second["lease_id"]}
    ask("post", "/api/v1/results", 200, body=complete)
    said = ask("post", "/api/v1/results", 200, body=[failed, {"lease_id": "gone", "status": "complete"}, {"lease_id": "x"}]).json["results"]
    assert (said[0]["state"], said[1]["code"], said[2]["code"]) == ("scheduled", "lease_lost", "invalid")
    denied = {"lease_id": third["lease_id"], "status": "failed", "failure": DENIED}
    assert ask("post", "/api/v1/results", 200, body=json.dumps(denied) + "\n", type="application/x-ndjson").json["results"][0]["dlq_id"]
    job = ask("get", "/api/v1/jobs/{id}", 200, id=second["job_id"]).json
    check({"$ref": "#/components/schemas/Decision"}, job["attempts"][0]["decision"], "the decision")
    item = server.push(queue="map", run_id="run-8", required_capabilities=["run:run-8"])
    assert ask("get", "/api/v1/runs/{id}", 200, id="run-8").json["pending"] == 1
    [held] = ask("post", "/api/v1/leases", 200, body={"worker_id": "map-7", "queues": ["map"], "capabilities": ["run:run-8"]}).json["leases"]
    interrupted = paths["/api/v1/leases/interrupted"]["post"]
    assert ask("post", "/api/v1/leases/interrupted", 200, body=body_example(interrupted)).json["interrupted"] == 1
    run = ask("get", "/api/v1/runs/{id}", 200, id="run-8").json
    assert run["pending"] + run["scheduled"] == 1
    cut_off = ask("get", "/api/v1/jobs/{id}", 200, id=held["job_id"]).json["attempts"][0]
    assert cut_off["interrupted"] and cut_off["decision"]["rule"] == "interrupted"
    ask("post", "/api/v1/jobs/{id}/cancel", 200, id=item)
    for job in server.get("/api/v1/jobs?queue=mail").json:
        if job["state"] in ("pending", "scheduled"):
            ask("post", "/api/v1/jobs/{id}/cancel", 200, id=job["job_id"])


def ask_letters(ask):
    server, base = ask.server, "/api/v1/dlq"
    paths = DOCUMENT["paths"]
    letter = server.dead(inputs={"invoice": 1}, compensation={"action": "undo", "queue": "undo"}, queue="mail", run_id="run-7", trace_id="t-1")
    for _ in range(2):
        server.dead()
    page = ask("get", base, 200, query={"limit": 1})
    assert page.cursor and len(ask("get", base, 200, query={"cursor": page.cursor}).json) >= 2
    for query in [{"state": "open"}, {"q": "gateway"}, {"job_id": "run-7"}, {"filter": "item.invoice == 1"}]:
        assert ask("get", base, 200, query=query).json, query
    fingerprint = ask("get", base + "/{id}", 200, id=letter).json["fingerprint"]
    assert ask("get", base + "/stats", 200).json["unrecovered"] >= 3
    assert ask("get", base + "/like", 200, query={"prefix": letter[:8]}).json["dlq_ids"]
    assert ask("get", base + "/analyze", 200).json["total"] >= 3
    assert ask("get", base + "/groups", 200).json
    assert ask("get", base + "/groups", 200, query={"limit": 1}).cursor
    assert ask("get", base + "/groups/{id}", 200, id=fingerprint).json["count"] == 3
    ask("get", "/api/v1/audit", 200, query={"dlq_id": letter})
    for action in ["retry", "discard", "rollback", "escalate", "restore"]:
        ask("post", f"{base}/{{id}}/{action}", 400, id=letter, body={"nonsense": 1})

    ask("post", base + "/{id}/restore", 409, id=letter)
    ask("post", base + "/{id}/discard", 200, id=letter, body=body_example(paths[base + "/{id}/discard"]["post"]))
    ask("post", base + "/{id}/discard", 409, id=letter)
    ask("post", base + "/{id}/retry", 409, id=letter)
    ask("post", base + "/{id}/escalate", 409, id=letter)
    ask("post", base + "/{id}/rollback", 409, id=letter)
    ask("post", base + "/{id}/restore", 200, id=letter, body={"note": "it was needed"})
    ask("post", base + "/{id}/escalate", 200, id=letter)
    ask("post", base + "/{id}/retry", 403, id=letter, token=server.tokens["operator"])
    ask("post", base + "/{id}/retry", 200, id=letter, body=body_example(paths[base + "/{id}/retry"]["post"]), token=server.tokens["reviewer"])
    edited = ask("get", base + "/{id}", 200, id=letter).json
    assert edited["envelope"]["inputs"] == {"invoice": 4712} and edited["original_payload"]["inputs"] == {"invoice": 1}
    assert len(ask("get", "/api/v1/jobs/{id}", 200, id=edited["job_id"]).json["previous_envelopes"]) == 1
    [lease] = server.lease("mail")
    server.fail(lease)
    assert ask("post", base + "/{id}/rollback", 200, id=letter).json["compensation"]

    for action in ["resolve", "ignore", "reopen"]:
        ask("post", f"{base}/groups/{{id}}/{action}", 200, id=fingerprint, body=body_example(paths[f"{base}/groups/{{id}}/{action}"]["post"]))
    assert ask("post", base + "/groups/{id}/retry", 200, id=fingerprint, body={"note": "back"}).json["retried"] == 2
    for lease in server.lease("default", count=2):
        server.fail(lease)
    assert ask("post", base + "/groups/{id}/discard", 200, id=fingerprint).json["discarded"] == 2
    for _ in range(3):
        server.dead()
    assert ask("post", base + "/retry-all", 200).json["retried"] == 3
    for lease in server.lease("default", count=3):
        server.fail(lease)
    ask("post", base + "/retry", 200, body=body_example(paths[base + "/retry"]["post"]))
    dead = [letter["dlq_id"] for letter in server.get(base + "?state=dead&reason=retries_exhausted").json]
    ask("post", base + "/{id}/retry", 200, id=dead[0], body={"hold": True})
    assert ask("get", base + "/{id}", 200, id=dead[0]).json["state"] == "recovering"
    ask("post", base + "/{id}/retry", 409, id=dead[0])
    [lease] = server.lease("default")
    server.fail(lease)
    said = ask("post", base + "/retry", 200, body={"ids": dead[:1] + ["nothing"]}).json
    assert (said["retried"], said["failed"]) == (1, 1)
    ask("post", base + "/discard", 200, body={"all": True, "filter": "failure_count > 0"})
    ask("post", base + "/discard", 400, body={"all": True, "ids": []})

    imported = paths[base + "/import"]["post"]
    ask("post", base + "/import", 200, body=body_example(imported, 0))
    items = ask("post", base + "/import", 200, query={"job_id": "run-9"}, body=body_example(imported, 1)).json
    assert items["imported"] == 1
    raw = {"dlq_id": "raw", "original_subject": "a.b", "original_payload": "AP8=", "payload_encoding": "base64", "reason": "malformed"}
    lines = json.dumps(raw) + "\n{}\n"
    assert ask("post", base + "/import", 200, body=lines, type="application/x-ndjson").json["failed"] == 1
    assert ask("get", base + "/{id}", 200, id="raw").json["payload_encoding"] == "base64"
    ask("get", "/api/v1/jobs/{id}", 200, id=ask("get", base + "/{id}", 200, id="raw").json["job_id"])
    ask("post", base + "/{id}/retry", 502, id="raw")
    assert ask("get", base + "/{id}", 200, id="raw").json["state"] == "dead"
    assert ask("post", base + "/clear", 200, body={"job_id": "run-9", "force": True}).json["purged"] == 1
    assert ask("post", base + "/purge", 200, body={"older_than_days": 0, "force": True}).json["purged"] >= 3


def ask_the_rest(ask):
    paths = DOCUMENT["paths"]
    ask("get", "/api/v1/queues", 200)
    for action in ["pause", "resume"]:
        ask("post", f"/api/v1/queues/{{id}}/{action}", 200, id="a b/c", body=body_example(paths[f"/api/v1/queues/{{id}}/{action}"]["post"]))
    ask("get", "/api/v1/policies", 200)
    ask("get", "/api/v1/policies/{id}", 200, id="dispatch")
    ask("put", "/api/v1/policies/{id}", 200, id="mine", body=body_example(paths["/api/v1/policies/{id}"]["put"]))
    assert ask("get", "/api/v1/policies/{id}", 200, id="mine").json["version"] == 1
    ask("put", "/api/v1/policies/{id}", 400, id="mine", body={"max_attempts": 0})
    ask("get", "/api/v1/policies/{id}/explain", 200, id="governed")
    ask("post", "/api/v1/policies/simulate", 200, body=body_example(paths["/api/v1/policies/simulate"]["post"]))
    ask("post", "/api/v1/policies/simulate", 404, body={"policy": "nothing", "failures": [TIMEOUT]})
    assert ask("get", "/api/v1/audit", 200, query={"limit": 2}).cursor
    ask("get", "/api/v1/audit", 404, query={"job_id": "nothing"})
    ask("get", "/api/v1/audit", 404, query={"dlq_id": "nothing"})
    ask("get", "/api/v1/audit/head", 200)
    assert ask("get", "/api/v1/audit/verify", 200).json["ok"]
    ask("get", "/api/v1/status", 200)
    for path in ["/healthz", "/readyz", "/", "/api/v1/openapi.json"]:
        ask("get", path, 200, token=None)
    ask("get", "/metrics", 200)


def ask_too_much(ask):
    """As many live jobs as may be: the next one, and a letter that would live again, have to wait."""
    server = ask.server
    letter = server.dead()
    while True:
        pushed = server.post("/api/v1/jobs", {"action": "wait"})
        if pushed.status != 201:
            break
    ask("post", "/api/v1/jobs", 429, body={"action": "wait"})
    assert ask("post", "/api/v1/jobs", 200, body=[{"action": "wait"}]).json["results"][0]["retry_after"]
    ask("post", "/api/v1/dlq/{id}/retry", 429, id=letter)
    delivery = body_example(DOCUMENT["paths"]["/api/v1/deliveries"]["post"])
    ask("post", "/api/v1/deliveries", 429, body=delivery)


def ask_without_body(ask):
    """HEAD is GET without the body."""
    for path, method, _ in operations():
        if method == "get" and path != "/api/v1/events":
            address = path.replace("{id}", "nothing")
            head, get = ask.server.request("HEAD", address), ask.server.get(address)
            assert (head.status, head.body, head.headers["Content-Type"]) == (get.status, b"", get.headers["Content-Type"]), path


def ask_while_it_stops(ask, server):
    """A server that stops finishes what it has accepted, and refuses the rest.  A job whose body is on its way holds it up."""
    body = json.dumps({"job_id": "slow", "action": "a"}).encode()
    slow = server.socket()
    slow.sendall(b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:5])
    open_already = [server.connection() for _ in operations()]
    for connection in open_already:
        assert server.get("/healthz", connection=connection).status == 200
    other = server.connection()
    assert server.get("/healthz", connection=other).status == 200
    server.signal(signal.SIGTERM)
    wait_until(lambda: server.get("/healthz", connection=other).status == 503, "the refusal")
    for connection, (path, method, _) in zip(open_already, operations()):
        ask(method, path, 503, connection=connection)
    slow.sendall(body[5:])
    assert slow.recv(65536).startswith(b"HTTP/1.1 201 ")
    assert server.wait() == 0


def ask_events(ask):
    """The beginning of the stream: it has no end."""
    server = ask.server
    connection = server.connection()
    connection.request("GET", "/api/v1/events?after=0", headers={"Authorization": f"Bearer {server.token}"})
    stream = connection.getresponse()
    lines = []
    while lines.count("") < 3:
        lines.append(stream.fp.readline().decode().rstrip("\r\n") if not stream.chunked else stream.readline().decode().rstrip("\n"))
    ask.check("get", "/api/v1/events", Answer(stream.status, stream.headers, "\n".join(lines).encode()))
    connection.close()
    for query in [{"after": "x"}, {"after": -1}, {"after": 1.5}]:
        ask("get", "/api/v1/events", 400, query=query)
    ask("get", "/api/v1/events", 400, headers={"Last-Event-ID": "x"})
    event = {**DOCUMENT["components"]["schemas"]["Event"]}
    event["required"] = [name for name in event["required"] if name in ("seq", "at", "actor", "what", "why")]
    for line in lines:
        if line.startswith("data: "):
            check(event, json.loads(line[6:]), "an event of the stream")


def test_every_documented_answer_is_given_and_fits_its_schema(station, server):
    ask = Checked(station)
    ask_jobs(ask)
    ask_deliveries(ask)
    ask_workers(ask)
    ask_letters(ask)
    ask_the_rest(ask)
    ask_all(ask)
    ask_parameters(ask)
    ask_events(ask)
    ask_without_body(ask)
    ask_too_much(ask)
    ask_from_elsewhere(ask, server)
    ask_while_it_stops(ask, server)
    # What needs NATS is seen in tests/swarm.
    ask.seen.add(("/api/v1/dlq/{id}/retry", "post", 202))
    documented = {(path, method, int(status)) for path, method, operation in operations() for status in operation["responses"]}
    assert not documented - ask.seen, f"documented, and never seen: {sorted(documented - ask.seen)}"


def test_every_documented_request_is_understood_and_an_unknown_member_is_not(server):
    for path, method, operation in operations():
        address = path.replace("{id}", "x")
        for type, media in operation.get("requestBody", {"content": {}})["content"].items():
            for example in examples(media):
                answer = server.request(method.upper(), address, example, type=type)
                assert str(answer.status) in operation["responses"] and answer.status not in (400, 413, 415), (address, answer)
                closed = resolve(media["schema"]).get("additionalProperties") is False
                if closed:
                    refused = server.request(method.upper(), address, {**example, "nonsense": 1}, type=type)
                    assert refused.status == 400 and "nonsense" in refused.json["error"], (address, refused)
        if "requestBody" in operation and not operation["requestBody"]["required"]:
            assert server.request(method.upper(), address).status in (200, 404), address


def test_a_request_that_the_document_refuses_is_refused(server):
    """One wrong member at a time, made from the schemas of the requests."""
    count = 0
    for path, method, operation in operations():
        content = operation.get("requestBody", {"content": {}})["content"]
        if "application/json" not in content:
            continue
        schema = resolve(content["application/json"]["schema"])
        schema = resolve(schema["oneOf"][0]) if "oneOf" in schema else schema
        example = list(examples(content["application/json"]))[0]
        for name, member in schema.get("properties", {}).items():
            for wrong in [7, 1.5, -1, "", "nonsense", True, [], {}, [{}], [7], "x" * 20000]:
                broken = {**example, name: wrong}
                # An empty text is mostly the same as none; the steps of a patch are read when there is something to patch.
                if validator(member).is_valid(wrong) or wrong == "" and "string" in str(member) or name == "patch" and wrong == [7]:
                    continue
                answer = server.request(method.upper(), path.replace("{id}", "x"), broken)
                assert answer.status in (400, 413), (path, name, wrong if len(str(wrong)) < 100 else "long", answer.status, answer.body[:300])
                assert name in answer.json["error"] or "one of" in answer.json["error"], (path, name, answer.body)
                count += 1
    assert count > 300


def test_the_server_hands_out_the_document_of_its_version(server):
    assert server.get("/api/v1/openapi.json").json == DOCUMENT
    assert server.get("/").json["version"] == DOCUMENT["info"]["version"]
