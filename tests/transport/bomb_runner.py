"""Program that lets Waybook process inputs made to exhaust memory or CPU time.

It prints the replies as JSON. The tests run the program as a separate process with little memory
and CPU time, so that the inputs can exhaust only the resources of this process.
"""

import asyncio
import gzip
import json
import resource
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

import bombs
from patience import PATIENCE_SECONDS
from transport.fake_dispatcher import RecordingDispatcher, make_app, make_server, serve
from transport.messages import LEGACY
from waybook.app.request.arguments import check_result_size, parse_arguments
from waybook.app.request.caller import Answer
from waybook.app.tools.plans.submit import SubmitStepResult
from waybook.dag.definitions.source_text import parse_definition
from waybook.dag.templates.rendering import markdown_to_html
from waybook.dag.templates.template import TemplateKind, template_error
from waybook.errors import WaybookError
from waybook.transport.http.html.layout import COOKIE, read_form

#: Memory in bytes and CPU time in seconds that the process may use after it has loaded the code.
MEMORY = 400 * 1024 * 1024
SECONDS = 150
CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_next_step","arguments":'
PLAIN = {"content-type": "application/json"}

T = TypeVar("T")
#: Outcome of a costly input: the channel, the name of the input, the status or error code, and part
#: of the reply.
BombReply = tuple[str, str, object, str]


def limit() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    spent = round(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (spent + SECONDS, spent + SECONDS))


def bodies(packed: bytes) -> Iterator[tuple[str, str, dict[str, str], bytes]]:
    """Yield every costly request, as path, name of the input, headers and body.

    `packed` is a small compressed body that becomes very large when it is unpacked.
    """
    for name, text in bombs.VALUES.items():
        yield "/mcp", name, LEGACY, text.encode()
        yield "/mcp", f"{name}, inside", LEGACY, f'{CALL}{{"a":{text}}}}}}}'.encode()
    for channel in ("/api/report", "/api/map"):
        for name, text in {**bombs.VALUES, **bombs.SNAPSHOTS}.items():
            yield channel, name, PLAIN, text.encode()
    for channel, head in (("/mcp", LEGACY), ("/api/report", PLAIN)):
        yield channel, "packed", {**head, "content-encoding": "gzip"}, packed
        yield channel, "packed, in capitals", {**head, "content-encoding": "GZIP, br"}, packed
        yield channel, "deflated", {**head, "content-encoding": "deflate"}, zlib.compress(b"{}")


async def over_http(packed: bytes) -> list[BombReply]:
    dispatcher = RecordingDispatcher({"get_next_step": Answer({"status": "step_ready"})})
    server = make_server(dispatcher)
    app = make_app(server)
    answers: list[BombReply] = []
    async with (
        serve(app) as address,
        httpx2.AsyncClient(base_url=address, trust_env=False, timeout=PATIENCE_SECONDS) as client,
    ):
        for channel, name, headers, body in bodies(packed):
            answer = await client.post(channel, content=body, headers=headers)
            answers.append((channel, name, answer.status_code, answer.text[:300]))
    return answers


async def as_forms() -> list[BombReply]:
    async def receive(request: Request) -> PlainTextResponse:
        try:
            await read_form(request)
        except WaybookError as error:
            return PlainTextResponse(error.message, 403)
        raise AssertionError("the server accepted a costly form without its CSRF token")

    app = Starlette(routes=[Route("/", receive, methods=["POST"])])
    transport = httpx2.ASGITransport(app)
    answers: list[BombReply] = []
    # The server reads no form body without this cookie, which a browser gets with any page.
    known = {COOKIE: "t" * 43}
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://localhost", cookies=known
    ) as client:
        for name, body in bombs.FORMS.items():
            head = {"content-type": "application/x-www-form-urlencoded"}
            answer = await client.post("/", content=body, headers=head)
            answers.append(("form", name, answer.status_code, answer.text[:300]))
    return answers


def as_arguments() -> Iterator[BombReply]:
    """Parse each costly value that is valid JSON as arguments of a tool; yield the outcomes."""
    for name, text in bombs.VALUES.items():
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        for arguments in ({"stepId": "s", "resultSummary": value}, {"stepId": value}):
            yield "arguments", name, *_outcome(_submitted, arguments)


def _submitted(arguments: Mapping[str, object]) -> None:
    args = parse_arguments(SubmitStepResult, arguments)
    check_result_size(resultSummary=args.result_summary)


def as_texts() -> Iterator[BombReply]:
    """Process costly workflow definitions, templates and Markdown texts, and yield the outcomes."""
    for name, text in bombs.DEFINITIONS.items():
        yield "definition", name, *_outcome(parse_definition, text)
    for name, text in bombs.TEMPLATES.items():
        yield "template", name, str(template_error(text, TemplateKind.PROMPT))[:300], ""
    for name, text in bombs.MARKDOWN.items():
        yield "Markdown", name, len(markdown_to_html(text)), ""


def _outcome(read: Callable[[T], object], value: T) -> tuple[object, str]:
    try:
        read(value)
    except WaybookError as error:
        return error.code, error.message[:300]
    return "read", ""


def main() -> None:
    packed = gzip.compress(b"[" + b"0," * 20_000_000 + b"0]", 9)
    limit()
    answers = [
        *asyncio.run(over_http(packed)),
        *asyncio.run(as_forms()),
        *as_arguments(),
        *as_texts(),
    ]
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    main()
