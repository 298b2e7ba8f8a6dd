"""Reads, replaces and backs up the configuration files of clients."""

import contextlib
import os
import shutil
from pathlib import Path
from tempfile import mkstemp
from typing import Final


class ConfigError(ValueError):
    """Error about a configuration file. If the line is known, the message begins with it."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.line = line


def line_of(text: str, position: int) -> int:
    r"""Return the number of the line that contains this position.

    >>> line_of("a\nb", 2)
    2
    """
    return text.count("\n", 0, position) + 1


#: The limit is high, because Claude Code also keeps its history in its configuration file.
_MAX_CONFIG_BYTES: Final = 64 * 1024 * 1024
_BACKUP_SUFFIX: Final = ".waybook-backup"


def backup_of(path: Path) -> Path:
    return path.with_name(path.name + _BACKUP_SUFFIX)


def read_config(path: Path) -> str | None:
    """Return the text of a file with its line breaks unchanged, or None if there is no file.

    Raises:
        ConfigError: the file cannot be read, is too large, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_CONFIG_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"the file cannot be read: {error.strerror}") from None
    if len(content) > _MAX_CONFIG_BYTES:
        raise ConfigError(f"the file is longer than {_MAX_CONFIG_BYTES:,} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError("this is not UTF-8", line) from None


def write_config(path: Path, text: str) -> None:
    """Replace a file atomically and keep its permissions. A new file is private to its owner.

    Raises:
        ConfigError: the file cannot be written; the old file is unchanged.
    """
    target = path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = mkstemp(".part", f".{target.name}.", target.parent)
        draft = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                shutil.copymode(target, draft)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"the file cannot be written: {error.strerror}") from None
    except UnicodeEncodeError:
        raise ConfigError("the path of the program cannot be written as UTF-8") from None


def back_up(path: Path) -> Path:
    copy = backup_of(path)
    try:
        shutil.copy2(path, copy)
    except OSError as error:
        raise ConfigError(f"the backup {copy} cannot be written: {error.strerror}") from None
    return copy


def delete_config(path: Path, folders_before: set[Path]) -> None:
    """Delete a file. Also delete its folder if the folder is empty and not in `folders_before`.

    Raises:
        ConfigError: the file cannot be deleted.
    """
    try:
        path.unlink()
    except OSError as error:
        raise ConfigError(f"the file cannot be deleted: {error.strerror}") from None
    if path.parent not in folders_before:
        with contextlib.suppress(OSError):
            path.parent.rmdir()
