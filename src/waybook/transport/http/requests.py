"""REST API: lists and views of work, progress of runs, documents, outputs, links to plans."""

from dataclasses import dataclass
from typing import Final

from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from waybook.app.request.caller import ReadableDocument, ReadableOutput
from waybook.core.file_names import safe_file_name
from waybook.dag.templates.rendering import CONTENT_SECURITY_POLICY, build_page
from waybook.errors import InvalidInput
from waybook.transport.gateway import ToolGateway
from waybook.transport.http.connection import SECURITY_HEADERS
from waybook.transport.http.responses import answer_error_response, error_response, json_response

#: A document is untrusted text, so browsers must not run scripts in it.
SANDBOX_HEADERS: Final = {
    **SECURITY_HEADERS,
    "cache-control": "no-store",
    "content-security-policy": f"{CONTENT_SECURITY_POLICY}; frame-ancestors 'none'; sandbox",
    "cross-origin-opener-policy": "same-origin",
}
#: Types that browsers do not execute. Outputs of other types are sent as plain text.
INERT_MEDIA_TYPES: Final = frozenset(
    {
        "application/json",
        "application/jsonl",
        "application/toml",
        "application/x-ndjson",
        "application/yaml",
        "text/csv",
        "text/markdown",
        "text/plain",
        "text/tab-separated-values",
    }
)
_FORMATS: Final = ("html", "markdown")


@dataclass(frozen=True, slots=True)
class ReadApi:
    gateway: ToolGateway

    def routes(self) -> list[Route]:
        return [
            Route("/api/runs/{run_id}/progress", self.progress),
            Route("/api/documents/{resource_id}", self.document),
            Route("/api/plans/{plan_id}/outputs", self.outputs),
            Route("/api/outputs/{output_id}", self.output),
            Route("/api/views/{view}", self.view),
            Route("/api/plans/{plan_id}/links", self.share, methods=["POST"]),
            Route("/api/comments", self.comment, methods=["POST"]),
        ]

    async def progress(self, request: Request) -> Response:
        args = {"runId": request.path_params["run_id"], "detail": True}
        answer = await self.gateway.call_tool(request, "get_run_progress", args)
        if answer.is_error:
            return answer_error_response(answer.body)
        return json_response({name: value for name, value in answer.body.items() if name != "next"})

    async def document(self, request: Request) -> Response:
        form = request.query_params.get("format", "html")
        if form not in _FORMATS:
            return error_response(400, "INVALID_INPUT", "format must be html or markdown.")
        dispatcher, caller = await self.gateway.enter(request)
        document = await dispatcher.read_document(caller, request.path_params["resource_id"])
        return document_response(document) if form == "html" else markdown_response(document)

    async def outputs(self, request: Request) -> Response:
        plan_id = request.path_params["plan_id"]
        dispatcher, caller = await self.gateway.enter(request)
        outputs = await dispatcher.list_outputs(caller, plan_id)
        return json_response({"planId": plan_id, "outputs": outputs})

    async def output(self, request: Request) -> Response:
        dispatcher, caller = await self.gateway.enter(request)
        output = await dispatcher.read_output(caller, request.path_params["output_id"])
        return output_response(output)

    async def view(self, request: Request) -> Response:
        dispatcher, caller = await self.gateway.enter(request)
        parameters = {name: text.replace("\0", "") for name, text in request.query_params.items()}
        return json_response(
            await dispatcher.read_view(caller, request.path_params["view"], parameters)
        )

    async def comment(self, request: Request) -> Response:
        """Call the tool `comment` with the JSON object in the body as its arguments."""
        try:
            arguments = {**from_json(await request.body())}
        except (ValueError, TypeError):
            message = 'the body must be JSON like {"subjectId": "…", "text": "…"}'
            raise InvalidInput(message) from None
        answer = await self.gateway.call_tool(request, "comment", arguments)
        if answer.is_error:
            return answer_error_response(answer.body)
        return json_response({name: value for name, value in answer.body.items() if name != "next"})

    async def share(self, request: Request) -> Response:
        dispatcher, caller = await self.gateway.enter(request)
        try:
            days = from_json(await request.body()).get("days")
        except (ValueError, AttributeError):
            raise InvalidInput('the body must be JSON like {"days": 30}') from None
        url = await dispatcher.share_plan(caller, request.path_params["plan_id"], days)
        return json_response({"url": url})


def file_headers(name: str, media_type: str, place: str = "attachment") -> dict[str, str]:
    """Return the headers of a file download. `name` must be safe in a header."""
    disposition = f'{place}; filename="{name}"'
    return {**SANDBOX_HEADERS, "content-disposition": disposition, "content-type": media_type}


def output_response(output: ReadableOutput) -> Response:
    """Return an output as a download with a type that no browser executes."""
    kind = output.media_type if output.media_type in INERT_MEDIA_TYPES else "text/plain"
    headers = file_headers(output.file_name, f"{kind}; charset=utf-8")
    return Response(output.content, headers=headers)


def document_response(document: ReadableDocument) -> Response:
    page = build_page(f"{document.document_key}, {document.model}", document.html)
    headers = file_headers(f"{_name(document)}.html", "text/html; charset=utf-8", "inline")
    return Response(page, headers=headers)


def markdown_response(document: ReadableDocument) -> Response:
    headers = file_headers(f"{_name(document)}.md", "text/markdown; charset=utf-8")
    return Response(document.markdown, headers=headers)


def _name(document: ReadableDocument) -> str:
    return f"{safe_file_name(document.document_key)}.{safe_file_name(document.model)}"
