"""Delivery of finished steps: merges, submits, adds steps for conflicts, and removes worktrees."""

import asyncio
import logging
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from waybook.client import Client
from waybook.client.claims import ClaimTerms
from waybook.errors import NotModifiable, PlanTerminal, StalePlan, WaybookError
from waybook.work.held import HeldStep
from waybook.work.merging import Conflict, Merger
from waybook.work.options import Options
from waybook.work.prompts import (
    branch_to_resolve,
    conflict_instructions,
    conflict_title,
    name_of,
)
from waybook.work.records import Record, Stage, StateFolder, is_pooled, read_record
from waybook.work.worktrees import GitError, NotDone, Repository

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 2.0
_MIN_TOKENS: Final = 500
_LISTS: Final = ("activeSteps", "completedSteps", "pendingSteps", "failedSteps")


class Workshop:
    """Parts that the workers of one process share: options, state folder, repositories, mergers."""

    def __init__(
        self, options: Options, state: StateFolder, repository: Repository | None, session: str
    ) -> None:
        self.options, self.state, self.repository = options, state, repository
        #: A session of this process, which names its worktrees for merges.
        self.session = session
        #: Whether the plan or run has ended, so that an agent that waits for its provider ends too.
        self.is_over = False
        #: This process's repository, and those of the records of earlier processes.
        self._repositories = {str(repository.common): repository} if repository else {}
        self._mergers: dict[tuple[Repository, str], Merger] = {}
        self._settling = asyncio.Lock()

    def _repository_of(self, record: Record) -> Repository:
        path = str(record.repository)
        return self._repositories.setdefault(path, Repository(Path(path)))

    def merger(self, plan_id: str, repository: Repository, target: str | None = None) -> Merger:
        name = target or self.options.target or branch_of(plan_id, "merged")
        key = repository, name
        if key not in self._mergers:
            folder = self.state.pooled_tree(self.session, f"{plan_id}-{len(self._mergers)}")
            self._mergers[key] = Merger(repository, name, folder, self.options.check)
        return self._mergers[key]

    async def close(self) -> None:
        for repository in self._repositories.values():
            for folder in [*repository.trees]:
                await repository.remove_tree(folder)
        self.state.close()

    async def deliver(self, client: Client, step: HeldStep, record: Record) -> None:
        """Merge the branch of a finished step, submit the result, and remove the worktree.

        A repeated call continues where a killed worker stopped.

        Raises:
            CheckFailed: the check failed on the merged state; nothing was submitted.
            InvalidInput: the server refuses the result.
        """
        conflict = await self._merge(client, record)
        if not step.is_ended_by_agent:
            await step.submit(record.result, usage=record.usage or None)  # type: ignore[arg-type]
        await self.clear(record, keeps_branch=conflict is not None)

    async def _merge(self, client: Client, record: Record) -> Conflict | None:
        if record.repository is None or record.branch is None:
            return None
        merger = self.merger(record.plan_id, self._repository_of(record), record.target)
        message = f"merge step {record.order}: {name_of(record.reply)}"
        conflict = await merger.merge(record.order, record.branch, message)
        if conflict is not None:
            await _add_conflict_step(client, record, conflict)
        return conflict

    async def clear(self, record: Record, *, keeps_branch: bool = False) -> None:
        """Remove the worktree, the branch and the record of a step."""
        owner, is_finished = read_record(record.path), record.stage is Stage.FINISHED
        if owner and (owner.session, owner.attempt) != (record.session, record.attempt):
            return  # Another worker has begun the next attempt.
        branches = [None if keeps_branch else record.branch]
        branches += [branch_to_resolve(record.reply)] if is_finished else []
        try:
            if record.repository is not None:
                repository = self._repository_of(record)
                # A worker uses a worktree again, unless the agent may have damaged it. It does
                # other steps there while this one is parked.
                is_damaged = record.stage is Stage.WORKING
                if record.folder and (is_damaged or not is_pooled(record.folder)):
                    await repository.remove_tree(Path(record.folder))
                for branch in filter(None, branches):
                    await repository.delete_branch(branch)
        except GitError as error:  # The repository may be gone.
            log.warning("step %s left files behind: %s", record.step_id, error)
        record.path.unlink(missing_ok=True)

    async def settle(self, client: Client, plan_id: str) -> None:
        """Merge the steps that a review has approved, and forget those that have ended otherwise.

        A step that was sent back keeps its record, from which a worker continues.
        """
        async with self._settling:
            for record in self.state.records():
                if record.plan_id != plan_id or record.stage is not Stage.PARKED:
                    continue
                known = await client.call(
                    "get_step_context", stepId=record.step_id, budgetTokens=_MIN_TOKENS
                )
                conflict = None
                if known["status"] not in {"completed", "failed", "skipped"}:
                    continue
                if (known["status"], known["attempt"]) == ("completed", record.attempt):
                    conflict = await self._merge(client, record)
                    record.stage = Stage.FINISHED
                await self.clear(record, keeps_branch=conflict is not None)

    async def recover(self, client: Client) -> None:
        """Finish or give back what workers of this machine held that were killed."""
        for folder in self.state.abandoned_trees():
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        if self.repository is not None:
            await self.repository.git("worktree", "prune")
        records = [r for r in self.state.records() if r.stage is not Stage.PARKED]
        for record in sorted(records, key=lambda each: each.order):
            if not self.state.take(record.session):
                continue
            terms = ClaimTerms(record.session, "keep", HEARTBEAT_SECONDS)
            try:
                await self._recover(client, HeldStep(client, record.reply, terms), record)
            except (WaybookError, GitError, NotDone) as error:
                log.warning("step %s was not recovered: %s", record.step_id, error)
                await self.clear(record)
            if record.reservation:
                is_finished = record.stage is Stage.FINISHED
                used = {"usage": record.usage} if is_finished else {}
                outcome = "completed" if is_finished else "given_back"
                with suppress(WaybookError):  # It expires, and counts as used then.
                    await client.call(
                        "settle_work", **{**record.reservation, **used}, outcome=outcome
                    )

    async def _recover(self, client: Client, step: HeldStep, record: Record) -> None:
        status = await step.look()
        is_finished = record.stage is Stage.FINISHED
        if is_finished and (status == "in_progress" or step.is_ended_by_agent):
            async with step:
                await self.deliver(client, step, record)
            return
        if status == "in_progress":
            await step.give_back("the worker was killed")
        await self.clear(record)


