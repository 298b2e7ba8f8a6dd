"""Diagnostic checks: the database, the machine, webhooks, sign-in, and self-tests."""

import asyncio
import shutil
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from platform import python_version
from urllib.parse import urlsplit

from waybook.app.operations.checks import CheckResult, CheckState
from waybook.app.operations.settings_display import display_setting
from waybook.app.request.request_context import RequestContext
from waybook.app.request.search_backend import rank_records, search_backend
from waybook.app.request.services import MAX_FAILURES_IN_A_ROW, LoopHealth
from waybook.app.skills.loader import find_skills
from waybook.dag.templates.rendering import render
from waybook.errors import Misconfigured, Unavailable, WaybookError
from waybook.integrations.config import IssuerCheck, issuer_from_settings, webhook_from_settings
from waybook.json_values import Json
from waybook.notifications.message import load_templates
from waybook.research.embedding import Backend
from waybook.research.query import parse_query
from waybook.settings import Settings
from waybook.store.driver.database import Transaction
from waybook.store.driver.queries import Row, first_column, new_uuid
from waybook.store.maintenance import migrate
from waybook.store.maintenance.migrate import attempt
from waybook.store.research import artifacts, embeddings, search
from waybook.store.research.artifacts import PassageDraft
from waybook.store.research.search import QueryVector, Scope, SearchCapabilities, filters
from waybook.store.runs import jobs

_MEGABYTE = 1_000_000
LOW_DISK_BYTES = 1_000 * _MEGABYTE
CRITICAL_DISK_BYTES = 100 * _MEGABYTE
_MAX_SKEW_SECONDS = 2.0
_OK, _WARN, _FAIL = CheckState.OK, CheckState.WARN, CheckState.FAIL


async def check_server(ctx: RequestContext, *, with_size: bool = True) -> list[CheckResult]:
    """Check the PostgreSQL version, the clock, and the privileges of the server's database role."""
    server: Row
    ((server,), *lists) = await ctx.read(
        migrate.SQL["server"](),
        migrate.SQL["tables_without_rls"](),
        migrate.SQL["owned"](),
        migrate.SQL["audit_rights"](),
    )
    used = f", {_megabytes(server.size)} used" if with_size else ""
    skew = abs((datetime.fromtimestamp(time.time(), UTC) - server.now).total_seconds())
    clock = CheckResult("clock", _OK, "in sync with the database")
    if skew > _MAX_SKEW_SECONDS:
        message = f"the database's clock and this machine's are {skew:.0f} s apart"
        todo = "only the database clock is used; sync both with NTP"
        clock = CheckResult("clock", _WARN, message, todo)
    return [
        CheckResult("server", _OK, f"PostgreSQL {server.version}{used}"),
        CheckResult("migrations", _OK, "up to date"),
        *_privileges(server, *map(first_column, lists)),
        clock,
    ]


def about_loops(loops: LoopHealth) -> Iterator[CheckResult]:
    """Yield one result for each failing background loop, or one result if none fails."""
    for loop, failures in sorted(loops.failures.items()):
        state = _FAIL if failures >= MAX_FAILURES_IN_A_ROW else _WARN
        message = f"{loop} failed {failures} times in a row, last with {loops.errors[loop]}"
        yield CheckResult(
            "background", state, message, "read the server's log; the loop goes on trying"
        )
    if not loops.failures:
        yield CheckResult("background", _OK, "all loops work")


def check_machine(settings: Settings) -> Iterator[CheckResult]:
    yield CheckResult("python", _OK, f"{python_version()} on {sys.platform}")
    if not settings.database_url:
        yield _disk(Path(settings.data_dir).absolute())
    skills, errors = find_skills(settings.skills_dirs)
    names = ", ".join(skill.name for skill in skills)
    yield CheckResult("skills", _OK, f"{len(skills)}: {names}")
    for path, error in errors:
        message = f"{path} is ignored: {error}"
        yield CheckResult("skills", _WARN, message, "see docs/how-to/write-a-skill.md")
    model = "not configured (agents use their own model)"
    if settings.model_url is not None:
        model = f"{settings.model} at {urlsplit(settings.model_url).hostname} (not called now)"
    yield CheckResult("model", _OK, model)


def _privileges(
    server: Row, without_rls: list[str], owned: list[str], audit_rights: list[str]
) -> Iterator[CheckResult]:
    serving = f"serving as {server.role}, which row-level security"
    if server.superuser or server.bypasses_rls or owned:
        todo = "serve as a role that owns no table and is not a superuser (waybook_app)"
        yield CheckResult("roles", _FAIL, f"{serving} does not restrict", todo)
    else:
        yield CheckResult("roles", _OK, f"{serving} restricts")
    if without_rls:
        message = f"not forced on {', '.join(without_rls)}"
        yield CheckResult("row-level security", _FAIL, message, "waybook migrate, as the owner")
    else:
        yield CheckResult("row-level security", _OK, "forced on every table")
    if audit_rights:
        rights = ", ".join(audit_rights).lower()
        todo = f"revoke {rights} on audit_entry from {server.role}"
        yield CheckResult("audit", _FAIL, f"{server.role} may {rights} entries", todo)
    else:
        yield CheckResult("audit", _OK, "append-only for the serving role")


