"""The inputs of a job, and a context with all of them."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import orjson

from waybook.dag.expansion.inputs import Document
from waybook.json_values import Body, Json, format_time, non_empty

#: Minimum number of bytes for the inputs of a job, even if the prompt is long.
MIN_INPUT_BYTES = 9_000


class JobInput(NamedTuple):
    """One input of a job: a document of the run, or a text from outside the run."""

    document_key: str
    stage: str | None
    length: int
    document: Document | None = None
    text: str = ""
    by: str | None = None
    at: datetime | None = None
    #: Place of an item in its list, and the length of the list.
    item: int | None = None
    items: int | None = None


class JobMaterials(NamedTuple):
    """Prompt, inputs and submitted parts of a job. The texts of long documents are missing."""

    prompt: str
    inputs: Sequence[JobInput]
    so_far: str


def input_header(job_input: JobInput) -> Body:
    document = job_input.document
    return non_empty(
        documentKey=job_input.document_key,
        stageSlug=job_input.stage,
        modelId=document.model if document else None,
        lineage=document.lineage if document else None,
        documentId=document.id if document else None,
        item=job_input.item,
        itemCount=job_input.items,
        createdBy=job_input.by,
        createdAt=format_time(job_input.at),
    )


def complete_packet(materials: JobMaterials, documents: list[Json], room: int) -> Body | None:
    """Return the context with all texts, or None if they may not fit into `room` bytes."""
    contents: list[Json] = []
    for job_input in materials.inputs:
        if len(job_input.text) < job_input.length:
            return None
        contents.append({**input_header(job_input), "content": job_input.text})
    so_far = materials.so_far or None
    packet = non_empty(prompt=materials.prompt, inputs=contents, documents=documents, soFar=so_far)
    is_small = len(orjson.dumps(packet)) <= MIN_INPUT_BYTES <= room // 4
    return packet if is_small else None
