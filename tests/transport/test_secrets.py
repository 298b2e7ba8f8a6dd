"""Secrets: no tool call and no failure reveals them.

The tests start a complete server with debug logging, as an operator would, and send secrets to it
in many ways. No secret may appear in the server's logs, answers or metrics, in PostgreSQL's log, or
in the database.
"""

import os
import signal
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from auth_env import make_token
from database_dump import dump
from embedded_postgres.data_directories import server_home
from fake_endpoint import answer, fake_endpoint
from org_env import make_env
from patience import PATIENCE_SECONDS
from postgres_servers import Server, ServerDatabase, new_database
from preloaded_process import open_preloaded
from run_place import PLACE
from transport.messages import LEGACY, make_request
from waybook.store.driver.queries import new_uuid

STEPS = [{"stepType": "search", "instructions": "Find out."}]


def unguessable() -> str:
    return (new_uuid() + new_uuid()).replace("-", "")[-40:]


@pytest.fixture
def place(eighteen: Server) -> Iterator[ServerDatabase]:
    with new_database(eighteen) as made:
        yield made


class Sender:
    """HTTP client that makes and sends secrets, and remembers all secrets and answers."""

    def __init__(self) -> None:
        self.secrets: dict[str, str] = {}
        self.answers: list[str] = []
        self.client: httpx2.AsyncClient

    def token(self, where: str) -> str:
        return self.remember(f"token: {where}", f"wb_{unguessable()}")

    def jwt(self, where: str) -> str:
        """Return a token in the format of an issuer's tokens, with a secret as its signature."""
        signature = self.remember(f"JWT: {where}", unguessable())
        return f"eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm4ifQ{unguessable()[:8]}.{signature}"

    def remember(self, where: str, secret: str) -> str:
        assert where not in self.secrets
        self.secrets[where] = secret
        return secret

    async def call(self, tool: str, **arguments: object) -> str:
        return await self.call_with({}, tool, arguments)

    async def call_with(self, headers: Mapping[str, str], tool: str, arguments: object) -> str:
        body = make_request("tools/call", name=tool, arguments=arguments)
        return await self.send("POST", "/mcp", headers={**LEGACY, **headers}, content=body)

    async def send(self, method: str, path: str, **more: Any) -> str:  # noqa: ANN401 - passed on
        reply = await self.client.request(method, path, **more)
        text = f"{reply.status_code} {dict(reply.headers)} {reply.text}"
        self.answers.append(text)
        return text

    def leaks_in(self, text: str) -> set[str]:
        return {where for where, secret in self.secrets.items() if secret in text}


def canary_url(sender: Sender, place: ServerDatabase) -> str:
    """Create a database role with a secret password; return a URL to connect with this role."""
    where = conninfo_to_dict(place.app_dsn)
    name = f"canary_{unguessable()[:12]}"
    password = sender.remember("password of the database", f"s3cret/{unguessable()}")
    with psycopg.connect(place.admin_dsn, autocommit=True) as admin:
        quoted = password.replace("'", "")
        admin.execute(f"create role {name} login password '{quoted}' in role waybook_app".encode())
    socket = quote(str(where["host"]), safe="")
    return f"postgresql://{name}:{quote(password, safe='')}@/{place.dbname}?host={socket}"


def settings_for(sender: Sender, place: ServerDatabase, elsewhere: str) -> dict[str, str]:
    """Return settings with a secret in every setting that may contain a secret."""
    random = b64encode(unguessable().encode()).decode()
    signed_with = sender.remember("secret of the webhook", random)
    secret_path = sender.remember("address of the webhook", f"T0/{unguessable()}")
    return {
        "WAYBOOK_DATABASE_URL": canary_url(sender, place),
        "WAYBOOK_OWNER_URL": place.owner_dsn,
        "WAYBOOK_MODEL_URL": elsewhere,
        "WAYBOOK_MODEL": "m",
        "WAYBOOK_MODEL_KEY": sender.remember("key of the model", f"mk-{unguessable()}"),
        "WAYBOOK_EMBEDDINGS_URL": elsewhere,
        "WAYBOOK_EMBEDDINGS_MODEL": "e",
        "WAYBOOK_EMBEDDINGS_KEY": sender.remember("key of the embedder", f"ek-{unguessable()}"),
        "WAYBOOK_WEBHOOK_URL": f"{elsewhere}/services/{secret_path}",
        "WAYBOOK_WEBHOOK_SECRET": f"whsec_{signed_with}",
        "WAYBOOK_STALL_SECONDS": "4",
        "WAYBOOK_LOG_LEVEL": "DEBUG",
    }


