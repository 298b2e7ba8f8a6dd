"""Build of the PostgreSQL extension Citus, from its source into a copy of PostgreSQL.

PostgreSQL looks for extensions in folders relative to its own program. With a copy of PostgreSQL,
the build needs no write access to the original.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from faults.cluster import DEBIAN_BINARIES, ROOT
from fleet.run import say

#: Folder of the build, which is kept because a build takes minutes.
BUILD: Final = ROOT / "build" / "citus"
PG_CONFIG: Final = os.environ.get("PG_CONFIG", str(DEBIAN_BINARIES / "pg_config"))
#: Options that leave out parts of Citus which a cluster does not need, and which need more
#: libraries.
CONFIGURE: Final = ("--without-libcurl", "--without-lz4", "--without-zstd")
#: Settings of make: build no bitcode, and do not stop at compiler warnings.
MAKE: Final = ("with_llvm=no", "COPT=-O1 -g0 -Wno-error")
#: Function in the headers of Citus 13.2 that has to be removed, because PostgreSQL 15.20 also
#: defines it.
_DUPLICATE: Final = re.compile(
    r"static inline bool\nhave_createdb_privilege\(void\)\n\{.*?\n\}\n", re.DOTALL
)


def build(source: Path) -> Path:
    """Build PostgreSQL with Citus, unless it was built before; return its program folder.

    Raises:
        SystemExit: `source` is not the source of Citus, or a program or library is missing.
    """
    if not (source / "src" / "backend" / "distributed").is_dir():
        raise SystemExit(f"{source} has no source of Citus; set CITUS_SOURCE to its folder")
    if not Path(PG_CONFIG).exists():
        raise SystemExit(f"{PG_CONFIG} is missing: install postgresql-server-dev, or set PG_CONFIG")
    root, bindir = BUILD / "root", Path(_configured("--bindir"))
    programs = root / bindir.relative_to("/")
    if not (BUILD / "done").exists():
        shutil.rmtree(BUILD, ignore_errors=True)
        shutil.copytree(source, BUILD / "source", ignore=shutil.ignore_patterns(".git"))
        _without_duplicate(BUILD / "source")
        _compile(BUILD / "source", root)
        for option in ("--bindir", "--pkglibdir", "--sharedir"):
            folder = Path(_configured(option))
            shutil.copytree(folder, root / folder.relative_to("/"), dirs_exist_ok=True)
        (BUILD / "done").touch()
    return programs


def _configured(option: str) -> str:
    """Return a folder of the installed PostgreSQL, as pg_config prints it."""
    return subprocess.run(
        [PG_CONFIG, option], check=True, capture_output=True, text=True
    ).stdout.strip()


def _without_duplicate(source: Path) -> None:
    """Remove the function of Citus that newer versions of PostgreSQL 15 define too."""
    header = source / "src" / "include" / "pg_version_compat.h"
    header.write_text(_DUPLICATE.sub("", header.read_text("utf-8")), "utf-8")


def _compile(source: Path, root: Path) -> None:
    say(f"building Citus in {source}; this takes minutes, see {BUILD / 'build.log'}")
    make = ("make", "-j", str(os.cpu_count() or 1), *MAKE)
    with (BUILD / "build.log").open("w") as log:
        for command in (
            ("./configure", f"PG_CONFIG={PG_CONFIG}", *CONFIGURE),
            (*make, "extension"),
            # Not in parallel: the makefile installs some libraries before they are linked.
            ("make", *MAKE, "install-extension", f"DESTDIR={root}"),
        ):
            done = subprocess.run(
                ["nice", *command], cwd=source, stdout=log, stderr=log, check=False
            )
            if done.returncode:
                raise SystemExit(f"{' '.join(command)} failed; see {BUILD / 'build.log'}")
