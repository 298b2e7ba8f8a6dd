"""The outputs of plans: to read, to keep, in all their versions."""

from dataclasses import dataclass
from html import escape
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from waybook.dag.page import whole_page
from waybook.dag.rendering import laid_out, sanitised
from waybook.transport.web.dashboard.addresses import asked_for, here_with
from waybook.transport.web.dashboard.desk import Desk
from waybook.transport.web.reading import HARMLESS
from waybook.usecases.exchange import ReadableOutput
from waybook.usecases.read_outputs import latest_outputs, outputs_of, read_output

MARKDOWN: Final = frozenset({"text/markdown", "text/x-markdown"})


@dataclass(frozen=True, slots=True)
class Outputs:
    desk: Desk

    async def __call__(self, request: Request) -> Response:
        """The latest version of each output, of all plans."""
        behind = asked_for(request, "behind")
        found = await latest_outputs(await self.desk.call(request), behind)
        return await self.desk.page(
            request,
            "outputs",
            outputs=found.outputs,
            first=behind is None,
            further=here_with(request, behind=found.behind) if found.behind else None,
        )

    async def of_plan(self, request: Request) -> Response:
        """Every version of every output of a plan."""
        plan_id = request.path_params["plan_id"]
        name, found = await outputs_of(await self.desk.call(request), plan_id)
        return await self.desk.page(
            request, "plan_outputs", plan_id=plan_id, plan_name=name, outputs=found
        )

    async def one(self, request: Request) -> Response:
        """An output as a page that does nothing."""
        call = await self.desk.call(request)
        return page_of(await read_output(call, request.path_params["output_id"]))


def page_of(output: ReadableOutput) -> Response:
    """The output to read: Markdown laid out, anything else as it is, nothing of it active."""
    if output.media_type.partition(";")[0].strip().lower() in MARKDOWN:
        html = laid_out(output.content)
    else:
        html = sanitised(f"<pre><code>{escape(output.content, quote=False)}</code></pre>")
    title = f"{output.title}, version {output.version}"
    return Response(whole_page(title, html), headers=HARMLESS, media_type="text/html")
