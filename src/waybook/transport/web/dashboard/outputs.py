"""The outputs of plans: to read, to keep, in all their versions."""

from dataclasses import dataclass
from html import escape
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from waybook.dag.page import build_page
from waybook.dag.rendering import markdown_to_html, sanitize
from waybook.transport.web.dashboard.addresses import current_url_with, query_param
from waybook.transport.web.dashboard.desk import PageContext
from waybook.transport.web.reading import SANDBOX_HEADERS
from waybook.usecases.exchange import ReadableOutput
from waybook.usecases.read_outputs import latest_outputs, plan_outputs, read_output

MARKDOWN: Final = frozenset({"text/markdown", "text/x-markdown"})


@dataclass(frozen=True, slots=True)
class OutputsPage:
    desk: PageContext

    async def __call__(self, request: Request) -> Response:
        """The latest version of each output, of all plans."""
        behind = query_param(request, "behind")
        found = await latest_outputs(await self.desk.request_context(request), behind)
        return await self.desk.render_page(
            request,
            "outputs",
            outputs=found.outputs,
            first=behind is None,
            further=current_url_with(request, behind=found.next_cursor)
            if found.next_cursor
            else None,
        )

    async def of_plan(self, request: Request) -> Response:
        """Every version of every output of a plan."""
        plan_id = request.path_params["plan_id"]
        name, found = await plan_outputs(await self.desk.request_context(request), plan_id)
        return await self.desk.render_page(
            request, "plan_outputs", plan_id=plan_id, plan_name=name, outputs=found
        )

    async def show(self, request: Request) -> Response:
        """An output as a page that does nothing."""
        call = await self.desk.request_context(request)
        return output_html(await read_output(call, request.path_params["output_id"]))


def output_html(output: ReadableOutput) -> Response:
    """The output to read: Markdown laid out, anything else as it is, nothing of it active."""
    if output.media_type.partition(";")[0].strip().lower() in MARKDOWN:
        html = markdown_to_html(output.content)
    else:
        html = sanitize(f"<pre><code>{escape(output.content, quote=False)}</code></pre>")
    title = f"{output.title}, version {output.version}"
    return Response(build_page(title, html), headers=SANDBOX_HEADERS, media_type="text/html")
