"""Run one fuzz target under atheris: `fuzz_target.py TARGET FOLDER [options of libFuzzer]`."""

import sys
from pathlib import Path

import atheris

sys.path[:0] = [
    str(Path(__file__).parents[2] / "tests"),
    str(Path(__file__).parents[2] / "tests" / "support"),
]

with atheris.instrument_imports(include=["waybook", "fuzz"]):
    from fuzz.targets import TARGETS


def main() -> None:
    """Fuzz the target in the first argument; the other arguments are options of libFuzzer."""
    target, *rest = sys.argv[1:]
    atheris.Setup([sys.argv[0], *rest], TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
