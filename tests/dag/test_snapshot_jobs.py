"""Jobs of a snapshot: counting in groups gives the same result as counting one by one."""

from collections import Counter
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from waybook.dag.diagnostics import StageWarning, count_noun, quote_name
from waybook.dag.model import JobType
from waybook.dag.progress.report import RenderJob
from waybook.dag.progress.structure import JobEvidence
from waybook.dag.snapshots.rows import (
    FIELDS,
    MAX_CONTINUATION_DEPTH,
    Row,
    as_list,
    as_object,
    as_text,
    assign_jobs,
)

SLUGS = frozenset({"one", "two"})

IDS: st.SearchStrategy[object] = st.sampled_from(["a", "b", "c", None, 7, "7", True, ["a"]])
VALUES: dict[str, st.SearchStrategy[object]] = {
    "id": IDS,
    "stageSlug": st.sampled_from(["one", "one", "two", "three", None, 1, {}]),
    "stepKey": st.sampled_from(["x", "x", "y", None, 5, []]),
    "jobType": st.sampled_from(["EXECUTE", "PLAN", "RENDER", "SLEEP", None, 0]),
    "status": st.sampled_from(["completed", "failed", "paused", None, 3]),
    "modelId": st.sampled_from(["m", None, 4]),
    "parent": IDS,
    "continues": IDS,
    "documentKey": st.sampled_from(["text", None, {}]),
}
#: Rows of jobs, some of them incomplete, and values that are not rows.
RAWS: st.SearchStrategy[list[object]] = st.lists(
    st.fixed_dictionaries({name: VALUES[name] for name in FIELDS})
    | st.fixed_dictionaries({}, optional=VALUES)
    | st.sampled_from([None, 1, "row", []]),
    max_size=12,
)
PLAIN = st.lists(
    st.fixed_dictionaries(
        {
            name: values.filter(lambda value: value is None or isinstance(value, str))
            for name, values in VALUES.items()
        }
    ),
    max_size=12,
)


def read_row(raw: object) -> Row:
    row = {name: as_object(raw).get(name) for name in FIELDS}
    if any(value is not None and type(value) is not str for value in row.values()):
        row = {name: as_text(value) for name, value in row.items()}
    return cast("Row", row)


def locate(row: Row, by_id: dict[str, Row]) -> tuple[str | None, str | None]:
    if row["stageSlug"] is not None and row["stepKey"] is not None:
        return row["stageSlug"], row["stepKey"]
    if row["jobType"] == JobType.RENDER:
        return row["stageSlug"] or by_id.get(row["parent"] or "", row)["stageSlug"], row["stepKey"]
    last = row
    for _ in range(MAX_CONTINUATION_DEPTH):
        if last["stepKey"] is not None or last["continues"] not in by_id:
            break
        last = by_id[last["continues"] or ""]
    return row["stageSlug"] or last["stageSlug"], last["stepKey"]


def row_warnings(row: Row, named: str | None) -> list[StageWarning]:
    stage = named if named in SLUGS else None
    warnings = []
    if named is None:
        warnings.append(StageWarning(None, "without a stage"))
    elif stage is None:
        warnings.append(StageWarning(None, f"of an unknown stage: {quote_name(named)}"))
    if row["id"] is None:
        warnings.append(StageWarning(stage, "without an id"))
    if row["jobType"] is None:
        warnings.append(StageWarning(stage, "without a type"))
    elif row["jobType"] not in set(JobType):
        warnings.append(StageWarning(stage, f"of the unknown type {quote_name(row['jobType'])}"))
    return warnings


def assign_by_row(
    raws: object,
) -> tuple[dict[str, Counter[JobEvidence]], list[RenderJob], set[StageWarning]]:
    rows = [read_row(raw) for raw in as_list(raws)]
    by_id: dict[str, Row] = {}
    for row in rows:
        if row["id"] is not None:
            by_id[row["id"]] = min(row, by_id.get(row["id"], row), key=str)
    work: dict[str, Counter[JobEvidence]] = {}
    renders: list[RenderJob] = []
    strange: Counter[StageWarning] = Counter()
    for row in rows:
        named, step = locate(row, by_id)
        stage = named if named in SLUGS else None
        strange.update(row_warnings(row, named))
        counts = work.setdefault(stage, Counter()) if stage is not None else Counter()
        if row["jobType"] != JobType.RENDER:
            counts[step, row["jobType"] or "", row["status"] or ""] += 1
        elif row["id"]:
            parent = by_id.get(row["parent"] or "", row) if row["parent"] is not None else row
            key, model = (
                row["documentKey"] or parent["documentKey"],
                row["modelId"] or parent["modelId"],
            )
            renders.append(RenderJob(row["id"], stage, row["status"] or "", key, model))
    twins = sum(row["id"] is not None for row in rows) - len(by_id)
    if twins:
        strange[StageWarning(None, "with the id of another job")] += twins
    warnings = {
        StageWarning(stage, f"{count_noun(many, 'job')} {message}")
        for (stage, message), many in strange.items()
    }
    return work, renders, warnings


@given(raws=RAWS | PLAIN)
def test_jobs_counted_in_groups_equal_jobs_counted_one_by_one(raws: list[object]) -> None:
    work, renders, warnings = assign_jobs(raws, SLUGS)
    expected_work, expected_renders, expected = assign_by_row(raws)
    assert work == expected_work
    assert renders == expected_renders
    assert sorted(warnings, key=str) == sorted(expected, key=str)
