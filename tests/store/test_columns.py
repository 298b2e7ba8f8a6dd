"""Column lists in the code match the tables and the order of the fields of the row classes."""

import psycopg
import pytest

from postgres_servers import ServerDatabase
from waybook.plan.model import Step
from waybook.store.columns import TABLES, Table

#: Columns that `TABLES` omits, apart from `org_id`: a few statements read and write them by name.
OTHERS = {"plan": {"stall_check_at"}, "run": {"awaiting_since"}, "job": {"seen_at"}}
CATALOG = """
select a.attname::text, a.atttypid::regtype::text
  from pg_attribute a
 where a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
"""


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_column_lists_equal_the_columns_of_the_tables(
    shared_place: ServerDatabase, table: Table
) -> None:
    with psycopg.connect(shared_place.owner_dsn) as connection:
        stored: dict[str, str] = dict(connection.execute(CATALOG, (table.name,)).fetchall())
        listed = {
            column.name: connection.execute("select %s::regtype::text", (column.type,)).fetchone()
            for column in table.columns
        }
    assert stored.keys() - listed.keys() == {"org_id", *OTHERS.get(table.name, ())}
    assert {name: kind and kind[0] for name, kind in listed.items()}.items() <= stored.items()


def test_row_reader_refuses_columns_in_the_wrong_order() -> None:
    columns = ",".join(" ".join(filter(None, c)) for c in TABLES["plan_step"].columns)
    assert Table("plan_step", "s", columns).reader(Step, {})([]) == []
    swapped = columns.replace("held_by text,held_session text", "held_session text,held_by text")
    assert swapped != columns
    with pytest.raises(TypeError, match="columns differ from the fields of Step"):
        Table("plan_step", "s", swapped).reader(Step, {})
