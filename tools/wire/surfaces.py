"""Recording of REST, pages, forms, commands, webhooks and sign-in, and of MCP over stdio."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from normalize import PROSE
from recorder import (
    DESCRIBED,
    UNKNOWN_ID,
    Mcp,
    Recorder,
    http_entry,
    parse_embedded_json,
    record_command,
    record_page,
)
from scenario import definition, list_everything
from server import FORM, Installation, Response, Server, wait_until

SKILL = """\
---
name: survey
description: Look at every place once.
metadata:
  output-media-type: text/markdown
  formatting-instructions: Short sentences.
---

Look at everything once. See references/places.md.
"""
WEBHOOK_SECRET = "whsec_" + "c2VjcmV0" * 4
SNAPSHOT = (Path(__file__).parent / "snapshot.json").read_text()

Received = list[dict[str, Any]]


def prepare(installed: Installation) -> None:
    """Write files and settings for all processes of the recording."""
    folder = installed.home / "skills" / "survey"
    (folder / "references").mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    (folder / "references" / "places.md").write_text("Lakes, rivers.\n")
    (installed.home / "snapshot.json").write_text(SNAPSHOT)
    (installed.home / "dag.json").write_text(json.dumps(definition("from-a-file")))
    (installed.home / "broken.json").write_text('{"slug": "broken", "stages": []}')
    installed.settings = {
        "WAYBOOK_SKILLS_DIRS": str(installed.home / "skills"),
        "WAYBOOK_DATA_DIR": str(installed.data),
    }


# Recording of REST


def record_rest(recorder: Recorder, server: Server, ids: dict[str, str]) -> None:
    """Record all routes in openapi.json, the health and metrics routes, and invalid requests."""
    described = server.request("GET", "/api/openapi.json")
    recorder.add("GET /api/openapi.json", http_entry(described), DESCRIBED)
    requested = set()
    for path, template in (
        (f"/api/runs/{ids['run']}/progress", "/api/runs/{runId}/progress"),
        (f"/api/runs/{UNKNOWN_ID}/progress", ""),
        (f"/api/documents/{ids['document']}", "/api/documents/{resourceId}"),
        (f"/api/documents/{ids['document']}?format=markdown", ""),
        (f"/api/documents/{ids['document']}?format=nonsense", ""),
        (f"/api/documents/{UNKNOWN_ID}", ""),
        (f"/api/plans/{ids['plan']}/outputs", "/api/plans/{planId}/outputs"),
        (f"/api/plans/{UNKNOWN_ID}/outputs", ""),
        (f"/api/outputs/{ids['output']}", "/api/outputs/{outputId}"),
        (f"/api/outputs/{UNKNOWN_ID}", ""),
        ("/api/views/plans?state=all", "/api/views/{view}"),
        (f"/api/views/run?q={ids['run']}", ""),
        ("/api/views/plans?state=nonsense", ""),
        ("/api/openapi.json?x=1", "/api/openapi.json"),
        ("/api/no-such", ""),
        ("/healthz", ""),
        ("/readyz", ""),
    ):
        requested.add(template)
        recorder.add(f"GET {path}", http_entry(server.request("GET", path)))
    for path in ("/api/report", "/api/map"):
        requested.add(path)
        for name, body in (("snapshot", SNAPSHOT), ("no JSON", "{"), ("no snapshot", "[1]")):
            reply = server.request("POST", path, body, content_type="application/json")
            recorder.add(f"POST {path}: {name}", http_entry(reply))
    requested.add("/api/plans/{planId}/links")
    links = f"/api/plans/{ids['plan']}/links"
    reply = server.request("POST", links, '{"days": 0}', content_type="application/json")
    recorder.add(f"POST {links}: no days", http_entry(reply))
    if missing := set(json.loads(described.body)["paths"]) - requested:
        raise AssertionError(f"no request for these routes of openapi.json: {missing}")
    metrics = server.request("GET", "/metrics")
    names = {re.sub(r"[ {].*", "", line) for line in metrics.body.splitlines() if line[:1] != "#"}
    recorder.add("GET /metrics", {"status": metrics.status, "names": sorted(names)})
    for method, path in (("GET", "/mcp"), ("DELETE", "/mcp"), ("PUT", "/api/report")):
        recorder.add(f"{method} {path}", http_entry(server.request(method, path)))
    for name, body in (("no JSON", "{"), ("a batch", "[]"), ("no method", '{"jsonrpc": "2.0"}')):
        reply = server.request("POST", "/mcp", body, content_type="application/json")
        recorder.add(f"POST /mcp: {name}", http_entry(reply))
    for name, headers in (
        ("foreign host", {"host": "evil.example"}),
        ("foreign origin", {"origin": "https://evil.example"}),
    ):
        recorder.add(
            f"GET /readyz: {name}", http_entry(server.request("GET", "/readyz", **headers))
        )


# Recording of pages


def record_pages(recorder: Recorder, server: Server, ids: dict[str, str]) -> None:
    """Record all dashboard pages and exports."""
    plan, run = f"/plans/{ids['plan']}", f"/runs/{ids['run']}"
    waiting = f"/plans/{ids['waitingPlan']}"
    for path in (
        *("/", "/?state=all", "/?q=wait", "/?mine=1", "/inbox", "/calls", "/health", "/tokens"),
        *(plan, f"{plan}/steps/{ids['step']}", f"{plan}/outputs", waiting),
        *(f"{waiting}/steps/{ids['waitingStep']}", f"/plans/{ids['failedPlan']}"),
        *(f"{plan}/export.{ending}" for ending in ("json", "md", "svg", "mmd", "exe")),
        *("/runs", "/runs?state=all", run, f"/runs/{ids['waitingRun']}"),
        *(f"{run}/export.{ending}" for ending in ("json", "md", "svg", "mmd", "exe")),
        *("/dags", "/dags/deep-research", "/dags/two-views", "/dags/no-such"),
        *("/outputs", f"/outputs/{ids['output']}", "/audit", "/audit?channel=mcp&event=submitted"),
        *(f"/audit?subject={ids['plan']}", f"/audit.csv?subject={ids['plan']}", "/audit.exe"),
        *(f"/audit.jsonl?subject={ids['run']}", "/live/waiting", "/no-such", "/sign-in"),
        *(f"/plans/{UNKNOWN_ID}", f"/runs/{UNKNOWN_ID}", f"/outputs/{UNKNOWN_ID}"),
        f"{plan}/steps/{UNKNOWN_ID}",
    ):
        _record_page(recorder, f"GET {path}", server.request("GET", path, **_browser()))
    style = re.search(r'href="(/static/[^"]+\.css)"', server.request("GET", "/").body)
    assert style
    reply = server.request("GET", style[1])
    recorder.add(
        "GET /static/HASH/*.css", {"status": reply.status, "type": reply.headers["content-type"]}
    )


def _browser() -> dict[str, str]:
    return {"cookie": FORM["cookie"], "accept": "text/html,application/xhtml+xml"}


def _record_page(recorder: Recorder, name: str, reply: Response) -> None:
    kind = reply.headers.get("content-type", "")
    body = re.sub(r"nonce=\"[^\"]+\"", 'nonce="<nonce>"', reply.body)
    if kind.startswith("text/markdown"):
        recorder.add_text(name, body)
        body = ""
    record_page(recorder, name, Response(reply.status, reply.headers, body))


def record_forms(recorder: Recorder, server: Server, ids: dict[str, str]) -> None:
    """Record valid and invalid forms of the dashboard."""
    plan, waiting = f"/plans/{ids['reviewedPlan']}", f"/plans/{ids['waitingPlan']}"
    step = f"{waiting}/steps/{ids['waitingStep']}"
    review = {"planId": ids["waitingPlan"], "reviewId": ids["review"]}
    stage = {"runId": ids["waitingRun"], "stageSlug": "views"}
    added = {
        "stepType": "search",
        "title": "More",
        "instructions": "Look again.",
        "rationale": "So",
    }
    current = server.request("GET", f"{plan}/edit", **_browser()).body
    revision = re.search(r'name="revision" value="(\d+)"', current)
    added |= {"action": "add_steps", "revision": revision[1] if revision else "1", "after": "5"}
    for name, path, fields in (
        ("unknown decision", "/decisions", {**review, "decision": "maybe"}),
        ("wait", "/decisions", {**review, "decision": "wait"}),
        ("reject, unconfirmed", "/decisions", {**review, "decision": "reject"}),
        ("modify, no feedback", "/decisions", {**review, "decision": "modify"}),
        ("approve", "/decisions", {**review, "decision": "approve", "back": "/inbox"}),
        ("approve again", "/decisions", {**review, "decision": "approve"}),
        ("no feedback", "/feedback", stage),
        ("feedback", "/feedback", {**stage, "feedback": "Go on."}),
        ("feedback again", "/feedback", {**stage, "feedback": "Go on."}),
        ("old revision", f"{plan}/edit", {**added, "revision": "999"}),
        ("add steps", f"{plan}/edit", added),
        ("no such action", step, {"action": "explode", "revision": "1"}),
        ("retry step", step, {"action": "retry_step", "revision": "1"}),
        ("retry", "/rescue", {"work": f"run:{ids['run']}:gather", "key": "k" * 32}),
        ("regenerate", "/rescue", {"work": f"document:{UNKNOWN_ID}:", "key": "k" * 33}),
        ("add user", "/tokens", {"act": "add_user", "name": "pat", "scope": "plan:read"}),
    ):
        reply = server.form(path, fields, accept="text/html")
        _record_page(recorder, f"POST {path}: {name}", reply)
    reply = server.form("/decisions", {**review, "token": "wrong"}, accept="text/html")
    _record_page(recorder, "POST /decisions: wrong token", reply)
    reply = server.form("/decisions", {**review, "decision": "skip"}, hx_request="true")
    _record_page(recorder, "POST /decisions: from htmx", reply)


# Recording of commands


def record_commands(recorder: Recorder, installed: Installation, ids: dict[str, str]) -> None:
    """Record the output of commands as text and as JSON, and the help of all commands."""
    plan, run = ids["plan"], ids["run"]
    for line in (
        "--version",
        "plans --all",
        f"status {plan}",
        "status no-such",
        "status",
        f"watch --once {plan}",
        "review",
        "search Nile --kind finding",
        "runs --all",
        f"run {run}",
        "run no-such",
        f"documents {run}",
        f"outputs {plan} --versions",
        f"output {ids['output']}",
        "dag list",
        "dag show deep-research --models 2",
        "dag show no-such",
        "dag add dag.json",
        "dag add broken.json",
        "dag schema",
        "usage",
        f"audit list {plan}",
        f"audit list {run}",
        "audit list --limit 30",
        "audit verify",
        "audit anchor anchor.json",
        f"audit as-of {plan} 3",
        "report snapshot.json",
        "map snapshot.json",
        "map dag.json --models 3",
        "org list",
        "org show local",
        "user list",
        "token list",
        "retain",
        "migrate --check",
        "call ping",
        "call get_plan_status {}",
        "call no_such_tool",
    ):
        arguments = line.split(" ")
        for json_option in ([], ["--json"]):
            options = [*arguments, *json_option]
            if (json_option and arguments[0] in {"--version", "watch"}) or options[1:] == [
                "schema",
                "--json",
            ]:
                continue
            record_command(recorder, installed, *options)
    for form in ("svg", "mermaid", "markdown"):
        record_command(recorder, installed, "status", plan, f"--{form}", f"plan.{form}")
        record_command(recorder, installed, "run", run, f"--{form}", f"run.{form}")
        for kind in ("plan", "run"):
            written = (installed.home / f"{kind}.{form}").read_text()
            recorder.add(f"{kind} map as {form}", written.splitlines())
    _record_shape(recorder, installed, "doctor", "--json", "--port", "1")
    _record_shape(recorder, installed, "backup", "backup.wbk", "--json")
    _record_help(recorder, installed)


def _record_shape(recorder: Recorder, installed: Installation, *arguments: str) -> None:
    """Record a command that prints measurements, with types in place of values in `wire`."""
    done = installed.run(*arguments)
    name, value = f"waybook {arguments[0]} --json", json.loads(done.stdout)
    recorder.add(name, {"exit": done.returncode, "shape": _shape(value)})
    recorder.add_text(name, json.dumps(value, indent=1))


def _shape(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a JSON value with the name of the type in place of each scalar."""
    if isinstance(value, dict):
        return {key: _shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_shape(inner) for inner in value]
    return type(value).__name__


