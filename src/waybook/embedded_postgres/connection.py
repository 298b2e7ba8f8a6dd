"""Connection data of the embedded PostgreSQL: passwords and socket, in one private file."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

DATABASE = "waybook"
ADMIN = "waybook_admin"
OWNER = "waybook_owner"
APP = "waybook_app"


@dataclass(frozen=True, slots=True, kw_only=True)
class Passwords:
    admin: str
    owner: str
    app: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionInfo:
    socket_dir: str
    server_home: str
    version: str
    durable: bool
    passwords: Passwords

    def dsn(self, role: str, password: str) -> str:
        host = self.socket_dir.replace("\\", "\\\\").replace("'", "\\'")
        return f"host='{host}' dbname={DATABASE} user={role} password={password}"


def new_passwords() -> Passwords:
    return Passwords(admin=_random(), owner=_random(), app=_random())


def _random() -> str:
    return os.urandom(24).hex()


def read_connection_info(path: Path) -> ConnectionInfo | None:
    try:
        record = json.loads(path.read_bytes())
        return ConnectionInfo(**{**record, "passwords": Passwords(**record["passwords"])})
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def write_connection_info(path: Path, connection: ConnectionInfo) -> None:
    write_private(path, json.dumps(asdict(connection), indent=1).encode())


def write_private(path: Path, content: bytes) -> None:
    """Replace a file with one that only its owner can read. Readers never see a partial file."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(draft, flags, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
