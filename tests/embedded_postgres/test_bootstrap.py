"""Roles, database and settings of the embedded server, as the system catalog shows them."""

from collections.abc import Iterator

import psycopg
import pytest

from embedded_postgres.data_directories import make_data_directory
from run_place import run_directory
from waybook.embedded_postgres.supervisor import Attachment, attach


@pytest.fixture(scope="module")
def attachment() -> Iterator[Attachment]:
    with (
        make_data_directory(parent=run_directory()) as place,
        attach(place / "it's a name", grace_seconds=0) as attachment,
    ):
        yield attachment


def ask(dsn: str, question: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(question.encode()).fetchall()


@pytest.mark.parametrize("role", ["waybook_app", "waybook_owner"])
def test_app_and_owner_database_roles_have_no_special_privileges(
    attachment: Attachment, role: str
) -> None:
    rows = ask(
        attachment.admin_dsn,
        "select rolname, rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls,"
        " rolcanlogin from pg_roles",
    )
    assert (role, False, False, False, False, False, True) in rows


def test_app_database_role_owns_no_objects_and_has_no_memberships(attachment: Attachment) -> None:
    rows = ask(
        attachment.admin_dsn,
        "select (select count(*) from pg_shdepend where refobjid = r.oid and deptype = 'o'),"
        " (select count(*) from pg_auth_members where member = r.oid)"
        " from pg_roles r where rolname = 'waybook_app'",
    )
    assert rows == [(0, 0)]


def test_app_database_role_cannot_create_tables(attachment: Attachment) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        ask(attachment.app_dsn, "create table public.mine (word text)")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        ask(attachment.app_dsn, "create temporary table mine (word text)")


def test_owner_role_owns_database_and_can_create_tables(attachment: Attachment) -> None:
    owner = "select pg_get_userbyid(datdba) from pg_database where datname = 'waybook'"
    assert ask(attachment.owner_dsn, owner) == [("waybook_owner",)]
    made = "create table theirs (v text); drop table theirs; select 1"
    with psycopg.connect(attachment.owner_dsn) as connection:
        connection.execute(made.encode())


def test_search_functions_are_marked_leakproof(attachment: Attachment) -> None:
    rows = ask(
        attachment.app_dsn,
        "select proname from pg_proc where proleakproof"
        " and proname in ('ts_match_vq', 'jsonb_contains') order by 1",
    )
    assert rows == [("jsonb_contains",), ("ts_match_vq",)]


@pytest.mark.parametrize("role", ["waybook_admin", "waybook_owner", "waybook_app"])
def test_database_refuses_a_wrong_password_for_every_role(
    attachment: Attachment, role: str
) -> None:
    for password in ("''", "guess"):
        dsn = f"{attachment.app_dsn} user={role} password={password}"
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(dsn)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("listen_addresses", ""),
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("TimeZone", "UTC"),
        ("server_encoding", "UTF8"),
        ("password_encryption", "scram-sha-256"),
    ],
)
def test_database_server_runs_with_the_required_settings(
    attachment: Attachment, setting: str, value: str
) -> None:
    assert ask(attachment.app_dsn, f"show {setting}") == [(value,)]


def test_database_sorts_text_independently_of_the_system_locale(attachment: Attachment) -> None:
    rows = ask(
        attachment.app_dsn,
        "select datlocprovider::text, datlocale, lower('ÄÖÜ') from pg_database"
        " where datname = 'waybook'",
    )
    assert rows == [("b", "C.UTF-8", "äöü")]
