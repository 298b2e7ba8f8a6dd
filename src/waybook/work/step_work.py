"""Work on one step: prepares a worktree, lets an agent work, and checks what the agent did."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Final

from waybook.client import Client
from waybook.errors import InvalidInput, InvalidTransition, NotModifiable, TooLarge, WaybookError
from waybook.json_values import Json
from waybook.work import prompts
from waybook.work.adapters import Adapter
from waybook.work.agent_process import run_agent
from waybook.work.delivery import RETRY_SECONDS, Workshop, branch_of
from waybook.work.held import HeldStep
from waybook.work.merging import CheckFailed
from waybook.work.records import Record, Stage, is_pooled
from waybook.work.tasks import Limits, Outcome, OutcomeKind, Task
from waybook.work.worktrees import GitError, NotDone, Tree, uncovered

log = logging.getLogger(__name__)

_CONTEXT_TOKENS: Final = 8_000
_MAX_RESULT_LENGTH: Final = 100_000
_MAX_SUMMARY_LENGTH: Final = 4_000


@dataclass(slots=True)
class StepWork:
    shop: Workshop
    client: Client
    step: HeldStep
    adapter: Adapter
    limits: Limits
    on_line: Callable[[str], None]
    record: Record
    tree: Tree | None = None
    #: Commit at which the work on the step started.
    start: str = ""
    tries: int = 0
    #: An agent that quotes old text cannot ask for a review by mistake.
    review_mark: str = field(default_factory=lambda: f"ask-person-{token_hex(4)}")

    async def run(self) -> Outcome:
        """Let the agent do the step. With the outcome `DONE`, it is submitted or in review.

        After any other outcome, the changes are gone, and the caller ends the claim.
        """
        try:
            outcome = await self._run()
        except asyncio.CancelledError:
            # The next start delivers a result that was finished.
            if self.record.stage is Stage.WORKING or not self.step.keep():
                await self.shop.clear(self.record)
            raise
        except Exception:
            await self.shop.clear(self.record)
            raise
        if outcome.kind is not OutcomeKind.DONE and self.record.stage is not Stage.PARKED:
            await self.shop.clear(self.record)
        return outcome

    async def _run(self) -> Outcome:
        parked = self.record if self.record.stage is Stage.PARKED else None
        resume = None
        if parked and parked.agent == self.adapter.name and self.adapter.takes("conversation"):
            resume = parked.conversation
        self.record.save(agent=self.adapter.name, stage=Stage.WORKING)
        await self._prepare(parked)
        options, step = self.shop.options, self.step
        prompt = prompts.step_prompt(
            step.reply,
            await step.context(_CONTEXT_TOKENS),
            is_isolated=self.tree is not None,
            is_resumed=resume is not None,
            review_mark=self.review_mark,
        )
        task = Task(
            prompt=prompt,
            folder=self.tree.folder if self.tree else options.folder,
            schema=step.result_schema if isinstance(step.result_schema, dict) else None,
            resume=resume,
            environment={
                "WAYBOOK_PLAN_ID": step.plan_id,
                "WAYBOOK_STEP_ID": step.step_id,
                "WAYBOOK_ATTEMPT": str(step.attempt),
            },
            mcp_server=options.mcp_server,
            secrets=options.secrets,
        )
        return await run_agent(self.adapter, task, self.limits, self.on_line, self._accept)

    async def _prepare(self, parked: Record | None) -> None:
        """Create the worktree of the step, at the target branch or at its own earlier work."""
        repository, options, plan_id = self.shop.repository, self.shop.options, self.step.plan_id
        if repository is None:
            return
        merger = self.shop.merger(plan_id, repository)
        branch = branch_of(plan_id, self.step.step_id)
        folder = self.shop.state.step_tree(plan_id, self.step.step_id)
        if options.isolation == "worker":
            folder = self.shop.state.pooled_tree(self.record.session, plan_id)
        self.start = await merger.tip()
        begin = await repository.commit_of(branch) if parked else None
        self.record.save(
            repository=str(repository.common),
            branch=branch,
            target=merger.target,
            folder=str(folder),
        )
        self.tree = await repository.open_tree(folder, branch, begin or self.start)
        if begin:
            self.start = (await repository.git("merge-base", begin, self.start)).strip()
        if other := prompts.branch_to_resolve(self.step.reply):
            await self.tree.try_git(*await repository.identity(), "merge", "--no-commit", other)

    async def _keep_transcript(self, outcome: Outcome) -> None:
        self.tries += 1
        named = f"{self.adapter.name}, step {self.step.order}"
        try:
            await self.client.call(
                "store_research",
                kind="transcript",
                title=f"{named}, attempt {self.step.attempt}, try {self.tries}",
                content=outcome.transcript or "(no output)",
                planId=self.step.plan_id,
                stepId=self.step.step_id,
                sessionId=self.record.session,
                idempotencyKey=f"transcript-{self.step.step_id}-{self.step.attempt}-{self.tries}",
            )
        except WaybookError as error:
            log.warning("the transcript of step %s was not stored: %s", self.step.step_id, error)

    async def _accept(self, outcome: Outcome) -> Outcome:
        """Submit or park an agent's work; a rejected outcome says what the agent has to correct."""
        await self._keep_transcript(outcome)
        await self.step.look()
        _, mark, question = outcome.text.rpartition(f"{self.review_mark}:")
        # With a question or after the end of the step, it does not matter how the process ended.
        if not (outcome.kind is OutcomeKind.DONE or mark or self.step.is_ended_by_agent):
            return outcome
        try:
            await self._end(outcome, question.strip() if mark else None)
        except CheckFailed as error:
            fault = str(error)
            await self._update_tree()
        except (NotDone, InvalidInput, TooLarge) as error:
            fault = str(error)
        except (GitError, OSError) as error:
            fault = f"your worktree cannot be read: {error}"
        else:
            return outcome._replace(kind=OutcomeKind.DONE, message="")
        # Only a finished step removes the branch whose conflicts it resolves.
        self.record.save(stage=Stage.WORKING)
        if self.step.is_ended_by_agent:
            return outcome._replace(kind=OutcomeKind.FAILED, message=fault)
        return outcome.rejected(fault)

    async def _end(self, outcome: Outcome, question: str | None) -> None:
        """Check the work, then merge and submit it, or park the step at a review.

        Raises:
            NotDone: the changes are missing, outside of `touches`, or fail the check.
            InvalidInput: the server refuses the result.
        """
        step = self.step
        result = outcome.result if isinstance(step.result_schema, dict) else outcome.text
        is_parked = question is not None or step.type == "checkpoint"
        if step.is_ended_by_agent:
            is_parked = await step.look() == "awaiting_input"
        elif question is None and result in (None, ""):
            raise NotDone("you returned no result")
        if isinstance(result, str):
            result = result[:_MAX_RESULT_LENGTH]
        await self._check_changes(is_final=not is_parked)
        self.record.save(
            stage=Stage.PARKED if is_parked else Stage.FINISHED,
            result=result,
            usage=outcome.usage.arguments(),
            conversation=outcome.conversation,
        )
        if not is_parked:
            await self.shop.deliver(self.client, step, self.record)
            return
        if not step.is_ended_by_agent:
            await self._ask_person(question or outcome.text, None if question else result)
        if self.tree is not None and not is_pooled(str(self.tree.folder)):
            await self.tree.repository.remove_tree(self.tree.folder)

    async def _check_changes(self, *, is_final: bool) -> None:
        """Commit the agent's changes. If the step is done, check them."""
        tree, branch, touches = self.tree, self.record.branch, self.step.reply.get("touches") or []
        if tree is None or branch is None:
            return
        message = f"step {self.step.order}: {prompts.name_of(self.step.reply)}"[:72]
        files = await tree.finish(branch, self.start, message)
        other = prompts.branch_to_resolve(self.step.reply)
        if not is_final:
            return
        if other is not None:
            commit = await tree.repository.commit_of(other)
            if commit is not None and not await tree.repository.contains(branch, commit):
                raise NotDone(
                    f"{other} is not merged: git merge {other}, then resolve the conflicts"
                )
            return
        asks_for_change = any(":" not in touch for touch in touches)
        if not files and (asks_for_change or self.shop.options.requires_change):
            raise NotDone("you changed no file, but this step asks for a change of files")
        if outside := uncovered(files, touches):
            named = ", ".join(outside[:10])
            raise NotDone(f"only {', '.join(touches)} may change; undo your changes of {named}")

    async def _update_tree(self) -> None:
        """Merge the target branch into the worktree, so that the agent sees what the check sees."""
        if self.tree is not None:
            repository = self.tree.repository
            self.start = await self.shop.merger(self.step.plan_id, repository).tip()
            await self.tree.git(
                *await repository.identity(), "merge", "--quiet", "--no-edit", self.start
            )

    async def _ask_person(self, question: str, result: Json) -> None:
        """Request the review. Only one review of a plan can be open, so wait for that one first."""
        summary = question[:_MAX_SUMMARY_LENGTH] or self.step.title or "Please decide."
        while True:
            try:
                await self.step.review(summary, result=result)
            except (InvalidTransition, NotModifiable) as error:
                if error.details.get("new") != "awaiting_review":
                    raise
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return
