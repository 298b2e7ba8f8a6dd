"""Migrations that Citus refuses, each listed with the rule of `schema-check` that reports it.

`make harness NAME=citus` checks that Citus refuses each of them.
"""

from typing import Final

REFUSED: Final = {
    "alter table run add column importance integer check (importance > 0)": (
        "adds a column with a constraint without a name"
    ),
    "alter table run add column importance integer unique": (
        "adds a column with a constraint without a name"
    ),
    "alter table run add column a integer, add constraint small check (a < 9)": (
        "adds a constraint together with other changes"
    ),
    "alter table run\n  add check (name <> ''),\n  add check (name <> 'x')": (
        "adds a constraint together with other changes"
    ),
    "alter table run_word add column a text, add foreign key (org_id, a) references run": (
        "adds a constraint together with other changes"
    ),
    "alter table run add column number bigserial": "adds a column with a sequence",
    "alter table run add column number bigint generated always as identity": (
        "adds a column with a sequence"
    ),
    "alter table run alter column name set statistics 50": (
        "sets the statistics or the storage of a column"
    ),
    "alter table run alter name set storage external": (
        "sets the statistics or the storage of a column"
    ),
    "alter table run rename constraint run_pkey to run_key": "renames a constraint",
    "alter table run cluster on run_pkey": "sets the index by which a table is clustered",
    "drop index run_awaiting, run_open_activity": "drops several indexes at once",
    "create trigger planted after insert on run execute function tsvector_update_trigger()": (
        "creates a trigger"
    ),
}
