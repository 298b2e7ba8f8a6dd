"""PostgreSQL servers for tests: the embedded version 18, Debian's 15 if installed, or a cluster.

All processes of a test run share one server of each version. The files of a server are in the
directory of the test run, and the server ends with the main process. PostgreSQL 15 runs only while
the main process holds a pipe open, so that the server ends even if the main process crashes.

`make harness NAME=citus` gives the tests a Citus cluster in place of both servers. There, a test
database consists of one database with the same name on every node. Citus stores in each of them how
the tables are distributed. If all of them are copied, the copies also form a distributed database.
"""

import fcntl
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from embedded_postgres.processes import eventually
from missing_programs import FIFTEEN
from run_place import CITUS, PLACE
from waybook.embedded_postgres.cluster import BOOTSTRAP
from waybook.embedded_postgres.supervisor import Attachment, attach
from waybook.store.driver.queries import new_uuid
from waybook.store.maintenance.citus import let_settings_pass
from waybook.store.maintenance.migrate import APP_ROLE, distribute, migrate

#: Only database user of the PostgreSQL 15 server. This user may create roles and is not a
#: superuser.
BUILDER = "builder"
TEMPLATE = "waybook_template"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """PostgreSQL server, with DSNs for the administrator, the owner and `waybook serve`."""

    name: str
    admin_dsn: str
    owner_dsn: str
    app_dsn: str
    #: Role that every transaction assumes if there is only one database user; otherwise None.
    role: str | None
    #: DSNs of the administrator on the other nodes, if this is a cluster.
    workers: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the DSN of the administrator on every node."""
        return (self.admin_dsn, *self.workers)

    @property
    def owner(self) -> str:
        return BUILDER if self.role else "waybook_owner"

    @property
    def is_embedded(self) -> bool:
        """Return whether this is the embedded server; no other server has the full-text index."""
        return self.role is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerDatabase:
    """Database on a PostgreSQL server, with a DSN for each user of the database."""

    server: Server
    dbname: str
    #: DSN for `waybook serve` that connects through a connection pooler, if there is one.
    through: str | None = None

    @property
    def owner_dsn(self) -> str:
        return make_conninfo(self.server.owner_dsn, dbname=self.dbname)

    @property
    def app_dsn(self) -> str:
        if self.through is not None:
            return self.through
        return make_conninfo(self.server.app_dsn, dbname=self.dbname)

    @property
    def admin_dsn(self) -> str:
        return make_conninfo(self.server.admin_dsn, dbname=self.dbname)


@contextmanager
def eighteen() -> Iterator[Server]:
    """Start the embedded PostgreSQL server with three users, each with a password."""
    with attach(Path(os.environ[PLACE]) / "18", durable=False) as attachment:
        server = Server(
            name="18",
            admin_dsn=attachment.admin_dsn,
            owner_dsn=attachment.owner_dsn,
            app_dsn=attachment.app_dsn,
            role=None,
        )
        with alone("18.lock"):
            ensure_cheap_passwords(server)
            _ensure_template(server)
        yield server


@contextmanager
def fifteen() -> Iterator[Server]:
    """Start Debian's PostgreSQL server with one user, who is not a superuser.

    The time zone of the server is far from UTC, so that code that depends on the time zone fails.
    """
    home = Path(os.environ[PLACE]) / "15"
    with alone("15.lock"):
        if not home.exists():
            _start_fifteen(home)
        admin = f"host={home} user=postgres dbname=postgres"
        url = f"host={home} user={BUILDER} dbname=postgres"
        server = Server(name="15", admin_dsn=admin, owner_dsn=url, app_dsn=url, role=APP_ROLE)
        _ensure_builder(server)
        _ensure_template(server)
    yield server


@contextmanager
def citus() -> Iterator[Server]:
    """Use the Citus cluster that `WAYBOOK_TEST_CITUS` names, with one user as in `fifteen`."""
    admin = os.environ[CITUS]
    workers = [make_conninfo(admin, host=host, port=port) for host, port in _worker_nodes(admin)]
    url = make_conninfo(admin, user=BUILDER)
    server = Server(
        name="citus",
        admin_dsn=admin,
        owner_dsn=url,
        app_dsn=url,
        role=APP_ROLE,
        workers=tuple(workers),
    )
    with alone("citus.lock"):
        _ensure_builder(server)
        _ensure_distributed_template(server)
    yield server


def _worker_nodes(admin_dsn: str) -> list[tuple[str, int]]:
    query = "select nodename, nodeport from pg_dist_node where groupid <> 0 order by nodeid"
    with psycopg.connect(admin_dsn) as admin:
        return admin.execute(query).fetchall()


def _start_fifteen(home: Path) -> None:
    home.mkdir(mode=0o755)
    user = None
    if os.getuid() == 0:
        user = "postgres" if _has_user("postgres") else "nobody"
        shutil.chown(home, user)
    cluster = home / "cluster"
    made = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
    initdb: list[str | Path] = [FIFTEEN / "initdb", "-D", cluster, *made]
    subprocess.run(initdb, check=True, user=user, stdout=subprocess.DEVNULL, cwd="/")
    settings = {
        "listen_addresses": "''",
        "unix_socket_directories": f"'{home}'",
        "fsync": "off",
        "synchronous_commit": "off",
        "full_page_writes": "off",
        "max_connections": "100",
        "timezone": "'Asia/Kolkata'",
    }
    with (cluster / "postgresql.conf").open("a") as file:
        file.writelines(f"{name} = {value}\n" for name, value in settings.items())
    alive, log = home.parent / "alive", home / "log"
    serve = f"'{FIFTEEN}/postgres' -D '{cluster}' & read _ <'{alive}'; kill -QUIT $!; wait"
    command = ["/bin/sh", "-c", f"({serve}) </dev/null >'{log}' 2>&1 &"]
    subprocess.run(command, check=True, user=user, start_new_session=True, cwd="/")
    dsn = f"host={home} user=postgres dbname=postgres"
    eventually(lambda: _answers(dsn), "PostgreSQL 15 answers")


def _has_user(name: str) -> bool:
    return any(entry.pw_name == name for entry in pwd.getpwall())


def _answers(dsn: str) -> bool:
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return False
    return True


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Hold a file lock, so that only one test process at a time executes the block."""
    descriptor = os.open(Path(os.environ[PLACE]) / name, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _ensure_builder(server: Server) -> None:
    with psycopg.connect(server.admin_dsn, autocommit=True) as admin:
        if not admin.execute("select 1 from pg_roles where rolname = %s", (BUILDER,)).fetchone():
            admin.execute(f"create role {BUILDER} login createrole nosuperuser")


def ensure_cheap_passwords(server: Server | Attachment) -> None:
    """Store passwords with one hash iteration, because the default slows down each connection."""
    hashed_once = "select 1 from pg_authid where rolpassword like 'SCRAM-SHA-256$1:%'"
    with psycopg.connect(server.admin_dsn, autocommit=True) as admin:
        if admin.execute(hashed_once).fetchone() is None:
            admin.execute("set scram_iterations = 1")
            for dsn in (server.admin_dsn, server.owner_dsn, server.app_dsn):
                login = conninfo_to_dict(dsn)
                admin.execute(f"alter role {login['user']} password '{login['password']}'".encode())


def _ensure_template(server: Server) -> None:
    with psycopg.connect(server.admin_dsn, autocommit=True) as admin:
        row = admin.execute("select 1 from pg_database where datname = %s", (TEMPLATE,)).fetchone()
        if not row:
            admin.execute(f"create database {TEMPLATE} owner {server.owner}")
            _ensure_bootstrapped(server)
            migrate(ServerDatabase(server=server, dbname=TEMPLATE).owner_dsn)


def _ensure_distributed_template(server: Server) -> None:
    """Create the template on every node of the cluster, migrated and distributed."""
    with psycopg.connect(server.admin_dsn, autocommit=True) as admin:
        if admin.execute("select 1 from pg_database where datname = %s", (TEMPLATE,)).fetchone():
            return
    place = create_cluster_database(server, TEMPLATE)
    migrate(place.owner_dsn)
    distribute(place.owner_dsn)
    for node in server.nodes:
        # A database cannot be copied while the daemon of Citus is connected to it.
        _execute(node, f"alter database {TEMPLATE} allow_connections false")
        with psycopg.connect(node) as admin:
            admin.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s",
                (TEMPLATE,),
            )