def branch_of(plan_id: str, name: str) -> str:
    return f"waybook/{plan_id}/{name}"


async def _add_conflict_step(client: Client, record: Record, conflict: Conflict) -> None:
    """Add a step that resolves a conflict, and let the dependent steps wait for it."""
    branch = str(record.branch)
    title = conflict_title(branch)
    while True:
        plan = await client.call("get_plan_status", planId=record.plan_id, detail=True)
        steps = [step for name in _LISTS for step in plan[name]]
        if any(step.get("title") == title for step in steps):
            return
        orders = {step["stepId"]: step["stepOrder"] for step in steps}
        order = orders[record.step_id]
        has_dependencies = any(step.get("dependsOn") for step in steps)
        new: dict[str, Any] = {
            "stepType": "custom",
            "title": title,
            "instructions": conflict_instructions(branch, conflict),
            "dependsOn": [order] if has_dependencies else [],
        }
        if record.reply.get("touches"):
            new["touches"] = conflict.files
        changes: list[dict[str, Any]] = [
            {"action": "add_steps", "insertAfterOrder": order, "steps": [new]}
        ]
        for step in plan["pendingSteps"]:
            if record.step_id in (before := step.get("dependsOn") or []):
                shifted = [orders[each] + (orders[each] > order) for each in before]
                named = {"action": "set_dependencies", "stepId": step["stepId"]}
                changes.append({**named, "dependsOn": [*shifted, order + 1]})
        try:
            await client.call(
                "modify_plan",
                planId=record.plan_id,
                modifications=changes,
                modificationRationale=f"{branch} conflicts with {conflict.target}",
                expectedRevision=plan["revision"],
                sessionId=record.session,
            )
        except (StalePlan, NotModifiable):  # A review of another step may be open.
            await asyncio.sleep(RETRY_SECONDS)
        except PlanTerminal:
            log.warning("%s conflicts with %s: merge it yourself", branch, conflict.target)
            return
        else:
            return
