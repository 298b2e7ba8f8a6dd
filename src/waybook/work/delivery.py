"""Delivery of finished steps: merges, submits, adds steps for conflicts, and removes worktrees."""

import asyncio
import logging
import shutil
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
from waybook.work.records import Record, Stage, StateFolder
from waybook.work.worktrees import GitError, NotDone, Repository, Tree

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 2.0
_MIN_TOKENS: Final = 500
_LISTS: Final = ("activeSteps", "completedSteps", "pendingSteps", "failedSteps")


class Workshop:
    """Parts that the workers of one process share: options, state folder, repository, mergers."""

    def __init__(
        self, options: Options, state: StateFolder, repository: Repository | None, session: str
    ) -> None:
        self.options, self.state, self.repository = options, state, repository
        #: A session of this process, which names its worktrees for merges.
        self.session = session
        #: Whether the plan or run has ended, so that an agent that waits for its provider ends too.
        self.is_over = False
        #: Worktrees that are used again, because each belongs to a worker.
        self.worker_trees: dict[Path, Tree] = {}
        self._mergers: dict[tuple[Path, str], Merger] = {}
        self._settling = asyncio.Lock()

    def merger(self, plan_id: str, repository: Repository, target: str | None = None) -> Merger:
        name = target or self.options.target or branch_of(plan_id, "merged")
        key = repository.common, name
        if key not in self._mergers:
            folder = self.state.pooled_tree(self.session, f"{plan_id}-{len(self._mergers)}")
            self._mergers[key] = Merger(repository, name, folder, self.options.check)
        return self._mergers[key]

    async def close(self) -> None:
        for merger in self._mergers.values():
            await merger.close()
        for folder, tree in self.worker_trees.items():
            await tree.repository.remove_tree(folder)

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
        merger = self.merger(record.plan_id, Repository(Path(record.repository)), record.target)
        message = f"merge step {record.reply['stepOrder']}: {name_of(record.reply)}"
        conflict = await merger.merge(int(record.reply["stepOrder"]), record.branch, message)
        if conflict is not None:
            await _add_conflict_step(client, record, conflict)
        return conflict

    async def clear(self, record: Record, *, keeps_branch: bool = False) -> None:
        """Remove the worktree, the branch and the record of a step."""
        branches = [] if keeps_branch else [record.branch]
        if record.stage is Stage.FINISHED:
            branches.append(branch_to_resolve(record.reply))
        try:
            if record.repository is not None:
                repository = Repository(Path(record.repository))
                if record.folder and Path(record.folder) not in self.worker_trees:
                    await repository.remove_tree(Path(record.folder))
                for branch in filter(None, branches):
                    await repository.delete_branch(branch)
        except GitError as error:  # The repository may be gone.
            log.warning("step %s left files behind: %s", record.step_id, error)
        record.delete()

    async def forget(self, step: HeldStep, session: str) -> None:
        """Remove what a session left of an attempt that it lost."""
        record = self.state.record_of(step.plan_id, step.step_id)
        if record and (record.session, record.attempt) == (session, step.attempt):
            await self.clear(record)

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
        dead = set[str]()
        for folder, session in self.state.pooled_trees():
            if self.state.take(session, dead):
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
                if self.repository is not None:
                    await self.repository.git("worktree", "prune")
        records = [r for r in self.state.records() if r.stage is not Stage.PARKED]
        for record in sorted(records, key=lambda each: int(each.reply["stepOrder"])):
            if not self.state.take(record.session, dead):
                continue
            terms = ClaimTerms(record.session, "keep", HEARTBEAT_SECONDS)
            try:
                await self._recover(client, HeldStep(client, record.reply, terms), record)
            except (WaybookError, GitError, NotDone) as error:
                log.warning("step %s was not recovered: %s", record.step_id, error)
                await self.clear(record)
        for session in dead:
            self.state.release(session)

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
    title, order = conflict_title(branch), int(record.reply["stepOrder"])
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