def _disk(place: Path) -> CheckResult:
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    message = f"{_megabytes(free)} free at {place}"
    if free >= LOW_DISK_BYTES:
        return CheckResult("disk", _OK, message)
    state = _FAIL if free < CRITICAL_DISK_BYTES else _WARN
    return CheckResult("disk", state, message, "free disk space or choose another --data-dir")


def _megabytes(size: int) -> str:
    if size > 1000 * _MEGABYTE:
        return f"{size / _MEGABYTE / 1000:,.1f} GB"
    return f"{size / _MEGABYTE:,.0f} MB"


def check_webhooks(settings: Settings) -> CheckResult:
    try:
        webhook = webhook_from_settings(settings)
        if webhook is not None:
            load_templates(webhook.custom_templates())
    except Misconfigured as error:
        todo = "see docs/how-to/be-told-when-you-are-needed.md"
        return CheckResult("webhooks", _FAIL, error.message, todo)
    if webhook is None:
        return CheckResult("webhooks", _OK, "off")
    place = display_setting("webhook_url", webhook.url)
    message = f"{len(webhook.events)} events to {place}, as {webhook.format}"
    if webhook.is_unencrypted:
        return CheckResult("webhooks", _WARN, f"{message}, not encrypted", "use https://")
    return CheckResult("webhooks", _OK, message)


def check_notifications(deliveries: Row, *, configured: bool) -> Iterator[CheckResult]:
    oldest = deliveries.oldest_waiting_at
    waiting = f"{deliveries.waiting} waiting{f', since {oldest:%Y-%m-%d %H:%M}' if oldest else ''}"
    message = f"{waiting}, {deliveries.given_up} given up in the last 30 days"
    if deliveries.overdue and configured:
        todo = "check that a server with webhook_url runs, and read its log"
        message = f"{message}; {deliveries.overdue} overdue"
        yield CheckResult("notices", _WARN, message, todo)
    elif deliveries.given_up:
        todo = "waybook webhooks, then: waybook webhooks retry ID"
        yield CheckResult("notices", _WARN, message, todo)
    elif deliveries.waiting and not configured:
        message = f"{message}; no webhook_url configured"
        yield CheckResult("notices", _WARN, message, "set webhook_url")
    elif configured or deliveries.last_delivered_at:
        yield CheckResult("notices", _OK, message)


_DOCS_HINT = "see docs/how-to/sign-in-with-your-identity-provider.md"


async def check_issuer_settings(settings: Settings) -> list[CheckResult]:
    try:
        configured = issuer_from_settings(settings)
    except Misconfigured as error:
        return [CheckResult("sign-in", _FAIL, error.message, _DOCS_HINT)]
    if configured is None:
        message = "API tokens only" if settings.requires_auth else "disabled (local mode)"
        return [CheckResult("sign-in", _OK, message)]
    if not settings.requires_auth:
        message = "oidc_issuer is set, but authentication is disabled"
        todo = "set auth to required or remove oidc_issuer"
        return [CheckResult("sign-in", _WARN, message, todo)]
    # Import the module only here, because its libraries for keys and tokens take long to import.
    issuers = import_module("waybook.integrations.oidc_issuer")
    seen: IssuerCheck = await issuers.check_issuer(configured.issuer)
    if seen.error is not None:
        todo = "people cannot sign in there now; check the network, and the spelling of oidc_issuer"
        return [CheckResult("issuer", _FAIL, f"{configured.issuer}: {seen.error}", todo)]
    message = f"{configured.issuer} answers, and confirms this URL as its name"
    pages = CheckResult("issuer pages", _OK, "browser sign-in enabled")
    if configured.client_id is None:
        needed = "agents only; browser sign-in needs oidc_client_id"
        pages = CheckResult("issuer pages", _OK, needed)
    elif not seen.has_pages:
        missing = "it does not say where people sign in, or not over https"
        pages = CheckResult("issuer pages", _FAIL, missing, _DOCS_HINT)
    return [CheckResult("issuer", _OK, message), _issuer_keys(seen), pages]


def _issuer_keys(seen: IssuerCheck) -> CheckResult:
    if seen.keys_fault is not None:
        todo = "tokens of this issuer are rejected until keys can be fetched"
        return CheckResult("issuer keys", _FAIL, seen.keys_fault, todo)
    message = f"{seen.usable} of {seen.published} can be used"
    if not seen.usable:
        todo = "have it sign with RS256, PS256, ES256, ES384 or EdDSA; RSA keys need 2,048 bits"
        return CheckResult("issuer keys", _FAIL, message, todo)
    return CheckResult("issuer keys", _OK, f"{message}: {', '.join(seen.algorithms)}")


