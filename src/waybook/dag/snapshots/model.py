"""Snapshot: the structure and the progress of a run of another system."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from waybook.dag.progress.report import StageEvidence
from waybook.dag.progress.structure import Structure


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    structure: Structure
    #: Progress evidence of each stage that has started, by stage slug.
    evidence: Mapping[str, StageEvidence]
    #: Warnings by stage slug; the key None contains the warnings that belong to no stage.
    warnings: Mapping[str | None, Sequence[str]]
