"""Agents that create plans and work through them."""

import time
from typing import Final

from faults.agents import Agent
from faults.history import Body, Call

OVER: Final = frozenset({"plan_complete", "plan_failed"})
CLOSED_CODES: Final = frozenset({"PLAN_TERMINAL", "NOT_FOUND"})
#: Pause of an agent that holds a step. In this time, another agent retries the step, so that the
#: result of the first agent is late.
DOZE_SECONDS: Final = 4.0


def step(mark: str, number: int, *depends_on: int) -> Body:
    """Return the arguments of a step for `create_research_plan`."""
    text = f"Look up {number} ({mark})."
    return {"stepType": "search", "instructions": text, "dependsOn": [*depends_on]}


def chain(mark: str) -> Body:
    """Return a plan with four steps in sequence and two conditions."""
    steps = [step(mark, number) for number in range(1, 5)]
    more = [{"stepType": "search", "instructions": f"Look closer ({mark})."}]
    conditions = [
        {
            "afterStepOrder": 1,
            "conditionExpression": "result.n == 0",
            "ifTrueAction": "skip_to",
            "actionParams": {"targetStepOrder": 4},
        },
        {
            "afterStepOrder": 2,
            "conditionExpression": "result.n == 1",
            "ifTrueAction": "add_steps",
            "actionParams": {"steps": more},
        },
    ]
    return {"steps": steps, "branchingConditions": conditions}


def fan(mark: str) -> Body:
    """Return a plan with two fan-outs, each of which is followed by a fan-in."""
    depends = {1: (), 2: (), 3: (), 4: (1, 2, 3), 5: (4,), 6: (4,), 7: (5, 6)}
    return {"steps": [step(mark, number, *before) for number, before in depends.items()]}


class PlanAgent(Agent):
    """Agent that claims steps, submits results, and requests and decides reviews."""

    async def turn(self) -> None:
        """Work on a plan of the org, or create one."""
        tenant, work = self.tenant, self.work
        if len(tenant.plans) < work.open_plans and work.makes_new:
            await self._create()
        elif tenant.plans:
            plan_id = self.rng.choice(sorted(tenant.plans))
            roll = self.rng.random()
            if roll < 0.01:
                await self._trespass()
            elif roll < 0.05:
                await self._look(plan_id)
            else:
                await self._work_on(plan_id)
        else:
            await self.doze(0.05)

    async def _create(self) -> None:
        key = self.work.new_key()
        shape = self.rng.choice((chain, fan))(key)
        name = f"{self.tenant.canary} {key}"
        args = {"name": name, "researchQuestion": f"Which? {self.tenant.canary}", **shape}
        call = await self.call("create_research_plan", args, key)
        if call.is_acknowledged:
            self.tenant.plans.add(call.reply["planId"])

    async def _look(self, plan_id: str) -> None:
        await self.call("get_plan_status", {"planId": plan_id})

    async def _trespass(self) -> None:
        """Try to read a plan of another org."""
        others = [
            tenant for tenant in self.work.tenants if tenant is not self.tenant and tenant.plans
        ]
        if others:
            other = self.rng.choice(others)
            plan_id = self.rng.choice(sorted(other.plans))
            call = await self.call("get_plan_status", {"planId": plan_id})
            if call.is_acknowledged:
                message = f"{self.tenant.slug} was shown plan {plan_id} of {other.slug}"
                self.work.history.leaks.append(message)

    async def _work_on(self, plan_id: str) -> None:
        call = await self.call("get_next_step", {"planId": plan_id}, self.work.new_key())
        status = call.reply.get("status")
        if not call.is_acknowledged:
            return
        if status == "step_ready":
            await self._do(plan_id, self.body["stepId"], self.body["attempt"])
        elif status == "awaiting_review":
            await self._decide(plan_id, self.body.get("review") or {})
        elif status == "no_pending_steps":
            steps = [*self.body["steps"], *self.body.get("failedSteps", ())]
            await self._take_back(plan_id, steps)
        elif status in OVER:
            self.tenant.plans.discard(plan_id)

    async def _do(self, plan_id: str, step_id: str, attempt: int) -> None:
        work = self.work
        if work.chance(0.03):
            await self.die()
            return
        if work.chance(0.03):
            await self.doze(DOZE_SECONDS)
        elif work.chance(0.3):
            await self.doze(self.rng.uniform(0, 0.2))
        roll = self.rng.random()
        if roll < 0.06:
            await self._ask(step_id, attempt)
        elif roll < 0.09:
            await self._modify(plan_id, "fail_step", stepId=step_id, retry=True)
        elif roll < 0.12 and work.makes_new:
            key = work.new_key()
            steps = [{"stepType": "search", "instructions": f"Also look up ({key})."}]
            await self._modify(plan_id, "add_steps", key, steps=steps)
        else:
            await self._submit(step_id, attempt)

    async def _submit(self, step_id: str, attempt: int) -> Call:
        key = self.work.new_key()
        result_summary = {"n": self.rng.randrange(4), "mark": key, "canary": self.tenant.canary}
        args = {"stepId": step_id, "attempt": attempt, "resultSummary": result_summary}
        return await self.call("submit_step_result", args, key)

    async def _ask(self, step_id: str, attempt: int) -> None:
        key = self.work.new_key()
        result_summary = {"n": 2, "canary": self.tenant.canary}
        args = {
            "stepId": step_id,
            "attempt": attempt,
            "summary": f"Please look ({key}).",
            "resultSummary": result_summary,
        }
        await self.call("request_user_review", args, key)

    async def _decide(self, plan_id: str, review: Body) -> None:
        """Decide a review; while agents misbehave, leave own requests for review to other users."""
        if not review or (review.get("requestedBy") == self.user and self.work.misbehaves):
            return
        key = self.work.new_key()
        decision = self.rng.choices(("approve", "skip", "modify"), (4, 3, 2))[0]
        args = {"planId": plan_id, "decision": decision, "feedback": f"So be it ({key})."}
        await self.call("submit_user_decision", {**args, "stepId": review["stepId"]}, key)

    async def _take_back(self, plan_id: str, steps: list[Body]) -> None:
        """Retry the first step whose holder has sent no heartbeat for too long."""
        held, now = self.tenant.held_since, time.monotonic()
        for plan_step in steps:
            key = (plan_step["stepId"], plan_step.get("lastSeenAt", ""))
            if now - held.setdefault(key, now) > self.work.patience_seconds:
                del held[key]
                await self._modify(plan_id, "retry_step", stepId=plan_step["stepId"])
                return

    async def _modify(
        self, plan_id: str, action: str, key: str | None = None, **more: object
    ) -> None:
        key = key or self.work.new_key()
        change = {"action": action, **more}
        if action == "fail_step":
            change["reason"] = f"It did not work ({key})."
        args = {"planId": plan_id, "modifications": [change], "modificationRationale": key}
        call = await self.call("modify_plan", args, key)
        if call.code in CLOSED_CODES:
            self.tenant.plans.discard(plan_id)
