"""Commands for orgs, users and tokens: permissions, secrets and erasure."""

import asyncio
import json
import re
import shlex
import sys
from html import unescape
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx2
import psycopg
import pytest
from mcp import Client, StdioServerParameters
from starlette.applications import Starlette
from starlette.requests import Request

from cli.terminal import Terminal
from tools.package.start_test import commands
from waybook.app.accounts.authentication import authenticate_token
from waybook.app.request.caller import Caller
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.cli.runtime import AppSession
from waybook.core.decision_context import Channel
from waybook.embedded_postgres.supervisor import Attachment
from waybook.store.accounts.accounts import add_org
from waybook.store.driver.queries import new_uuid
from waybook.store.maintenance.migrate import migrate
from waybook.transport.http.dashboard.routes import dashboard_routes


@pytest.fixture
def org(terminal: Terminal) -> str:
    slug = f"acme-{uuid4().hex[:8]}"
    made = terminal.json_output("org", "add", slug, "--name", "Acme")
    assert (made["slug"], made["name"], made["reviewPolicy"]) == (slug, "Acme", "relayed")
    return slug


def make_token(terminal: Terminal, org: str, user: str = "ann", *more: str) -> Any:  # noqa: ANN401 - JSON
    """Add a user with all scopes to the org; return a token of this user."""
    terminal.say("user", "add", user, "--org", org, "--scope", "admin")
    return terminal.json_output("token", "add", user, "--label", "laptop", "--org", org, *more)


def test_org_set_changes_settings_shown_by_org_show(terminal: Terminal, org: str) -> None:
    assert org in [row["slug"] for row in terminal.json_output("org", "list")]
    assert org in terminal.say("org", "list", columns=160)
    terminal.say("org", "set", org, "--review-policy", "human", "--name", "Acme & Co")
    shown = terminal.json_output("org", "show", org)
    assert (shown["name"], shown["reviewPolicy"], shown["users"]) == ("Acme & Co", "human", 0)
    assert "human" in terminal.say("org", "show", org)
    assert terminal.run("org", "set", org).exit_code == 2


@pytest.mark.parametrize("slug", ["", "Acme", "a b", "-a", "a-", "é", 64 * "a", "a;drop"])
def test_org_add_refuses_invalid_slug(terminal: Terminal, slug: str) -> None:
    failed = terminal.run("org", "add", "--", slug)
    assert failed.exit_code == 1
    assert "a slug must have" in failed.stderr


def test_user_list_shows_user_after_add_disable_and_enable(terminal: Terminal, org: str) -> None:
    assert "No users yet" in terminal.say("user", "list", "--org", org)
    output = terminal.say("user", "add", "ann", "--org", org, "--email", "ann@example.org")
    assert f"waybook token add ann --label laptop --org {org}" in output
    [ann] = terminal.json_output("user", "list", "--org", org)
    assert ann["scopes"] == ["plan:write", "run:write", "review"]
    terminal.say("user", "disable", "ann", "--org", org)
    assert "disabled" in terminal.say("user", "list", "--org", org, columns=160)
    assert terminal.run("user", "disable", "ann", "--org", org).exit_code == 1
    assert terminal.json_output("user", "enable", "ann", "--org", org)["disabledAt"] is None
    assert terminal.run("user", "enable", "bob", "--org", org).exit_code == 1
    issuer = "https://id.example.org"
    bob = terminal.json_output("user", "add", "bob", "--org", org, "--sign-in", issuer, "bob-2")
    assert (bob["issuer"], bob["subject"]) == (issuer, "bob-2")


def test_user_scopes_command_changes_permissions_and_is_audited(
    terminal: Terminal, org: str
) -> None:
    token = make_token(terminal, org, "ann", "--scope", "plan:write")
    step = '{"stepType": "search", "instructions": "Look."}'
    plan = f'{{"name": "x", "researchQuestion": "Which?", "steps": [{step}]}}'
    acting = ("--token", token["token"])
    output = terminal.say("user", "scopes", "ann", "review", "plan:read", "--org", org)
    assert "ann now has the scopes: plan:read review" in output
    refused = terminal.run("call", "create_research_plan", plan, *acting)
    assert (refused.exit_code, "plan:write" in refused.stderr + refused.stdout) == (1, True)
    reply = terminal.json_output("user", "scopes", "ann", "admin", "--org", org)
    assert reply["scopes"] == ["admin"]
    assert terminal.json_output("call", "create_research_plan", plan, *acting)["planId"]
    for wrong in ((), ("everything",)):
        assert terminal.run("user", "scopes", "ann", *wrong, "--org", org).exit_code == 2
    assert terminal.run("user", "scopes", "bob", "review", "--org", org).exit_code == 1
    looking = terminal.json_output(
        "token", "add", "ann", "--label", "x", "--org", org, "--scope", "admin"
    )
    listed = terminal.say("audit", "list", "--token", looking["token"], columns=200)
    assert "changed user permissions" in listed
    assert terminal.run("audit", "verify", "--token", looking["token"]).exit_code == 0