@contextmanager
def serving(settings: Mapping[str, str], log: Path) -> Iterator[str]:
    words = ["serve", "--port", "0", "--tools", "all"]
    with open_preloaded(words, {**os.environ, **settings, "NO_COLOR": "1"}, log) as process:
        yield process.stdout.readline().split()[-1]
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_SECONDS)


async def send_with_requests(sender: Sender) -> None:
    """Send tokens in the right header, and in wrong places such as cookies, queries and paths."""
    for scheme in ("Bearer", "bearer", "Basic", "Token"):
        for made in (sender.token, sender.jwt):
            header = {"authorization": f"{scheme} {made(f'header {scheme}')}"}
            await sender.call_with(header, "list_active_plans", {})
            await sender.send("GET", "/api/runs/nowhere/progress", headers=header)
            await sender.send("GET", "/", headers=header)
    for made in (sender.token, sender.jwt):
        await sender.send("GET", "/plans", headers={"cookie": f"wb_session={made('cookie')}"})
        await sender.send("GET", f"/api/runs/x/progress?access_token={made('query of the API')}")
        await sender.send("GET", f"/plans?q=rivers&token={made('query of a page')}")
        await sender.send(
            "POST", f"/mcp?token={made('query of mcp')}", content=b"{", headers=LEGACY
        )
        await sender.send("GET", f"/api/documents/{made('path of the API')}")
        await sender.send("GET", f"/nowhere/{made('path')}")


async def send_with_arguments(sender: Sender) -> None:
    """Send secrets as arguments of tool calls that are invalid for different reasons."""
    for made in (sender.token, sender.jwt):
        await sender.call("get_next_step", planId=made("an id that is none"))
        await sender.call("submit_step_result", stepId=made("a step that is none"))
        await sender.call("get_next_step", **{made("the name of an argument"): 1})
        await sender.call("get_next_step", planId={"a": made("a structure")})
        await sender.call("get_plan_status", planId="nobody", sessionId=made("a session"))
        await sender.call("get_dag_map", dagSlug=made("a slug"))
        await sender.call("start_skill", name=made("a skill"))
        await sender.call(made("the name of a tool"))
        await sender.call("search_sources", query=made("a query"), cursor=made("a cursor"))
        bad = {"afterStepOrder": 1, "conditionExpression": made("a condition")}
        named = {"name": "Tides", "researchQuestion": "Why?", "steps": STEPS}
        conditions = [{**bad, "ifTrueAction": "continue"}]
        await sender.call("create_research_plan", **named, branchingConditions=conditions)
        await sender.send(
            "POST", "/mcp", headers=LEGACY, content=make_request(made("the name of a method"))
        )
        await sender.send(
            "POST",
            "/mcp",
            headers=LEGACY,
            content=make_request("resources/read", uri=f"waybook://plans/{made('a resource')}"),
        )
        await sender.send("POST", "/api/report", json={"dag": made("a snapshot")})


async def ask_elsewhere(sender: Sender) -> None:
    """Make calls for which the server sends keys to a model, an embeddings API and a webhook."""
    extracted = await sender.call("extract_data", text="The Nile.", schema={"type": "object"})
    assert "do_it_yourself" in extracted or "error" in extracted
    await sender.call("store_research", kind="note", title="Nile", content="It is long.")
    await sender.call("search_sources", query="Nile")
    steps = [{**STEPS[0], "instructions": "Ask."}]
    await sender.call("create_research_plan", name="P", researchQuestion="Q?", steps=steps)


