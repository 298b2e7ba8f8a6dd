"""Distribution of the tables over the nodes of a Citus cluster (decision 0087)."""

import psycopg
import pytest

from postgres_servers import ServerDatabase
from waybook.errors import Misconfigured
from waybook.store.maintenance.backup import org_tables
from waybook.store.maintenance.citus import DIRECTORY, SQL
from waybook.store.maintenance.migrate import distribute


def test_distributing_a_database_without_the_citus_extension_is_refused(
    shared_place: ServerDatabase,
) -> None:
    with pytest.raises(Misconfigured, match="no extension citus"):
        distribute(shared_place.owner_dsn)


def test_distribution_includes_every_table_with_rows_of_orgs(shared_place: ServerDatabase) -> None:
    with psycopg.connect(shared_place.owner_dsn) as connection:
        rows = connection.execute(SQL["tables_to_distribute"].text.encode()).fetchall()
        expected = {table.name for table in org_tables(connection)}
    assert rows[0] == (DIRECTORY,)
    assert {name for (name,) in rows} == expected
