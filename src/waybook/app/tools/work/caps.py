"""Tools that reserve work under caps, settle it, and let a person raise a cap or end the work."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from waybook.accounts import caps as rules
from waybook.accounts.caps import Amounts, Cap, Outcome, Unit, Verdict, WantedCap
from waybook.app.accounts.members import LockedOrg
from waybook.app.queries.workers import cap_view
from waybook.app.request import arguments as arg
from waybook.app.request.locks.locking import OpenTransaction, Proposal, Written, update
from waybook.app.request.plan_arguments import UsageArgument, to_usage
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import (
    LIST_PLANS,
    RequestContext,
    ToolReply,
    not_found,
    uuid_or_nil,
)
from waybook.app.request.tool import ADMIN, WORK, Tool
from waybook.core.changes import Entry
from waybook.core.decision_context import Channel, ReviewPolicy, Scope
from waybook.core.events import WORK as WORK_EVENT
from waybook.core.events import ChangeEvent
from waybook.core.usage import to_dollars, to_micros
from waybook.errors import Forbidden, InvalidInput, NextCall, TooLarge
from waybook.json_values import Body, format_time, non_empty
from waybook.store.agents import names_statement
from waybook.store.driver.queries import Statement, new_id, new_uuid
from waybook.store.work import SQL

#: Reservations that an org may have open at the same time.
MAX_OPEN_RESERVATIONS: Final = 2_000
_MAX_LIMIT: Final = 10**12
_MAX_CAPS: Final = 20
_DEFAULT_LEASE_SECONDS: Final = 900
_RETRY_WHEN_FULL_SECONDS: Final = 5
_RETRY_AFTER_PERSON_SECONDS: Final = 60
_WRITES: Final = frozenset({Scope.PLAN_WRITE, Scope.RUN_WRITE})

# Programs that start agents call these tools, not models. To keep the tool list small, the
# published schemas omit limits and arguments that only such programs use; the reference has them.
_Seconds = Annotated[int, arg.clamped(1, 10**7)]
_Limit = Annotated[float, Field(allow_inf_nan=False), arg.clamped(0, 10**12)]


class _SubjectArguments(arg.WorkerArguments):
    plan_id: arg.PlanIdField | None = None
    run_id: arg.RunIdField | None = None


class _Maximum(arg.Nested):
    tokens: Annotated[int, arg.clamped(1, 10**9)] | None = arg.optional("tokens")
    cost_usd: _Limit | None = arg.optional("US dollars")
    seconds: _Seconds | None = arg.optional("seconds")

    def amounts(self) -> Amounts:
        cost = None if self.cost_usd is None else max(1, to_micros(self.cost_usd))
        amounts = {Unit.TOKENS: self.tokens, Unit.COST: cost, Unit.SECONDS: self.seconds}
        return {unit: amount for unit, amount in amounts.items() if amount is not None}


def _amount(unit: str, limit: float) -> int:
    return min(to_micros(limit), _MAX_LIMIT) if unit == Unit.COST else int(limit)


class _CapArgument(arg.Nested):
    scope: Literal["plan", "run", "agent", "org"]
    period: Literal["total", "day"] = "total"
    unit: Literal["tokens", "costUsd", "seconds", "steps", "failures"]
    limit: Annotated[float, Field(ge=0, le=_MAX_LIMIT, allow_inf_nan=False)]


class _ReserveWork(_SubjectArguments):
    agent: arg.Name = Field(description="agent that will work, such as codex")
    maximum: arg.LenientJson[_Maximum] | None = arg.optional("most it may use; default: all left")
    #: Caps to create or to lower.
    caps: SkipJsonSchema[
        arg.LenientJson[Annotated[list[_CapArgument], Field(max_length=_MAX_CAPS)]] | None
    ] = None
    #: Without `report_worker`, the reservation ends after this time.
    lease_seconds: SkipJsonSchema[Annotated[int, Field(ge=60, le=86_400)]] = _DEFAULT_LEASE_SECONDS

    def names(self) -> dict[str, str | None]:
        return {"plan_id": self.plan_id, "run_id": self.run_id, "agent": self.agent}

    def wanted(self) -> Iterable[WantedCap]:
        subjects = {"plan": self.plan_id, "run": self.run_id, "agent": self.agent, "org": ""}
        for cap in self.caps or ():
            subject = subjects[cap.scope]
            if subject is not None:
                most = _amount(cap.unit, cap.limit)
                yield WantedCap(cap.scope, subject, cap.period, cap.unit, most)


@Tool(
    title="Reserve work",
    description=(
        "Reserve what a step or job may use. status: granted; waiting (others reserved the rest); "
        "paused (a person decides); ended."
    ),
    reply={"status": "string"},
    profiles=WORK,
    scopes=_WRITES,
)
async def reserve_work(ctx: RequestContext, args: _ReserveWork) -> ToolReply:
    if (args.plan_id is None) == (args.run_id is None):
        raise InvalidInput("give either planId or runId", argument="planId")
    (named,) = await ctx.read(names_statement([args.plan_id or args.run_id or ""]))
    if [row.kind for row in named] != ["plan" if args.plan_id else "run"]:
        raise not_found("plan" if args.plan_id else "run")
    names = args.names()
    if args.caps:
        await _set_caps(ctx, args)
    opened = OpenTransaction(
        ctx,
        SQL["lock_caps"](**names),
        SQL["caps_of"](**names),
        SQL["count_open"](most=MAX_OPEN_RESERVATIONS),
    )

    async def decide() -> Proposal[Written]:
        _, caps, (counted,) = opened.results
        if counted.open >= MAX_OPEN_RESERVATIONS:
            raise TooLarge(
                f"this org has {counted.open:,} unsettled reservations; settle some, or wait: they "
                "are forgotten after a week",
                limit=MAX_OPEN_RESERVATIONS,
            )
        ruling = rules.rule(caps, args.maximum.amounts() if args.maximum else {})
        if ruling.verdict is Verdict.GRANTED:
            statements = [SQL["resume_cap"](id=cap.id) for cap in caps if cap.paused_at]
            return _granted(args, ruling.amounts, opened.now, statements)
        cap, event = ruling.cap, None
        statements = list[Statement]()
        if cap is not None and ruling.verdict is Verdict.PAUSED:
            statements.append(SQL["pause_cap"](id=cap.id, now=opened.now))
            event = work_event(opened.now) if cap.paused_at is None else None
        body = _refused(ruling, opened.now, ctx.services.base_url)
        return Proposal(Written(statements, event=event), body)

    return await update(opened, decide)


def work_event(now: datetime) -> ChangeEvent:
    """Return an event that makes open pages show workers and caps again."""
    return ChangeEvent(WORK_EVENT, new_id(), int(now.timestamp()), list_changed=True)


def _granted(
    args: _ReserveWork, amounts: Amounts, now: datetime, more: Sequence[Statement]
) -> Proposal[Written]:
    reservation_id = new_uuid()
    tokens, cost, seconds = (amounts.get(u) for u in (Unit.TOKENS, Unit.COST, Unit.SECONDS))
    insert = SQL["insert_reservation"](
        **args.names(),
        id=reservation_id,
        tokens=tokens,
        cost_micros=cost,
        seconds=seconds,
        lease=args.lease_seconds,
        now=now,
    )
    maximum: Body = {str(unit): _shown(unit, amount) for unit, amount in amounts.items()}
    why = "Report what the work used when it has ended."
    body: Body = {
        "status": str(Verdict.GRANTED),
        "reservationId": reservation_id,
        "expiresAt": format_time(now + timedelta(seconds=args.lease_seconds)),
        "maximum": maximum,
        "next": next_call("settle_work", why, reservationId=reservation_id),
    }
    event = work_event(now) if more else None
    statements = [SQL["forget_reservations"](), insert, *more]
    return Proposal(Written(statements, event=event), body)


def _shown(unit: Unit, amount: int) -> float:
    return to_dollars(amount) if unit is Unit.COST else amount


def _refused(ruling: rules.Ruling, now: datetime, base_url: str) -> Body:
    cap, resumes, retry = ruling.cap, None, _RETRY_AFTER_PERSON_SECONDS
    if ruling.verdict is Verdict.WAITING:
        retry = _RETRY_WHEN_FULL_SECONDS
    elif cap is not None and cap.period == rules.Period.DAY:
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        resumes = format_time(midnight + timedelta(days=1))
    return non_empty(
        status=str(ruling.verdict),
        cap=cap_view(cap) if cap else None,
        retryAfterSeconds=None if ruling.verdict is Verdict.ENDED else retry,
        resumesAt=resumes if ruling.verdict is Verdict.PAUSED else None,
        url=f"{base_url}/inbox" if ruling.verdict is Verdict.PAUSED else None,
        next=next_call("list_active_plans", "See the open plans. Ask again later."),
    )


async def _set_caps(ctx: RequestContext, args: _ReserveWork) -> None:
    """Create, lower or raise the caps that the caller asks for, with audit entries of the org."""
    wanted, names = [*args.wanted()], args.names()
    may_raise = Scope.REVIEW in ctx.caller.scopes
    (caps,) = await ctx.read(SQL["caps_of"](**names))
    if not any(rules.changes(caps, wanted, may_raise=may_raise)):
        return
    async with LockedOrg(ctx, SQL["caps_of"](**names), needs=None) as locked:
        made = [*rules.changes(locked.results[0], wanted, may_raise=may_raise)]
        if made:
            by = ctx.actor().user
            statements = [
                SQL["set_limit"](id=change.cap.id, most=change.wanted.most)
                if change.cap
                else SQL["insert_cap"](
                    **change.wanted._asdict(), id=new_id(), now=locked.now, by=by
                )
                for change in made
            ]
            entries = tuple(change.entry for change in made)
            await locked.commit(Proposal(entries, {}, more=statements, is_answer=False))


class _SettleWork(arg.WorkerArguments):
    reservation_id: arg.Id = Field(description="from reserve_work")
    outcome: Literal["completed", "failed", "given_back"] = Field(description="how it ended")
    usage: UsageArgument = None
    seconds: Annotated[int, arg.clamped(0, 10**7)] | None = arg.optional("time it took")

    def amounts(self) -> Amounts:
        usage = to_usage(self.usage)
        tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0) if usage else 0
        cost = (usage.cost_micros or 0) if usage else 0
        return {
            Unit.TOKENS: tokens,
            Unit.COST: cost,
            Unit.SECONDS: self.seconds or 0,
        }


@Tool(
    title="Settle work",
    description="Replace a reservation by what was used. A repeated call changes nothing.",
    reply={"status": "string"},
    idempotent=True,
    profiles=WORK,
    scopes=_WRITES,
)
async def settle_work(ctx: RequestContext, args: _SettleWork) -> ToolReply:
    reservation_id = uuid_or_nil(args.reservation_id)
    opened = OpenTransaction(ctx, SQL["lock_reservation"](id=reservation_id))

    async def decide() -> Proposal[Written] | Body:
        if not opened.results[0]:
            raise not_found("reservation", LIST_PLANS)
        reservation = opened.results[0][0]
        why = "Claim the next step or job."
        following = next_call("get_next_step", why, planId=reservation.plan_id)
        if reservation.run_id is not None:
            following = next_call("get_next_job", why, runId=reservation.run_id)
        body: Body = {
            "status": "settled",
            "reservationId": reservation_id,
            "next": following,
        }
        if reservation.settled_at is not None:
            return {**body, "repeated": True}
        names = {name: getattr(reservation, name) for name in ("plan_id", "run_id", "agent")}
        _, caps = await opened.send(SQL["lock_caps"](**names), SQL["caps_of"](**names))
        used, outcome = args.amounts(), Outcome(args.outcome)
        settled = [
            SQL["settle_cap"](id=cap.id, used=rules.used_after(cap, used, outcome)) for cap in caps
        ]
        return Proposal(Written([SQL["settle_reservation"](id=reservation_id), *settled]), body)

    return await update(opened, decide)


class _DecideCap(arg.WorkerArguments):
    cap_id: arg.Id = Field(description="the cap")
    limit: _Limit | None = arg.optional("new limit")
    end: bool = arg.optional("end the work", default=False)


@Tool(
    title="Raise a cap or end its work",
    description="Pass on a person's decision at a cap.",
    reply={"status": "string"},
    profiles=ADMIN,
    scopes=frozenset({Scope.REVIEW}),
)
async def decide_cap(ctx: RequestContext, args: _DecideCap) -> ToolReply:
    if (args.limit is None) != args.end:
        raise InvalidInput("give either limit, or end: true", argument="limit")
    statement = SQL["cap"](id=args.cap_id)
    locked = LockedOrg(ctx, SQL["lock_cap"](id=args.cap_id), statement, needs=None)

    async def decide() -> Proposal[tuple[Entry, ...]]:
        if not locked.results[1]:
            raise not_found("cap")
        cap: Cap = locked.results[1][0]
        is_human = locked.org.review_policy is ReviewPolicy.HUMAN
        if is_human and ctx.caller.channel is Channel.MCP:
            raise Forbidden(
                "with the review policy human, only a person raises a cap or ends the work: in the "
                "inbox",
                next_call=NextCall("list_active_plans", {}, "See the plans."),
            )
        if args.limit is None:
            entry, change = rules.end_work(cap), SQL["end_cap"](id=cap.id, now=locked.now)
        else:
            most = _amount(cap.unit, args.limit)
            entry, change = rules.raise_cap(cap, most), SQL["raise_cap"](id=cap.id, most=most)
            cap = cap._replace(most=most)
        body: Body = {
            "status": "ended" if args.end else "raised",
            "cap": cap_view(cap),
            "next": next_call("list_active_plans", "See the open plans."),
        }
        return Proposal((entry,), body, more=[change])

    reply = await update(locked, decide)
    if isinstance(reply, dict):  # A repeated call changes nothing.
        ctx.services.bus.publish(ctx.caller.org_id, work_event(locked.now))
    return reply
