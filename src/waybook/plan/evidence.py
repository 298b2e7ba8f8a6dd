"""What a result must have before it counts: the shape the step asks for, and enough sources.

A person's approval is a decision and needs neither; this is asked of agents alone.
"""

from waybook.errors import InvalidInput, NextCall
from waybook.plan.model import Plan, StepId, StepText
from waybook.plan.schema import check_result, result_errors, summarize_errors
from waybook.record.moment import Json

#: How many sources one answer names.
MAX_SOURCES_NAMED = 20


def check_result_evidence(plan: Plan, step_id: StepId, result: Json) -> None:
    """Let only a result pass that has the step's shape and rests on enough sources.

    Raises:
        InvalidInput: with all that is missing, of both kinds.
        TooLarge: checking it would take too long.
    """
    text = plan.texts[step_id]
    lacking = (text.required_sources or 0) - len(text.sources)
    if lacking <= 0:
        check_result(text.result_schema, result)
        return
    faults = result_errors(text.result_schema, result)
    said = [*([summarize_errors(faults)] if faults else []), _said_of_sources(text)]
    missing: dict[str, Json] = {"missing": [*faults], "resultSchema": text.result_schema}
    raise InvalidInput(
        "; ".join(said),
        next_call=_store(plan, step_id),
        sources=_sources(text, lacking),
        **(missing if faults else {}),
    )


def _said_of_sources(text: StepText) -> str:
    return (
        f"this step needs {text.required_sources} sources, {len(text.sources)} are stored for it: "
        "store what the result rests on, then submit again"
    )


def _sources(text: StepText, lacking: int) -> Json:
    counted: list[Json] = [
        {"sourceId": source.id, "title": source.title, "url": source.url}
        for source in text.sources[:MAX_SOURCES_NAMED]
    ]
    return {
        "required": text.required_sources,
        "stored": len(text.sources),
        "missing": lacking,
        "counted": counted,
    }


def _store(plan: Plan, step_id: StepId) -> NextCall:
    why = "store research for this step with its sources; each source counts once"
    return NextCall("store_research", {"planId": plan.id, "stepId": step_id}, why)
