"""Regression test of the kept fuzzer inputs."""

import pytest

from fuzz.keeping import CORPUS, LONGEST, MOST_BYTES, MOST_KEPT, kept
from fuzz.targets import TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_fuzz_corpus_input_raises_no_unexpected_error(target: str) -> None:
    for data in kept(target):
        TARGETS[target](data)


def test_corpus_every_target_has_bounded_inputs() -> None:
    assert {file.stem for file in CORPUS.iterdir()} == {*TARGETS}
    for target in TARGETS:
        assert 10 <= len(kept(target)) <= MOST_KEPT
        assert all(len(data) <= LONGEST for data in kept(target))
    assert sum(file.stat().st_size for file in CORPUS.iterdir()) < MOST_BYTES


@pytest.mark.parametrize("target", TARGETS)
def test_fuzz_target_unexpected_exception_propagates(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unnamed exception inside the target propagates, so that a fuzzer sees it."""

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
