"""What work took, in a line: for people who look at a plan, a run or all of them."""

from rich.text import Text

from waybook.plan.budget import BudgetShare, shares, warning
from waybook.plan.model import Plan
from waybook.record.usage import Totals, format_cost


def usage_line(took: Totals) -> Text:
    """What a plan or a run took: "usage  1,200 tokens in, 300 out, $0.45, told by 3 results"."""
    results = f"{took.results:,} result{'s' if took.results != 1 else ''}"
    tokens = f"{took.input_tokens:,} tokens in, {took.output_tokens:,} out"
    cost = format_cost(took.cost_micros)
    return Text.assemble(("usage", "dim"), f"     {tokens}, {cost}, told by {results}")


def plan_usage_lines(plan: Plan) -> list[Text]:
    """What a plan took, and how much of its budget that is, where there is anything to say."""
    lines = [usage_line(plan.usage)] if plan.usage.results else []
    if plan.budget is not None:
        lines += [_share_line(part) for part in shares(plan.budget, plan.usage)]
    return lines


def _share_line(part: BudgetShare) -> Text:
    tokens = part.name == "tokens"
    used = f"{part.used:,}" if tokens else format_cost(part.used)
    of = f"{part.of:,} tokens" if tokens else format_cost(part.of)
    style = "yellow" if warning(part) else ""
    return Text.assemble(("budget", "dim"), "    ", (f"{used} of {of}, {part.percent} %", style))
