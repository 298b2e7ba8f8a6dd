"""`waybook org erase` and `waybook user erase`: their confirmation, report and verification."""

from uuid import UUID

import psycopg
import pytest

from cli.terminal import Terminal
from waybook.embedded_postgres.supervisor import Attachment
from waybook.store.accounts.accounts import add_org
from waybook.store.driver.queries import new_uuid
from waybook.store.maintenance.migrate import migrate


@pytest.fixture
def acme(attachment: Attachment) -> str:
    slug = f"acme-{new_id()}"
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


def test_org_erase_with_yes_needs_no_confirmation_and_prints_json(
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
    plan_id = terminal.plan("Of somebody")
    with psycopg.connect(attachment.admin_dsn) as admin:
        ((name,),) = admin.execute(
            "select created_by from plan_brief where plan_id = %s", (plan_id,)
        ).fetchall()
    failed = terminal.run("user", "erase", "local", name, typed="nobody\n")
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
