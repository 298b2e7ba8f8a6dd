"""Statements of migrations, each sent as a message of its own: decision 0093."""

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postgres_servers import ServerDatabase
from waybook.errors import Misconfigured
from waybook.store.maintenance import migration_statements
from waybook.store.maintenance.migration_statements import (
    apply,
    cluster_text,
    mask_quoted,
    split_statements,
)

#: Parts of statements with semicolons and quotes that do not end a statement.
PARTS = st.sampled_from(
    ["a", "'b;'", "'it''s;'", '"c;"', "$$ d; 'e $$", "$f$ $$; $f$", "-- g; 'h\n", "/* i; */", "(j)"]
)
REFUSAL = "do $$ begin raise feature_not_supported using message = 'no such form'; end $$"
STATEMENTS = st.lists(PARTS, max_size=6).map(lambda parts: " ".join(["select", *parts]))


@given(st.lists(STATEMENTS, max_size=5))
def test_joined_migration_statements_split_into_the_same_ones(statements: list[str]) -> None:
    split = split_statements(";\n".join(statements))
    assert split == [statement.strip() for statement in statements]


@given(st.lists(STATEMENTS, max_size=5).map(";".join))
def test_masking_sql_keeps_the_length_of_the_text(text: str) -> None:
    assert len(mask_quoted(text)) == len(text)


def test_splitting_statements_leaves_out_lone_comments() -> None:
    assert split_statements("; -- nothing;\n ; /* ; */") == []


def test_migration_without_a_cluster_version_has_no_cluster_sql() -> None:
    assert cluster_text("0001_plans") is None


def test_refused_statement_on_a_single_server_raises_psycopg_error(
    shared_place: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migration_statements, "is_distributed", lambda _: False)
    with (
        pytest.raises(psycopg.errors.FeatureNotSupported, match="no such form"),
        psycopg.connect(shared_place.owner_dsn) as connection,
    ):
        apply(connection, "9999_planted", REFUSAL)


def test_refused_statement_on_a_cluster_names_the_migration(
    shared_place: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migration_statements, "is_distributed", lambda _: True)
    monkeypatch.setattr(migration_statements, "allow_foreign_keys", lambda _: None)
    with (
        pytest.raises(Misconfigured, match=r"9999_planted cannot .* \(no such form\).* restore"),
        psycopg.connect(shared_place.owner_dsn) as connection,
    ):
        apply(connection, "9999_planted", REFUSAL)