def test_token_add_prints_secret_that_token_list_never_shows(terminal: Terminal, org: str) -> None:
    terminal.say("user", "add", "ann", "--org", org)
    output = terminal.say("token", "add", "ann", "--label", "laptop", "--org", org, columns=200)
    secret = next(word for word in output.split() if word.startswith("wb_"))
    assert f'--header "Authorization: Bearer {secret}"' in output
    assert "claude mcp add --transport http waybook http://127.0.0.1:8750/mcp" in output
    [listed] = terminal.json_output("token", "list", "--org", org)
    assert (listed["label"], listed["scopes"]) == ("laptop", ["plan:write", "run:write"])
    shown = terminal.say("token", "list", "--org", org, columns=200)
    assert "laptop" in shown
    assert secret not in shown + json.dumps(listed)


def test_token_add_with_more_scopes_than_user_fails(terminal: Terminal, org: str) -> None:
    make_token(terminal, org)
    usual, never = (
        terminal.json_output("token", "add", "ann", "--label", "x", "--org", org, *more)
        for more in ((), ("--never",))
    )
    assert (usual["expiresAt"] is None, never["expiresAt"]) == (False, None)
    terminal.say("user", "add", "bob", "--org", org, "--scope", "plan:read")
    failed = terminal.run("token", "add", "bob", "--label", "x", "--org", org)
    assert (failed.exit_code, "plan:write" in failed.stderr) == (1, True)


def test_token_list_shows_revoked_token_only_with_all_option(terminal: Terminal, org: str) -> None:
    token = make_token(terminal, org)
    assert "revoked" in terminal.say("token", "revoke", token["tokenId"], "--org", org)
    assert terminal.json_output("token", "list", "--org", org) == []
    assert "revoked" in terminal.say("token", "list", "--all", "--org", org, columns=200)
    assert terminal.run("token", "revoke", token["tokenId"], "--org", org).exit_code == 1
    assert terminal.run("token", "revoke", token["tokenId"]).exit_code == 1


def test_command_with_token_acts_with_org_and_scopes_of_token(terminal: Terminal, org: str) -> None:
    token = make_token(terminal, org, "ann", "--scope", "plan:write")
    plan = {
        "name": f"of {org}",
        "researchQuestion": "Which?",
        "steps": [{"stepType": "search", "instructions": "Look."}],
    }
    acting = ("--token", token["token"])
    made = terminal.json_output("call", "create_research_plan", json.dumps(plan), *acting)
    assert [row["planId"] for row in terminal.json_output("plans", *acting)] == [made["planId"]]
    assert made["planId"] not in terminal.say("plans", "--json")
    assert terminal.run("status", made["planId"]).exit_code == 1
    refused = terminal.run("user", "list", *acting)
    assert (refused.exit_code, "admin" in refused.stderr) == (1, True)
    assert terminal.run("org", "add", f"{org}-2", *acting).exit_code == 1


def test_admin_token_is_limited_to_own_org(terminal: Terminal, org: str) -> None:
    token = make_token(terminal, org, "ann", "--scope", "admin")
    acting = ("--token", token["token"])
    assert [row["slug"] for row in terminal.json_output("org", "list", *acting)] == [org]
    assert [row["name"] for row in terminal.json_output("user", "list", *acting)] == ["ann"]
    assert terminal.run("user", "list", "--org", "local", *acting).exit_code == 1
    assert terminal.run("org", "add", f"{org}-2", *acting).exit_code == 1


@pytest.mark.parametrize("token", ["wb_" + 40 * "x", "nonsense", "wb_"])
def test_command_with_invalid_token_exits_1_without_printing_token(
    terminal: Terminal, token: str
) -> None:
    failed = terminal.run("plans", "--token", token)
    assert failed.exit_code == 1
    assert "A valid credential is required" in failed.stderr
    assert token not in failed.stderr


def test_mcp_over_stdio_refuses_revoked_token(terminal: Terminal, org: str) -> None:
    token = make_token(terminal, org)
    asyncio.run(_over_stdio(terminal, org, token))


async def _over_stdio(terminal: Terminal, org: str, token: Any) -> None:  # noqa: ANN401 - JSON
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "waybook", "mcp"],
        env={"WAYBOOK_DATA_DIR": str(terminal.data_dir), "WAYBOOK_TOKEN": token["token"]},
    )
    async with Client(command) as client:
        listed = await client.call_tool("list_active_plans", {})
        assert not listed.is_error, listed
        await asyncio.to_thread(terminal.say, "token", "revoke", token["tokenId"], "--org", org)
        refused = await client.call_tool("list_active_plans", {})
    assert refused.is_error
    assert "FORBIDDEN" in str(refused.content[0])


