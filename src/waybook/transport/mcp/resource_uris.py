"""Kinds of MCP resources, with their URIs and the tools that read them."""

import re
from dataclasses import dataclass
from typing import Final

import mcp_types as wire

from waybook.app.request.caller import WORKFLOW_SCHEMA_URI

JSON: Final = "application/json"
MARKDOWN: Final = "text/markdown"


@dataclass(frozen=True, slots=True)
class ResourceKind:
    name: str
    title: str
    uri: str
    description: str
    #: Tool that reads the resource. Documents and outputs need no tool.
    tool: str | None = None
    argument: str = ""
    #: Whether the tool needs `detail` to return the full text.
    full_text: bool = False
    of_runs: bool = False
    mime_type: str = JSON

    def id_in(self, uri: str) -> str | None:
        before, after = map(re.escape, self.uri.split("{id}"))
        matched = re.fullmatch(rf"{before}([0-9A-Za-z-]{{1,64}}){after}", uri)
        return matched[1] if matched else None

    def arguments(self, resource_id: str) -> dict[str, object]:
        return {self.argument: resource_id, **({"detail": True} if self.full_text else {})}

    def template(self) -> wire.ResourceTemplate:
        return wire.ResourceTemplate(
            name=self.name,
            title=self.title,
            uri_template=self.uri,
            description=self.description,
            mime_type=self.mime_type,
        )


PLAN: Final = ResourceKind(
    "plan",
    "Plan",
    "waybook://plans/{id}",
    "Everything needed to continue a plan: its question, its steps with their results, the open "
    "review, the artifacts and the latest history.",
    "get_research_context",
    "planId",
)
OUTPUT: Final = ResourceKind(
    "output",
    "Output of a plan",
    "waybook://outputs/{id}",
    "An output of a plan, by its outputId; the reply of a complete plan lists its outputs.",
    mime_type="text/plain",
)
RUN_PROGRESS: Final = ResourceKind(
    "run_progress",
    "Progress of a run",
    "waybook://runs/{id}/progress",
    "Progress of a run: its stages, steps and documents.",
    "get_run_progress",
    "runId",
    of_runs=True,
)
KINDS: Final = (
    PLAN,
    ResourceKind(
        "plan_map",
        "Map of a plan",
        "waybook://plans/{id}/map",
        "The steps of a plan and their order.",
        "get_dag_map",
        "planId",
    ),
    OUTPUT,
    ResourceKind(
        "artifact",
        "Artifact",
        "waybook://artifacts/{id}",
        "Research that was stored, whole, with its sources.",
        "get_artifact",
        "artifactId",
        full_text=True,
    ),
    ResourceKind(
        "source",
        "Source",
        "waybook://sources/{id}",
        "A source with its quote, and the artifacts that came from it.",
        "get_artifact",
        "artifactId",
    ),
    RUN_PROGRESS,
    ResourceKind(
        "run_map",
        "Map of a run",
        "waybook://runs/{id}/map",
        "The stages, steps and edges of a run, and how many jobs to expect.",
        "get_dag_map",
        "runId",
        of_runs=True,
    ),
    ResourceKind(
        "document",
        "Document of a run",
        "waybook://documents/{id}",
        "A rendered document, by the resourceId it has in the progress of its run.",
        of_runs=True,
        mime_type=MARKDOWN,
    ),
)
WORKFLOW_SCHEMA: Final = wire.Resource(
    name="workflow_schema",
    title="JSON schema of workflows",
    uri=WORKFLOW_SCHEMA_URI,
    description="JSON schema of a workflow definition.",
    mime_type="application/schema+json",
)