#: Only this self-test stores artifacts of this kind, so the test finds only its own artifact.
_KIND = "waybook doctor"
_TITLE = "Trial of the search"
_TEXT = "A river carries sand from the mountains to the sea."
_RANKED_BY = {
    Backend.PORTABLE: "ranked in this process",
    Backend.PGVECTOR: "ranked by pgvector",
}


async def try_everything(ctx: RequestContext) -> list[CheckResult]:
    results = []
    for name, trial, todo in (
        ("write", _write, "see the message, and PostgreSQL's log"),
        ("search", _search, "see PostgreSQL's log; search_vectors = portable"),
        ("render", _render, "see the message, and PostgreSQL's log"),
    ):
        try:
            # This transaction is never committed, so the test leaves no data.
            async with ctx.services.database.org_transaction(ctx.caller.org_id) as tx:
                results.append(CheckResult(name, _OK, await trial(ctx, tx)))
        except WaybookError as error:
            results.append(CheckResult(name, _FAIL, f"does not work: {error.message}", todo))
    return results


async def about_quarantine(ctx: RequestContext, *, everywhere: bool) -> CheckResult:
    """Check whether passages were left out of the index for semantic search."""
    database, left_out = ctx.services.database, 0
    orgs = await database.list_org_ids() if everywhere else [ctx.caller.org_id]
    for org_id in orgs:
        ((row,),) = await database.read_org(org_id, embeddings.SQL["quarantined_passages"]())
        left_out += row.passages
    if not left_out:
        return CheckResult("indexing", _OK, "no passage is left out")
    message = (
        f"{left_out} passages are left out for a day: storing their vectors broke the connection"
    )
    todo = "see PostgreSQL's log; if pgvector does not run there: search_vectors = portable"
    return CheckResult("indexing", _WARN, message, todo)


async def _write(ctx: RequestContext, tx: Transaction) -> str:
    await attempt(tx, *artifacts.index_statements(_pieces(), None, ctx.caller.org_id))
    return "a passage was stored, and rolled back"


async def _search(ctx: RequestContext, tx: Transaction) -> str:
    library, org_id = search_backend(ctx.services), ctx.caller.org_id
    able = await library.capabilities(ctx.services.database, org_id)
    pieces = _pieces()
    meanings = await library.embed_passages(pieces, able)
    await attempt(tx, *artifacts.index_statements(pieces, meanings, org_id))
    wanted = pieces[0].subject.id
    if meanings is None:
        await _find(tx, None, SearchCapabilities(backend=None, indexed=able.indexed), wanted)
        return "full text alone (the embeddings endpoint does not answer)"
    query_vector = QueryVector(vector=meanings.vectors[0], model=meanings.model, org_id=org_id)
    await _find(tx, query_vector, able, wanted)
    return f"{able.describe}, {_RANKED_BY[meanings.backend]}"


async def _find(
    tx: Transaction, query_vector: QueryVector | None, able: SearchCapabilities, wanted: str
) -> None:
    """Raise `Unavailable` unless every search method finds the test passage."""
    scope = Scope(kinds=(_KIND,))
    question = await asyncio.to_thread(parse_query, _TEXT)
    statements = search.search_statements(question, query_vector, scope, able)
    ranked = search.read_ranked(await attempt(tx, *statements))
    if query_vector is not None and able.backend is Backend.PORTABLE:
        few = embeddings.few_fitting_statement(query_vector.model, **filters(scope))
        (rows,) = await attempt(tx, few)
        blob = embeddings.read_few_fitting(rows) or b""
        ranked["meaning"] = await asyncio.to_thread(
            rank_records, blob, query_vector.vector, search.MAX_RANKED
        )
    for by, passages in ranked.items():
        if wanted not in {passage.subject_id for passage in passages}:
            raise Unavailable(f"the search by {by} did not find a stored test passage")


async def _render(_: RequestContext, tx: Transaction) -> str:
    await attempt(tx, jobs.SQL["runs_to_render"](most=1))
    place: dict[str, Json] = {"document": {"title": _TITLE}, "content": _TEXT, "text": _TEXT}
    rendered = await asyncio.to_thread(render, None, place)
    if _TEXT not in rendered.html:
        raise Unavailable("the text is missing from a rendered test document")
    return "a document was rendered"


def _pieces() -> list[PassageDraft]:
    subject = artifacts.index_artifact(
        artifact_id=new_uuid(),
        plan_id=None,
        kind=_KIND,
        title=_TITLE,
        tags=(),
        text=_TEXT,
        created_at=datetime.fromtimestamp(0, UTC),
    )
    return artifacts.split_subjects([subject])