def _record_help(recorder: Recorder, installed: Installation, *command: str) -> None:
    """Record the help of a command and its subcommands; names of options go to `wire`."""
    text = installed.run(*command, "--help").stdout
    name = f"waybook {' '.join((*command, '--help'))}"
    options = sorted(
        set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+(?: (?:\[\S+\]|[A-Z|]+)+)?)", text, re.MULTILINE))
    )
    usage = text.partition("\n")[0]
    recorder.add(name, {"usage": usage, "options": options})
    recorder.add_text(name, text)
    listed = text.partition("\nCommands:\n")[2].partition("\n\n")[0]
    for subcommand in re.findall(r"^  ([a-z-]+) ", listed, re.MULTILINE):
        _record_help(recorder, installed, *command, subcommand)


# Recording of MCP over stdio


def record_stdio(recorder: Recorder, installed: Installation) -> None:
    """Record the tool list of each profile and a tool call, over stdio."""
    client = {"protocolVersion": "2025-11-25", "capabilities": {}}
    messages: list[dict[str, Any]] = [
        {
            "id": 1,
            "method": "initialize",
            "params": {**client, "clientInfo": {"name": "r", "version": "1"}},
        },
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list", "params": {}},
        {
            "id": 3,
            "method": "tools/call",
            "params": {"name": "list_active_plans", "arguments": {"limit": 1}},
        },
    ]
    for profile in ("auto", "research", "runs", "all"):
        command = [str(installed.waybook), "mcp", "--tools", profile]
        with subprocess.Popen(
            command,
            env=installed.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdin
            assert process.stdout
            for message in messages:
                process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
                process.stdin.flush()
                if "id" in message:
                    reply = json.loads(process.stdout.readline())
                    prose = PROSE if message["method"] == "tools/call" else DESCRIBED
                    recorder.add(
                        f"stdio {profile} {message['method']}", parse_embedded_json(reply), prose
                    )
            process.stdin.close()
            process.wait(60)


# Recording of webhooks


@contextmanager
def receiver(installed: Installation) -> Iterator[tuple[Received, int]]:
    """Run a receiver of webhooks; yield the list of received webhooks, and the port."""
    received: Received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = sorted(name.lower() for name in self.headers)
            received.append({"path": self.path, "headers": headers, "body": json.loads(body)})
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as inherited
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        port = server.server_address[1]
        installed.settings["WAYBOOK_WEBHOOK_URL"] = f"http://127.0.0.1:{port}/hook"
        installed.settings["WAYBOOK_WEBHOOK_SECRET"] = WEBHOOK_SECRET
        Thread(target=server.serve_forever, daemon=True).start()
        yield received, port
        server.shutdown()


def record_webhooks(recorder: Recorder, installed: Installation, received: Received) -> None:
    """Record the webhooks of the scenario, in the order of their events."""
    listed = ("webhooks", "list", "--limit", "1000", "--json")

    def are_delivered() -> bool:
        deliveries = json.loads(installed.run(*listed).stdout)
        return all(delivery["status"] != "waiting" for delivery in deliveries)

    with installed.serving():
        wait_until(are_delivered, "every webhook message is delivered")
    record_command(recorder, installed, *listed)
    unique = {json.dumps(message, sort_keys=True): message for message in received}
    for message in sorted(unique.values(), key=lambda sent: str(sent["body"].get("timestamp"))):
        recorder.add(f"webhook {message['body'].get('type')}", message)
    del installed.settings["WAYBOOK_WEBHOOK_URL"], installed.settings["WAYBOOK_WEBHOOK_SECRET"]


# Recording of a server with tokens


def record_server_mode(recorder: Recorder, installed: Installation) -> dict[str, str]:
    """Record a server that requires tokens; return texts to be replaced by placeholders."""
    for line in (
        "org add acme --name Acme",
        "org add acme",
        "user add ann --org acme --scope plan:write --scope run:write --scope review --scope admin",
        "user add bob --org acme --scope plan:read",
        "user scopes bob plan:read run:write --org acme",
        "user list --org acme",
        "org set acme --review-policy human",
        "org show acme",
        "user disable bob --org acme",
        "user enable bob --org acme",
    ):
        record_command(recorder, installed, *line.split(" "), "--json")
    tokens = {}
    for user, scopes in (
        ("ann", ("plan:write", "run:write", "review", "admin")),
        ("bob", ("plan:read",)),
    ):
        options = [part for scope in scopes for part in ("--scope", scope)]
        added = installed.run("token", "add", user, "--org", "acme", "--label", "test", *options)
        secret = re.search(r"wb_[0-9A-Za-z]{40}", added.stdout)
        assert secret, added
        tokens[user] = secret[0]
        recorder.add_text(f"waybook token add {user}", added.stdout)
    record_command(recorder, installed, "token", "list", "--org", "acme", "--json")
    with installed.serving("--tools", "all", "--auth", "required") as server:
        _record_tokens(recorder, server, tokens)
        for path in (
            "/",
            "/sign-in",
            "/inbox",
            "/no-such",
            "/metrics",
            "/healthz",
            "/api/openapi.json",
        ):
            _record_page(
                recorder, f"server mode GET {path}", server.request("GET", path, **_browser())
            )
        _record_sign_in(recorder, server, tokens["ann"])
        return {
            f"127.0.0.1:{server.port}": "<team-server>",
            **{t: f"<token of {u}>" for u, t in tokens.items()},
        }


def _record_tokens(recorder: Recorder, server: Server, tokens: dict[str, str]) -> None:
    anonymous = Mcp(recorder, server)
    anonymous.label = "no token: "
    anonymous.exchange("ping", "ping", {})
    forged = Mcp(recorder, server, "wb_" + "x" * 40)
    forged.label = "unknown token: "
    forged.exchange("tools/list", "tools/list", {})
    reader = Mcp(recorder, server, tokens["bob"])
    reader.label = "read-only token: "
    list_everything(reader)
    for tool, schema in reader.schemas.items():
        arguments = {
            name: _example(schema["properties"][name]) for name in schema.get("required", [])
        }
        reader.attempt(f"tool {tool}: minimal", tool, arguments)
    writer = Mcp(recorder, server, tokens["ann"])
    writer.label = "token: "
    steps = [{"stepType": "search", "instructions": "Look."}]
    plan = writer.attempt(
        "tool create_research_plan",
        "create_research_plan",
        {"name": "Owned", "researchQuestion": "Whose?", "steps": steps},
    )["structuredContent"]
    taken = writer.attempt("tool get_next_step", "get_next_step", {"planId": plan["planId"]})
    review = {"stepId": taken["structuredContent"]["stepId"], "summary": "Right?"}
    writer.attempt("tool request_user_review", "request_user_review", review)
    decision = {"planId": plan["planId"], "decision": "approve"}
    writer.attempt("tool submit_user_decision", "submit_user_decision", decision)


def _example(schema: dict[str, Any]) -> object:
    """Return an example of a value that the JSON Schema of an argument allows."""
    if "enum" in schema:
        return schema["enum"][0]
    values = {"integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
    return values.get(schema.get("type", ""), UNKNOWN_ID)


def _record_sign_in(recorder: Recorder, server: Server, token: str) -> None:
    unknown = {"key": "wb_" + "y" * 40, "then": "/inbox"}
    reply = server.form("/sign-in", unknown, accept="text/html")
    _record_page(recorder, "server mode POST /sign-in: unknown token", reply)
    reply = server.form("/sign-in", {**unknown, "key": token}, accept="text/html")
    _record_page(recorder, "server mode POST /sign-in", reply)
    session = reply.headers["set-cookie"].partition(";")[0]
    cookies = {**_browser(), "cookie": f"{FORM['cookie']}; {session}"}
    for path in ("/", "/inbox", "/tokens", "/health", "/audit"):
        _record_page(recorder, f"signed in GET {path}", server.request("GET", path, **cookies))
    added = {"act": "add_user", "name": "eve", "scope": "plan:read"}
    reply = server.form("/tokens", added, accept="text/html", cookie=cookies["cookie"])
    _record_page(recorder, "signed in POST /tokens: add user", reply)
    reply = server.form("/sign-out", {}, accept="text/html", cookie=cookies["cookie"])
    _record_page(recorder, "signed in POST /sign-out", reply)
