"""Text dump of a whole database, as an attacker with a copy would read it."""

import json
import subprocess
from uuid import UUID

import psycopg

from postgres_servers import ServerDatabase
from waybook.embedded_postgres import cluster
from waybook.store.packed_answers import unpack


def dump(place: ServerDatabase) -> str:
    """Return every row of every table as `pg_dump` does, and the text of compressed answers."""
    program = cluster._carried() / "bin" / "pg_dump"
    command = [str(program), "--data-only", "--dbname", place.admin_dsn]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return "\n".join([done.stdout, *unpacked_answers(place)])


def unpacked_answers(place: ServerDatabase, org_id: UUID | None = None) -> list[str]:
    """Return the texts of the compressed answers, of one org or of all."""
    query = """select packed from idempotency_answer
                where packed is not null and org_id = coalesce(%s, org_id)"""
    with psycopg.connect(place.admin_dsn) as admin:
        rows = admin.execute(query, (org_id,)).fetchall()
    return sorted(json.dumps(unpack(packed), ensure_ascii=False) for (packed,) in rows)
