"""Writes and reads backup archives: zip files with a manifest and the rows of all orgs."""

import json
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple

from waybook.errors import InvalidInput
from waybook.store.maintenance.anchors import AnchorFile, AnchorTotals

_FORMAT = "waybook-backup"
_VERSION = 1
_MANIFEST = "manifest.json"
ANCHORS = "audit-anchor.jsonl"

_BLOCK_BYTES = 256 * 1024
_COMPRESSION_LEVEL = 3
#: Accepted compression methods. Other methods are refused, because damaged data could make them
#: raise exceptions that are not in `_DAMAGED`.
_COMPRESSIONS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, RuntimeError)
_DAMAGED_MANIFEST = (*_DAMAGED, ValueError, TypeError, AttributeError)

Progress = Callable[[int, int, int], None]


class Member(NamedTuple):
    """A file in the archive, with the rows of one org in one table."""

    org_id: str
    table: str
    rows: int
    bytes: int
    sha256: str

    @property
    def name(self) -> str:
        return f"orgs/{self.org_id}/{self.table}.copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    at: str
    database: str
    server_version: int
    #: Number, name and digest of each applied migration.
    migrations: tuple[tuple[int, str, str], ...]
    tables: dict[str, list[str]]
    left_out: dict[str, str]
    members: tuple[Member, ...]
    anchor: AnchorTotals

    @property
    def rows(self) -> int:
        return sum(member.rows for member in self.members)

    @property
    def bytes(self) -> int:
        return sum(member.bytes for member in self.members)

    @property
    def orgs(self) -> int:
        return len({member.org_id for member in self.members})

    def as_json(self) -> dict[str, object]:
        return {"format": _FORMAT, "version": _VERSION, **asdict(self)}


class ArchiveWriter:
    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(
            file, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION_LEVEL
        )

    def add(self, org_id: str, table: str, blocks: Iterator[bytes]) -> Member | None:
        """Write the rows of one org in one table to a file. Return None if there are no rows."""
        first = next(blocks, None)
        if first is None:
            return None
        empty = Member(org_id, table, 0, 0, "")
        digest, rows, size = sha256(), 0, 0
        with self.open(empty.name) as target:
            for block in chain((first,), blocks):
                target.write(block)
                digest.update(block)
                rows += count_rows(block)
                size += len(block)
        return Member(org_id, table, rows, size, digest.hexdigest())

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        info = zipfile.ZipInfo(name)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = 0o600 << 16
        with self._zip.open(info, "w", force_zip64=True) as target:
            yield target

    def finish(self, manifest: Manifest) -> None:
        with self.open(_MANIFEST) as target:
            target.write(json.dumps(manifest.as_json(), separators=(",", ":")).encode())
        self._zip.close()

    def close(self) -> None:
        with suppress(OSError, ValueError):
            self._zip.close()


def count_rows(block: bytes) -> int:
    return block.count(b"\n")


class Archive:
    def __init__(self, opened: zipfile.ZipFile) -> None:
        self._zip = opened
        for member in opened.infolist():
            if member.compress_type not in _COMPRESSIONS:
                raise damaged(f"{member.filename} cannot be read")
        try:
            data = json.loads(opened.read(_MANIFEST))
            if data["format"] != _FORMAT:
                raise InvalidInput("this file is not a backup of Waybook")
            if data["version"] != _VERSION:
                raise InvalidInput(
                    f"this backup has format version {data['version']}; this program reads version "
                    f"{_VERSION}: restore it with the program that wrote it, or a newer one"
                )
            self.manifest = Manifest(
                at=data["at"],
                database=data["database"],
                server_version=data["server_version"],
                migrations=tuple((number, name, sha) for number, name, sha in data["migrations"]),
                tables=data["tables"],
                left_out=data["left_out"],
                members=tuple(Member(*fields) for fields in data["members"]),
                anchor=AnchorTotals(*data["anchor"]),
            )
        except _DAMAGED_MANIFEST as error:
            raise damaged("its manifest cannot be read") from error

    def blocks(self, member: Member) -> Iterator[bytes]:
        """Yield the data of a file in the archive, then compare its hash with the manifest."""
        digest, rows, size = sha256(), 0, 0
        try:
            with self._zip.open(member.name) as source:
                while size <= member.bytes and (block := source.read(_BLOCK_BYTES)):
                    digest.update(block)
                    rows += count_rows(block)
                    size += len(block)
                    yield block
        except _DAMAGED as error:
            raise damaged(f"{member.name} cannot be read") from error
        if (rows, size, digest.hexdigest()) != (member.rows, member.bytes, member.sha256):
            raise damaged(f"{member.name} does not match the manifest")

    @contextmanager
    def anchors(self) -> Iterator[AnchorFile]:
        try:
            with self._zip.open(ANCHORS) as source:
                yield AnchorFile(source)
        except _DAMAGED as error:
            raise damaged(f"{ANCHORS} cannot be read") from error

    def verify(self, progress: Progress) -> None:
        """Read and check the whole backup archive, without a database."""
        rows = size = 0
        for member in self.manifest.members:
            for block in self.blocks(member):
                rows, size = rows + count_rows(block), size + len(block)
                progress(rows, self.manifest.rows, size)
        with self.anchors() as anchors:
            chains = sum(1 for _ in anchors)
        if chains != self.manifest.anchor.chains:
            raise damaged(f"{ANCHORS} does not match the manifest")


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    try:
        opened = zipfile.ZipFile(path)
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path}") from None
    except _DAMAGED as error:
        raise damaged(f"{path} is not a complete zip file") from error
    with opened:
        yield Archive(opened)


def is_archive(path: Path) -> bool:
    return zipfile.is_zipfile(path)


def damaged(why: str) -> InvalidInput:
    return InvalidInput(f"this backup is damaged: {why}; use another one")


def blocks_of(rows: Iterable[bytes | bytearray | memoryview]) -> Iterator[bytes]:
    """Join rows to blocks that are large enough to hash and compress efficiently."""
    pending: list[bytes | bytearray | memoryview] = []
    size = 0
    for row in rows:
        pending.append(row)
        size += len(row)
        if size >= _BLOCK_BYTES:
            yield b"".join(pending)
            pending, size = [], 0
    if pending:
        yield b"".join(pending)
