"""Turns the changes of a run that a `RunDecision` contains into SQL statements."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from waybook.core.changes import Entity
from waybook.json_values import Json
from waybook.run.model import Job, Run, RunDecision
from waybook.store.audit import (
    ChainHead,
    Patch,
    Patches,
    SealedEntry,
    WriteContext,
    audit_statements,
    sealed_entries,
)
from waybook.store.columns import TABLES
from waybook.store.comments import comment_statements
from waybook.store.driver.queries import AsJson, Ids, Rows, Statement, Value, fill, load, new_row

SQL = load("runs/writer")

_RUN_COLUMNS = frozenset({Entity.RUN, Entity.STAGE_RUN})
MAX_ROWS = 1_000


class RunWrite(NamedTuple):
    decision: RunDecision[object]
    loaded: Mapping[str, Job]
    write_context: WriteContext
    sealed: list[SealedEntry]
    head: ChainHead


def seal_decision(
    decision: RunDecision[object], loaded: Mapping[str, Job], write_context: WriteContext
) -> RunWrite:
    sealed = sealed_entries(decision.entries, ("run", decision.run.id), write_context)
    head = write_context.head
    if sealed:
        head = ChainHead(sealed[-1].seq, sealed[-1].hash, write_context.now)
    return RunWrite(decision, loaded, write_context, sealed, head)


def statements(
    before: Run | None, writes: Sequence[RunWrite], *, is_cached: bool = False
) -> list[Statement]:
    """Return the SQL statements that write the changes of consecutive calls on a run.

    The write fails if the run or one of the changed jobs has changed since it was read.
    """
    sealed = [entry for write in writes for entry in write.sealed]
    if not sealed:
        return [
            SQL["touch_job"](id=job_id, now=write.write_context.now)
            for write in writes
            for job_id in write.decision.touched
        ]
    run = writes[-1].decision.run
    entries = [entry for write in writes for entry in write.decision.entries]
    patches = Patches([change for entry in entries for change in entry.changes])
    return [
        *_run(before, writes, patches, is_cached=is_cached),
        *(_stages(run, patches) if Entity.STAGE_RUN in patches.entities else ()),
        *(_steps(run, patches) if Entity.STAGE_STEP in patches.entities else ()),
        *(_jobs(writes, patches) if Entity.JOB in patches.entities else ()),
        *(_documents(writes) if Entity.DOCUMENT in patches.entities else ()),
        *(_texts(writes, patches) if any(write.decision.texts for write in writes) else ()),
        *(
            fill(SQL["insert_usage"], patch.values, id=patch.id, run_id=run.id)
            for patch in patches.inserts[Entity.USAGE]
        ),
        *comment_statements(patches, plan_id=None, run_id=run.id),
        *audit_statements(sealed),
    ]


def add_definition(*, body: Json, **values: Value) -> Statement:
    return SQL["insert_definition"](body=AsJson(body), **values)


def _run(
    before: Run | None, writes: Sequence[RunWrite], patches: Patches, *, is_cached: bool
) -> Iterator[Statement]:
    old_head, (decision, _, write_context, _, new_head) = writes[0].write_context.head, writes[-1]
    run = decision.run
    head: dict[str, Value] = {"audit_seq": new_head.seq, "audit_hash": new_head.hash}
    for patch in patches.inserts[Entity.RUN]:
        yield fill(
            SQL["insert_run"],
            patch.values,
            id=run.id,
            completed_at=run.completed_at,
            awaiting_since=_awaiting_since(run),
            updated_at=write_context.now,
            **head,
        )
        yield SQL["insert_run_words"](id=run.id)
        yield fill(SQL["insert_run_brief"], patch.values, run_id=run.id)
    if before is None:
        return
    head |= {"old_seq": old_head.seq, "old_hash": old_head.hash, "now": write_context.now}
    if is_cached and _RUN_COLUMNS.isdisjoint(patches.entities):
        yield _advance(writes, patches, head)
        return
    changes = patches.updates[Entity.RUN]
    changed = changes[0].values if changes else {}
    values = run._asdict() | {
        **head,
        "awaiting_since": _awaiting_since(run),
        "usage": AsJson(changed.get("usage")),
        "lists": AsJson(changed.get("lists")),
    }
    query = SQL["update_unchanged_run"] if is_cached else SQL["update_run"]
    yield query(**values)


def _advance(writes: Sequence[RunWrite], patches: Patches, head: Mapping[str, Value]) -> Statement:
    """Update the audit number and hash of a cached run and, if only one job changes, this job."""
    run_id, jobs = writes[0].decision.run.id, patches.updates[Entity.JOB]
    if len(jobs) != 1:
        return SQL["advance_unchanged_run"](**head, run_id=run_id)
    (job,) = _job_updates(writes, jobs)
    jobs.clear()
    return SQL["advance_run_with_job"](**head, **job, run_id=run_id)


def _awaiting_since(run: Run) -> datetime | None:
    if run.completed_at is not None or run.canceled_at is not None:
        return None
    is_waiting, since = False, None
    for stage in run.stages.values():
        if stage.completed_at is None:
            return None
        is_waiting = is_waiting or stage.feedback is None
        since = stage.completed_at if since is None else max(since, stage.completed_at)
    return since if is_waiting else None


def _stages(run: Run, patches: Patches) -> Iterator[Statement]:
    for patch in patches.inserts[Entity.STAGE_RUN]:
        yield fill(SQL["insert_stage"], patch.values, run_id=run.id, stage_slug=patch.id)
    for patch in patches.updates[Entity.STAGE_RUN]:
        stage = run.stages[patch.id]
        yield SQL["update_stage"](run_id=run.id, stage_slug=stage.slug, **stage._asdict())


def _steps(run: Run, patches: Patches) -> Iterator[Statement]:
    rows = []
    for patch in patches.inserts[Entity.STAGE_STEP]:
        step = run.steps[patch.id]
        key = {"run_id": run.id, "stage_slug": step.stage, "step_key": step.key}
        rows.append(new_row(TABLES["stage_step"], patch.values, **key))
    for part in _parts(rows):
        yield SQL["insert_steps"](rows=part)
    for patch in patches.updates[Entity.STAGE_STEP]:
        step = run.steps[patch.id]
        key = {"run_id": run.id, "stage_slug": step.stage, "step_key": step.key}
        yield SQL["update_step"](**key, **step._asdict())


def _jobs(writes: Sequence[RunWrite], patches: Patches) -> Iterator[Statement]:
    for update in _job_updates(writes, patches.updates[Entity.JOB]):
        yield SQL["update_job"](**update)
    run_id, new = writes[0].decision.run.id, patches.inserts[Entity.JOB]
    if len(new) == 1:
        yield fill(SQL["insert_job"], new[0].values, run_id=run_id, id=new[0].id)
        return
    for start in range(0, len(new), MAX_ROWS):
        rows = AsJson([{"id": p.id, **p.values} for p in new[start : start + MAX_ROWS]])
        yield SQL["insert_jobs"](run_id=run_id, jobs=rows)


def _job_updates(writes: Sequence[RunWrite], patches: Sequence[Patch]) -> Iterator[dict[str, Any]]:
    loaded, jobs, seen_at = dict[str, Job](), dict[str, Job](), dict[str, datetime]()
    for decision, before, (now, *_), *_ in writes if patches else ():
        loaded = {**before, **loaded}
        jobs |= decision.jobs
        for job_id in decision.touched:
            seen_at[job_id] = now
    for patch in patches:
        job = jobs[patch.id]
        old_attempt = loaded[job.id].attempt
        yield {**job._asdict(), "old_attempt": old_attempt, "seen_at": seen_at.get(job.id)}


def _documents(writes: Sequence[RunWrite]) -> Iterator[Statement]:
    run, made = writes[-1].decision.run, list[tuple[Value, ...]]()
    for write in writes:
        made += [
            new_row(
                TABLES["document"],
                document.as_row(),
                run_id=run.id,
                id=document.id,
                content=document.content,
                created_at=write.write_context.now,
            )
            for document in write.decision.documents
            if document.copied_from is None
        ]
    for part in _parts(made):
        yield SQL["insert_documents"](rows=part)
    for write in writes:
        yield from _copied_documents(write)


def _copied_documents(write: RunWrite) -> Iterator[Statement]:
    run, now = write.decision.run, write.write_context.now
    copied = [d for d in write.decision.documents if d.copied_from is not None]
    for start in range(0, len(copied), MAX_ROWS):
        part = copied[start : start + MAX_ROWS]
        items: list[Json] = [
            {"id": d.id, "job_id": d.job_id, "copied_from": d.copied_from} for d in part
        ]
        yield SQL["copy_documents"](run_id=run.id, items=AsJson(items), now=now)
        yield SQL["check_copies"](ids=Ids(d.id for d in part), count=len(part))


def _texts(writes: Sequence[RunWrite], patches: Patches) -> Iterator[Statement]:
    """Insert rows with long texts, of which the audit has only hashes."""
    run_id = writes[-1].decision.run.id
    texts = {key: text for write in writes for key, text in write.decision.texts.items()}
    for entity, query, key, names in _TEXT_ROWS:
        rows = []
        for patch in patches.inserts[entity]:
            named = dict(zip(names, texts[patch.id], strict=True))
            extra: dict[str, Value] = {"run_id": run_id, key: patch.id, **named}
            rows.append(new_row(TABLES[entity], patch.values, **extra))
        for part in _parts(rows):
            yield query(rows=part)


#: Each kind of row with long texts: its entity, insert query, id column and text columns.
_TEXT_ROWS = (
    (Entity.JOB_PART, SQL["insert_parts"], "job_id", ("content",)),
    (Entity.RENDERED_DOCUMENT, SQL["insert_rendered"], "id", ("markdown", "html")),
    (Entity.LATE_RESULT, SQL["insert_late"], "id", ("content",)),
)


def _parts(rows: list[tuple[Value, ...]]) -> Iterator[Rows]:
    for start in range(0, len(rows), MAX_ROWS):
        yield Rows(rows[start : start + MAX_ROWS])
