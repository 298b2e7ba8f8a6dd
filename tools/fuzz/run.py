"""What `make fuzz` does: each target for a while, then what is worth keeping is kept.

`run.py [SECONDS]`: so many for each target, otherwise sixty. A find ends it, with the bytes.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1] / "tests"), str(HERE.parents[1] / "tests" / "support")]

from fuzz.corpus_files import MAX_INPUT_LENGTH, MAX_INPUTS, read_corpus, write_corpus  # noqa: E402 - the tests are found just above
from fuzz.targets import TARGETS  # noqa: E402


def fuzz(target: str, seconds: int) -> bool:
    """Look for bytes that break a target; say whether there were none."""
    with tempfile.TemporaryDirectory() as place:
        seeds, finds = (Path(place) / name for name in ("seeds", "finds"))
        seeds.mkdir()
        finds.mkdir()
        for number, data in enumerate(read_corpus(target)):
            (seeds / str(number)).write_bytes(data)
        limits = [
            f"-max_total_time={seconds}",
            f"-max_len={MAX_INPUT_LENGTH}",
            "-rss_limit_mb=1024",
        ]
        told = [f"-artifact_prefix={finds}/", "-timeout=20", "-print_final_stats=1"]
        done = _one(target, seeds, *limits, *told)
        for find in finds.iterdir():
            _say(f"{target}: {find.name}: {find.read_bytes()!r}")
        if done:
            write_corpus(
                target, [*(find.read_bytes() for find in finds.iterdir()), *read_corpus(target)]
            )
            return False
        write_corpus(
            target,
            [*read_corpus(target), *_spread([file.read_bytes() for file in seeds.iterdir()])],
        )
        _say(f"{target}: nothing was found in {seconds} s; {len(read_corpus(target))} inputs kept")
        return True


def _spread(found: list[bytes]) -> list[bytes]:
    """Short and long ones, some of each."""
    ordered = sorted(found, key=lambda one: (len(one), one))
    return ordered[:: max(1, len(ordered) // MAX_INPUTS)]


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
