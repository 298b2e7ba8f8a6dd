"""Plans as resources: what a client can attach to a conversation without calling a tool."""

import re
from dataclasses import dataclass
from typing import Final

import mcp_types as wire

from waybook.transport.entrance import Entrance
from waybook.transport.faults import compact
from waybook.transport.mcp.active import active_plans
from waybook.transport.mcp.refusals import Context, code_of, invalid, refused

PLAN: Final = "waybook://plans/{id}"
PLAN_URI: Final = re.compile(r"waybook://plans/([0-9A-Za-z-]{1,64})")
JSON: Final = "application/json"

TEMPLATES: Final = wire.ListResourceTemplatesResult(
    resource_templates=[
        wire.ResourceTemplate(
            name="plan",
            title="Plan",
            uri_template=PLAN,
            description="Everything needed to go on with a plan: its question, its steps with "
            "their results, the open review, the artifacts and the latest history.",
            mime_type=JSON,
        )
    ]
)


@dataclass(frozen=True, slots=True)
class Resources:
    """The plans of whoever asks."""

    entrance: Entrance

    async def templates(self, _: Context, __: object) -> wire.ListResourceTemplatesResult:
        """The kinds of resources, from memory."""
        return TEMPLATES

    async def list(
        self, context: Context, params: wire.PaginatedRequestParams | None
    ) -> wire.ListResourcesResult:
        """The active plans, newest activity first, by pages."""
        page = await active_plans(self.entrance, context, params.cursor if params else None)
        return wire.ListResourcesResult(
            resources=[
                wire.Resource(
                    name=plan.id,
                    title=plan.name,
                    uri=PLAN.format(id=plan.id),
                    description=plan.standing,
                    mime_type=JSON,
                )
                for plan in page.plans
            ],
            next_cursor=page.next_cursor,
        )

    async def read(
        self, context: Context, params: wire.ReadResourceRequestParams
    ) -> wire.ReadResourceResult:
        """A plan with all it takes to resume it, as JSON."""
        matched = PLAN_URI.fullmatch(params.uri)
        if matched is None:
            raise invalid("Resource not found", uri=params.uri)
        answer = await self.entrance.enter(
            context.request, "get_research_context", {"planId": matched[1]}
        )
        if code_of(answer) in {"NOT_FOUND", "INVALID_INPUT"}:
            raise invalid("Resource not found", uri=params.uri)
        if answer.is_error:
            raise refused(answer, "The plan cannot be read now")
        text = compact(answer.body)
        return wire.ReadResourceResult(
            contents=[wire.TextResourceContents(uri=params.uri, mime_type=JSON, text=text)]
        )
