"""Fuzz every target for a limited time, and save a sample of the inputs: `make harness NAME=fuzz`.

`run.py [SECONDS]` sets the time per target (default: 60). If an input makes a target fail, the
input is printed and saved, and the exit code is 1.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1] / "tests"), str(HERE.parents[1] / "tests" / "support")]

from fuzz.corpus_files import MAX_INPUT_LENGTH, MAX_INPUTS, read_corpus, write_corpus  # noqa: E402 - the path is set above
from fuzz.targets import TARGETS  # noqa: E402


def fuzz(target: str, seconds: int) -> bool:
    """Fuzz a target and keep some inputs; return False if an input made the target fail."""
    with tempfile.TemporaryDirectory() as folder:
        seeds, crashes = (Path(folder) / name for name in ("seeds", "crashes"))
        seeds.mkdir()
        crashes.mkdir()
        for number, data in enumerate(read_corpus(target)):
            (seeds / str(number)).write_bytes(data)
        limits = [
            f"-max_total_time={seconds}",
            f"-max_len={MAX_INPUT_LENGTH}",
            "-rss_limit_mb=1024",
        ]
        options = [f"-artifact_prefix={crashes}/", "-timeout=20", "-print_final_stats=1"]
        exit_code = _run_target(target, seeds, *limits, *options)
        for crash in crashes.iterdir():
            _print(f"{target}: {crash.name}: {crash.read_bytes()!r}")
        if exit_code:
            write_corpus(
                target, [*(crash.read_bytes() for crash in crashes.iterdir()), *read_corpus(target)]
            )
            return False
        write_corpus(
            target,
            [*read_corpus(target), *_sample([file.read_bytes() for file in seeds.iterdir()])],
        )
        _print(
            f"{target}: no crash in {seconds} s; {len(read_corpus(target))} inputs in the corpus"
        )
        return True


def _sample(inputs: list[bytes]) -> list[bytes]:
    """Return a limited number of inputs of all lengths."""
    ordered = sorted(inputs, key=lambda data: (len(data), data))
    return ordered[:: max(1, len(ordered) // MAX_INPUTS)]


def _run_target(target: str, *arguments: object) -> int:
    command = [sys.executable, str(HERE / "fuzz_target.py"), target, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        _print(done.stderr[-4_000:])
    return done.returncode


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    length = int(sys.argv[1]) if sys.argv[1:] else 60
    results = [fuzz(target, length) for target in TARGETS]
    sys.exit(0 if all(results) else 1)