def create_cluster_database(server: Server, dbname: str) -> ServerDatabase:
    """Create an empty database on every node, and register the nodes with the coordinator."""
    place = ServerDatabase(server=server, dbname=dbname)
    functions = ["citus_set_coordinator_host", *["citus_add_node"] * len(server.workers)]
    for function, dsn in zip(functions, server.nodes, strict=True):
        _execute(dsn, f"create database {dbname} owner {server.owner}")
        _execute(make_conninfo(dsn, dbname=dbname), "create extension citus")
        node = conninfo_to_dict(dsn)
        _execute(place.admin_dsn, f"select {function}('{node['host']}', {node['port']})")
    return place


def _execute(dsn: str, text: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(text.encode())


def _ensure_bootstrapped(server: Server) -> None:
    """Run the bootstrap SQL in the template database, if the server is embedded."""
    if server.is_embedded:
        with psycopg.connect(ServerDatabase(server=server, dbname=TEMPLATE).admin_dsn) as admin:
            admin.execute(BOOTSTRAP.encode())


@contextmanager
def new_database(server: Server, template: str = TEMPLATE) -> Iterator[ServerDatabase]:
    """Yield a new database, by default a copy of the migrated template."""
    dbname = f"test_{new_uuid().replace('-', '')}"
    for node in server.nodes:
        # The strategy `file_copy` takes half as long as the default, which logs every page.
        copied = f"create database {dbname} template {template} strategy file_copy"
        _execute(node, f"{copied} owner {server.owner}")
    place = ServerDatabase(server=server, dbname=dbname)
    if server.workers:
        # A copied database lacks the settings of the original.
        with psycopg.connect(place.owner_dsn) as owner:
            let_settings_pass(owner)
    try:
        yield place
    finally:
        drop_database(server, dbname)


def drop_database(server: Server, dbname: str) -> None:
    """Drop a database on every node that has it."""
    for node in server.nodes:
        if server.workers:
            # Daemons of Citus may connect to the database again. If it cannot be dropped for this
            # reason, it is removed with the cluster.
            with suppress(AssertionError):
                eventually(partial(_is_dropped, node, dbname), f"{dbname} is dropped")
        else:
            _drop(node, dbname)


def _drop(node: str, dbname: str) -> None:
    _execute(node, f"drop database if exists {dbname} with (force)")


def _is_dropped(node: str, dbname: str) -> bool:
    try:
        _drop(node, dbname)
    except psycopg.errors.ObjectInUse:
        return False
    return True
