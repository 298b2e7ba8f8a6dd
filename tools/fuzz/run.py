"""What `make fuzz` does: each target for a while, then what is worth keeping is kept.

`run.py [SECONDS]`: so many for each target, otherwise sixty. A find ends it, with the bytes.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))

from fuzz.keeping import LONGEST, MOST_KEPT, keep, kept  # noqa: E402 - the tests are found just above
from fuzz.targets import TARGETS  # noqa: E402


def fuzz(target: str, seconds: int) -> bool:
    """Look for bytes that break a target; say whether there were none."""
    with tempfile.TemporaryDirectory() as place:
        seeds, finds = (Path(place) / name for name in ("seeds", "finds"))
        seeds.mkdir()
        finds.mkdir()
        for number, data in enumerate(kept(target)):
            (seeds / str(number)).write_bytes(data)
        limits = [f"-max_total_time={seconds}", f"-max_len={LONGEST}", "-rss_limit_mb=1024"]
        told = [f"-artifact_prefix={finds}/", "-timeout=20", "-print_final_stats=1"]
        done = _one(target, seeds, *limits, *told)
        for find in finds.iterdir():
            _say(f"{target}: {find.name}: {find.read_bytes()!r}")
        if done:
            keep(target, [*(find.read_bytes() for find in finds.iterdir()), *kept(target)])
            return False
        keep(target, [*kept(target), *_spread([file.read_bytes() for file in seeds.iterdir()])])
        _say(f"{target}: nothing was found in {seconds} s; {len(kept(target))} inputs are kept")
        return True


def _spread(found: list[bytes]) -> list[bytes]:
    """Short and long ones, some of each."""
    ordered = sorted(found, key=lambda one: (len(one), one))
    return ordered[:: max(1, len(ordered) // MOST_KEPT)]


def _one(target: str, *words: object) -> int:
    command = [sys.executable, str(HERE / "one.py"), target, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        _say(done.stderr[-4_000:])
    return done.returncode


def _say(said: str) -> None:
    sys.stdout.write(f"{said}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    length = int(sys.argv[1]) if sys.argv[1:] else 60
    results = [fuzz(target, length) for target in TARGETS]
    sys.exit(0 if all(results) else 1)
