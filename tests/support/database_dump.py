"""Dump of a whole database as text, as an attacker with a copy of the database could read it."""

import subprocess

from postgres_servers import ServerDatabase
from waybook.embedded_postgres import cluster


def dump(place: ServerDatabase) -> str:
    program = cluster._carried() / "bin" / "pg_dump"
    command = [str(program), "--data-only", "--dbname", place.admin_dsn]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout
