"""Inputs that the fuzzer found: a JSON file per target, with bytes as Latin-1 characters."""

import json
from collections.abc import Iterable
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
#: Limits for the inputs of each fuzz target, and for the total size of all corpus files.
MAX_INPUTS = 40
MAX_INPUT_LENGTH = 1_000
MAX_TOTAL_BYTES = 200_000


def read_corpus(target: str) -> list[bytes]:
    return [text.encode("latin-1") for text in json.loads(_file(target).read_text("utf-8"))]


def write_corpus(target: str, inputs: Iterable[bytes]) -> None:
    """Save the first of these inputs, within the limits and without duplicates."""
    chosen = dict.fromkeys(data for data in inputs if len(data) <= MAX_INPUT_LENGTH)
    texts = [data.decode("latin-1") for data in [*chosen][:MAX_INPUTS]]
    _file(target).write_text(json.dumps(texts, indent=0) + "\n", "utf-8")


def _file(target: str) -> Path:
    return CORPUS / f"{target}.json"
