"""The structure and progress of a run of another system."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from waybook.dag.progress.report import StageEvidence
from waybook.dag.progress.structure import Structure


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    structure: Structure
    evidence: Mapping[str, StageEvidence]
    warnings: Mapping[str | None, Sequence[str]]
