"""Texts of the demo, from story.yaml, and the documents that are made of them."""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import yaml

STORY: Mapping[str, Any] = yaml.safe_load(
    (files("waybook.cli.demo") / "story.yaml").read_text("utf-8")
)
DOCUMENTS = {
    key: group["opening"] + text
    for group in STORY["documents"]
    for key, text in group["texts"].items()
}


def document_for(job: Mapping[str, Any]) -> str:
    """Return the document that a job of the run asks for, in the opinion of its model."""
    model, opinions = job["modelId"], STORY["opinions"]
    key = job["documents"][0]["documentKey"] if job["documents"] else ""
    opinion = opinions[model]
    if job["jobType"] == "PLAN" or key == "comparison_vector":
        notes = {
            "title": STORY["run"]["name"],
            "request": STORY["run"]["input"],
            "document": key,
            "goals": ["no report is lost", "a failed run is seen at once"],
            "look at": [opinion["doubt"], opinion["risk"]],
        }
        return json.dumps(notes, ensure_ascii=False, indent=1)
    authors = [read["modelId"] for read in job["inputs"] or () if read.get("modelId") in opinions]
    other = next((author for author in authors if author != model), model)
    text = DOCUMENTS.get(key, STORY["otherDocuments"])
    theirs = opinions[other]["idea"]
    body = text.format(**opinion, whose=other, theirs=theirs, agreed=STORY["agreed"])
    return f"# {key.replace('_', ' ').capitalize()}\n\n{body}"
