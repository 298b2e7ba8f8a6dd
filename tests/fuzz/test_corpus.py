"""Regression tests that run the saved fuzzer inputs."""

import pytest

from fuzz.corpus_files import CORPUS, MAX_INPUT_LENGTH, MAX_INPUTS, MAX_TOTAL_BYTES, read_corpus
from fuzz.targets import TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_inputs_of_the_fuzz_corpus_raise_no_unexpected_error(target: str) -> None:
    for data in read_corpus(target):
        TARGETS[target](data)


def test_every_fuzz_target_has_corpus_inputs_within_limits() -> None:
    assert {file.stem for file in CORPUS.iterdir()} == {*TARGETS}
    for target in TARGETS:
        assert 10 <= len(read_corpus(target)) <= MAX_INPUTS
        assert all(len(data) <= MAX_INPUT_LENGTH for data in read_corpus(target))
    assert sum(file.stat().st_size for file in CORPUS.iterdir()) < MAX_TOTAL_BYTES


@pytest.mark.parametrize("target", TARGETS)
def test_unexpected_exception_in_a_fuzz_target_reaches_the_fuzzer(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected exception inside a fuzzing target propagates, so that the fuzzer detects it."""

    def broken(*_: object, **__: object) -> object:
        raise KeyError(target)

    inner = {
        "condition": "compile_condition",
        "definition": "parse_definition",
        "message": "read_message",
        "snapshot": "report_from_snapshot",
        "text": "escape_hidden",
    }
    monkeypatch.setattr(f"fuzz.targets.{inner[target]}", broken)
    with pytest.raises(KeyError):
        TARGETS[target](b"{}")
