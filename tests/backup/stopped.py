"""Script that stops in the middle of a backup or restore, until a test kills it.

Run as `python stopped.py backup|restore DSN FILE`.
"""

import sys
from pathlib import Path

from waybook.app.operations.private_file import private_file
from waybook.store.maintenance import backup, restore
from waybook.store.maintenance.archive import open_archive

STOP_AFTER_ROWS = 20


def stop(rows: int, *_: int) -> None:
    if rows >= STOP_AFTER_ROWS:
        sys.stdout.write("stopped\n")
        sys.stdout.flush()
        sys.stdin.read()


def main(what: str, dsn: str, path: Path) -> None:
    if what == "backup":
        with private_file(path, force=False) as file:
            backup.back_up(dsn, file, stop)
    else:
        with open_archive(path) as archive:
            restore.restore(dsn, archive, stop)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
