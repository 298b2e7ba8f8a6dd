"""Files that are written atomically and that only their owner can read."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkstemp
from typing import IO

from waybook.errors import InvalidInput


@contextmanager
def private_file(path: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """Yield a temporary file next to `path`, and rename it to `path` after the block.

    Raises:
        InvalidInput: the file exists and `force` is not set, the path is a directory, device or
            pipe, or the directory is not writable.
    """
    _check_absent(path, force=force)
    try:
        descriptor, name = mkstemp(".part", f".{path.name}.", path.parent)
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}; name another file") from error
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _check_absent(path, force=force)
        draft.replace(path)
        # Write the directory to disk too, because otherwise a crash could undo the renaming.
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def _check_absent(path: Path, *, force: bool) -> None:
    if path.exists() and not path.is_file():
        kind = "directory" if path.is_dir() else "device or pipe"
        raise InvalidInput(f"{path} is a {kind}; name a file")
    if path.exists() and not force:
        raise InvalidInput(f"the file {path} already exists; choose another one, or add --force")
