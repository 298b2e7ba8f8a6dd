"""Check that a cluster can distribute tables and queries: `make harness NAME=schema-check`."""

import sys

import psycopg

from tools.schema_check.check import check
from waybook.cli.demo.environment import temporary_database
from waybook.embedded_postgres.supervisor import attach
from waybook.store.maintenance.migrate import migrate


def main() -> int:
    """Print all tables and queries that cannot be distributed by org; return 1 if there are any."""
    with temporary_database() as data_dir, attach(data_dir) as server:
        migrate(server.owner_dsn)
        with psycopg.connect(server.owner_dsn, autocommit=True) as connection:
            violations = check(connection)
    sys.stdout.writelines(f"{violation}\n" for violation in violations)
    sys.stdout.write(f"{len(violations)} violations\n")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