async def break_inside(sender: Sender, place: ServerDatabase) -> None:
    """Make tool calls with secrets while a constraint refuses every new plan.

    The error of the database contains the rejected value, which includes a secret.
    """
    with psycopg.connect(place.admin_dsn, autocommit=True) as admin:
        admin.execute("alter table plan add constraint broken check (name::integer > 0) not valid")
    for made in (sender.token, sender.jwt):
        broken = await sender.call(
            "create_research_plan",
            name=f"Use {made('what broke')}",
            researchQuestion="Why?",
            steps=STEPS,
            idempotencyKey=f"k {made('a key of what broke')}",
        )
        assert "internal error; nothing was written" in broken


async def test_secrets_do_not_leak_to_responses_logs_or_database(
    place: ServerDatabase, tmp_path: Path
) -> None:
    sender, log = Sender(), tmp_path / "log"
    error_payload = {"error": {"message": "Incorrect API key provided."}}
    async with fake_endpoint(answer(error_payload, 401)) as elsewhere:
        settings = settings_for(sender, place, elsewhere.url)
        with serving(settings, log) as where:
            sender.client = httpx2.AsyncClient(base_url=where, trust_env=False)
            await send_with_requests(sender)
            await send_with_arguments(sender)
            await ask_elsewhere(sender)
            await break_inside(sender, place)
            await sender.send("GET", "/metrics")
            await sender.send("GET", "/calls?hours=24")
            await sender.send("GET", "/health")
            await sender.client.aclose()
    request_text = "".join(
        f"{request.path} {dict(request.headers)}" for request in elsewhere.requests
    )
    assert "key of the model" in sender.leaks_in(request_text), "the test would see nothing"
    logged, database_dump = log.read_text(), dump(place)
    assert "InvalidTextRepresentation" in logged
    assert "get_plan_status" in database_dump
    assert sender.leaks_in("\n".join(sender.answers)) == set()
    assert sender.leaks_in(logged) == set()
    assert sender.leaks_in(database_dump) == set()
    logged_by_postgresql = {"token: what broke", "JWT: what broke"}
    assert sender.leaks_in(server_log()) <= logged_by_postgresql


async def test_credentials_do_not_leak_if_authentication_is_required(
    place: ServerDatabase, tmp_path: Path
) -> None:
    sender, log = Sender(), tmp_path / "log"
    metrics = sender.remember("token of the metrics", f"figures-{unguessable()}")
    settings = {
        "WAYBOOK_DATABASE_URL": canary_url(sender, place),
        "WAYBOOK_OWNER_URL": place.owner_dsn,
        "WAYBOOK_AUTH": "required",
        "WAYBOOK_METRICS_TOKEN": metrics,
        "WAYBOOK_LOG_LEVEL": "DEBUG",
    }
    async with make_env(place) as world:
        issued = await make_token(world.agent)
        good = sender.remember("a token that is good", issued.secret)
        with serving(settings, log) as where:
            sender.client = httpx2.AsyncClient(base_url=where, trust_env=False)
            await send_with_requests(sender)
            header = {"authorization": f"Bearer {good}"}
            assert "200" in await sender.call_with(header, "list_active_plans", {})
            await sender.call_with(header, "get_next_step", {"planId": good})
            await sender.call_with({}, "get_next_step", {"planId": good})
            await sender.send("GET", f"/api/runs/x/progress?token={good}", headers=header)
            await sender.send("GET", "/metrics", headers={"authorization": f"Bearer {metrics}"})
            await sender.send("GET", "/metrics", headers=header)
            await sender.client.aclose()
    assert any(text.startswith("401") for text in sender.answers)
    database_dump = dump(place)
    assert "a token of ann" in database_dump
    for text in ("\n".join(sender.answers), log.read_text(), database_dump, server_log()):
        assert sender.leaks_in(text) == set()


def server_log() -> str:
    return server_home(Path(os.environ[PLACE]) / "18").log.read_text(errors="replace")