def test_only_admin_token_of_the_team_guide_opens_tokens_page(terminal: Terminal) -> None:
    """The test runs the guide's commands, and opens pages with the tokens that they print."""
    guide = Path("docs/how-to/serve-a-team.md").read_text("utf-8")
    wanted = ("waybook org add", "waybook user add", "waybook token add")
    lines = [shown.text for shown in commands(guide) if shown.text.startswith(wanted)]
    output = "".join(terminal.say(*shlex.split(line)[1:], columns=200) for line in lines)
    secrets = list(dict.fromkeys(re.findall(r"wb_[A-Za-z0-9]{40}", output)))
    assert len(secrets) == 3

    async def open_pages(here: AppSession) -> list[tuple[int, str]]:
        answers = []
        for secret in secrets:
            services = here.app.services
            caller = await authenticate_token(services, secret, Channel.DASHBOARD)

            async def person(_: Request, caller: Caller = caller) -> Caller:
                return caller

            app = Starlette(
                routes=dashboard_routes(ServerDispatcher(services, here.app.calls), person)
            )
            transport = httpx2.ASGITransport(app)
            async with httpx2.AsyncClient(transport=transport, base_url="http://local") as client:
                page = await client.get("/")
                answers.append(((await client.get("/tokens")).status_code, page.text))
        return answers

    answers = terminal.inside(open_pages)
    assert [status for status, _ in answers] == [403, 403, 200]
    for _, page in answers:
        assert '--header "Authorization: Bearer wb_…"' in unescape(page)
        assert 'href="/tokens#create"' in page


# Tests of erasure.


@pytest.fixture
def acme(attachment: Attachment) -> str:
    slug = f"acme-{new_uuid()}"
    migrate(attachment.owner_dsn)
    add_org(attachment.owner_dsn, UUID(new_uuid()), slug)
    return slug


def slugs(attachment: Attachment) -> set[str]:
    with psycopg.connect(attachment.admin_dsn) as admin:
        return {str(row[0]) for row in admin.execute("select slug from org").fetchall()}


def test_org_erase_command_requires_slug_as_confirmation(
    terminal: Terminal, attachment: Attachment, acme: str
) -> None:
    refused = terminal.run("org", "erase", acme, typed="something else\n")
    assert refused.exit_code == 1
    assert acme in slugs(attachment)
    output = terminal.say("org", "erase", acme, typed=f"{acme}\n")
    assert "This cannot be undone." in output
    assert "org    1" in output
    assert f"✓ the org {acme} is erased" in output
    assert acme not in slugs(attachment)


def test_org_erase_with_yes_option_needs_no_confirmation(
    terminal: Terminal, attachment: Attachment, acme: str
) -> None:
    reply = terminal.json_output("org", "erase", acme, "--yes")
    assert reply["rows"] == {"org": 1}
    assert acme not in slugs(attachment)
    verified = terminal.json_output("audit", "verify")
    (record,) = [chain for chain in verified["chains"] if chain["orgId"] == reply["orgId"]]
    assert verified["ok"]
    assert record["note"].startswith("the org was erased at ")
    assert "the org was erased at" in terminal.say("audit", "verify", columns=200)


def test_user_erase_requires_confirmation_and_leaves_audit_valid(
    terminal: Terminal, attachment: Attachment
) -> None:
    plan_id = terminal.plan("Plan of the user")
    with psycopg.connect(attachment.admin_dsn) as admin:
        ((name,),) = admin.execute(
            "select created_by from plan_brief where plan_id = %s", (plan_id,)
        ).fetchall()
    failed = terminal.run("user", "erase", "local", name, typed="another\n")
    assert failed.exit_code == 1
    reply = terminal.json_output("user", "erase", "local", name, "--yes")
    assert reply["pseudonym"].startswith("erased-")
    assert reply["rows"]["plan_brief"] >= 1
    entries = terminal.json_output("audit", "list", plan_id)
    assert {entry["actor"] for entry in entries} == {reply["pseudonym"]}
    assert terminal.json_output("audit", "verify")["ok"]


def test_retain_command_deletes_expired_rows(terminal: Terminal, attachment: Attachment) -> None:
    terminal.call("list_skills", sessionId="long ago")
    with psycopg.connect(attachment.admin_dsn) as admin:
        admin.execute("update mcp_tool_call_log set at = at - interval '90 days'")
    output = terminal.say("retain")
    assert "mcp_tool_call_log" in output
    assert "✓ nothing to delete: no data is past its retention period" in output
    assert terminal.json_output("retain") == {"gone": {}}
