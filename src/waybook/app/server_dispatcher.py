"""Dispatcher of a server. It executes tool calls, and also reads MCP resources.

The command line uses the plain `Dispatcher`, and so does not import the modules for resources.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from waybook.app.dispatcher import Dispatcher
from waybook.app.operations.sharing import share_plan
from waybook.app.queries.documents import plan_outputs, read_output
from waybook.app.queries.inbox import read_review_outcome
from waybook.app.queries.runs.run_work import read_document
from waybook.app.queries.work_views import read_query, read_view
from waybook.app.registry import TOOLS
from waybook.app.request.answers import within_ceiling
from waybook.app.request.caller import (
    Answer,
    Caller,
    ReadableDocument,
    ReadableOutput,
    ReadableReview,
    require_scope,
)
from waybook.app.request.reply import output_view
from waybook.app.request.request_context import RequestContext
from waybook.app.skills.skill import Skill
from waybook.app.tools.plans.skills import installed_skills
from waybook.core.decision_context import Scope
from waybook.json_values import Body
from waybook.store.runs import load


class ServerDispatcher(Dispatcher):
    @property
    def skills(self) -> tuple[Skill, ...]:
        return installed_skills(self.services)

    async def has_workflows(self, caller: Caller) -> bool:
        """Return whether the org has workflows of its own, or has started a run."""
        ctx = self._reading(caller, is_counted=False)
        (rows,) = await ctx.read(load.SQL["any_definition"]())
        return bool(rows)

    async def read_document(self, caller: Caller, resource_id: str) -> ReadableDocument:
        return await read_document(self._reading(caller), resource_id)

    async def read_output(self, caller: Caller, output_id: str) -> ReadableOutput:
        return await read_output(self._reading(caller), output_id)

    async def list_outputs(self, caller: Caller, plan_id: str) -> Sequence[Mapping[str, object]]:
        _, outputs = await plan_outputs(self._reading(caller), plan_id)
        return [output_view(output) for output in outputs]

    async def read_view(self, caller: Caller, view: str, parameters: Mapping[str, str]) -> Body:
        ctx = self._reading(caller)
        return await read_view(ctx, view, read_query(parameters))

    async def share_plan(self, caller: Caller, plan_id: str, days: object) -> str:
        self.require_capacity(caller)
        ctx = RequestContext(services=self.services, caller=caller)
        return await share_plan(ctx, plan_id, days, self.services.base_url)

    async def read_review(self, caller: Caller, review_id: str) -> ReadableReview:
        review = await read_review_outcome(self._reading(caller), review_id)
        answer, _ = within_ceiling(TOOLS["request_user_review"], caller, Answer(review.reply))
        return replace(review, reply=answer.body)

    def _reading(self, caller: Caller, *, is_counted: bool = True) -> RequestContext:
        if is_counted:
            self.require_capacity(caller)
        require_scope(caller, Scope.PLAN_READ, "reading")
        return RequestContext(services=self.services, caller=caller)
