"""Regression tests with the inputs that the fuzzer found."""

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
