"""Structure and progress of a run of another system."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from waybook.dag.progress.report import StageEvidence
from waybook.dag.progress.structure import Structure


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    structure: Structure
    #: Progress data of each started stage.
    evidence: Mapping[str, StageEvidence]
    #: Warnings by stage; those that concern no stage are under None.
    warnings: Mapping[str | None, Sequence[str]]
