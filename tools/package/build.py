"""Build the wheel and the sdist twice, and check that both builds are byte-identical.

    python tools/package/build.py

All timestamps in the archives are the time of the last commit, so that equal sources give equal
files. The sdist is built from the working tree, and the wheel is built from the sdist.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
#: Number of files to list, largest first.
LISTED = 5


def commit_time() -> str:
    """Return the time of the last commit, in seconds since the epoch."""
    command = ["git", "log", "-1", "--format=%ct"]
    return subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def build(target: Path, epoch: str) -> list[Path]:
    """Build the sdist, and the wheel from the sdist; return both files."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    hatchling = [sys.executable, "-m", "hatchling", "build", "-d", str(target)]
    subprocess.run([*hatchling, "-t", "sdist"], cwd=ROOT, check=True, env=environment, stdout=2)
    (sdist,) = target.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tar", "--extract", "--file", sdist, "--directory", folder], check=True)
        (sources,) = Path(folder).iterdir()
        subprocess.run(
            [*hatchling, "-t", "wheel"], cwd=sources, check=True, env=environment, stdout=2
        )
    return [sdist, *target.glob("*.whl")]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    epoch = commit_time()
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        built, again = (build(Path(folder), epoch) for folder in (first, second))
        for one, other in zip(built, again, strict=True):
            if digest(one) != digest(other):
                raise SystemExit(f"{one.name} differs between two builds of the same sources")
        DIST.mkdir(exist_ok=True)
        for file in built:
            shutil.copy(file, DIST / file.name)
            sys.stdout.write(f"{digest(file)}  {file.stat().st_size:>11,} bytes  {file.name}\n")
        (wheel,) = (file for file in built if file.suffix == ".whl")
        with ZipFile(wheel) as archive:
            members = sorted(archive.infolist(), key=lambda member: -member.compress_size)
        for member in members[:LISTED]:
            sys.stdout.write(f"{member.compress_size:>11,} bytes  {member.filename}\n")


if __name__ == "__main__":
    main()
