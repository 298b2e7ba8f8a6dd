"""Random tool calls: their arguments fit the published schemas, and their ids exist.

Most values are random values that fit the JSON Schema of the argument. Ids, and the names of
workflows and stages, come from earlier replies. Positions of steps fit the number of steps in the
call. Texts with a syntax, such as conditions and JSON Schemas, are chosen from a list.
"""

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.transport.mcp.tools import published_tools

Schema = dict[str, Any]

WORDS = ("the longest river", "Nile", "7", "true", "[1, 2]", '{"n": 0}', "für Elise ♪", "a\nb")
BLANKS = (" ", "   ", "\n\t\r\n", "\u00a0\u2003", "\x1f \x85")
#: All control characters except NUL, which PostgreSQL cannot store.
CONTROLS = "".join(map(chr, [*range(1, 32), *range(127, 160), 0x200B, 0x202E, 0xFEFF]))
#: Maximum length of a text whose schema has no maximum.
MAX_LENGTH = 20_000
MAX_ITEMS = 4
#: Possible values of arguments that need a certain syntax, or the same value in several calls.
LANGUAGES: Mapping[str, tuple[str, ...]] = {
    "models": ("a", "b"),
    "modelId": ("a", "b"),
    "conditionExpression": ("result.n == 0", "confidence < 0.5", "has(result.n)", "true"),
    "retrievedAt": (
        *("2030-01-01T12:00:00Z", "2029-12-31", "2030-01-01T12:00:00", "9999-12-31T23:59:59-23:00"),
        *("0001-01-01T00:00:00+14:00", "2030-02-30", "yesterday", "12", " ", "\x07", ""),
    ),
    "resultSchema": ('{"type": "object"}', "a list of rivers", '{"type": "string"}'),
    "schema": ('{"type": "object", "required": ["river"]}', "the river and its length"),
    "touches": ("src/**", "docs/*.md", "./a//b/", "db:staging"),
    "resumesAt": ("2030-01-01T12:00:00Z", "2029-12-31T00:00:00+02:00"),
    "until": ("2030-01-01T12:00:00Z", "2029-12-31T00:00:00+02:00"),
}
#: For each argument that takes an id, the fields of earlier replies that contain such ids.
FIELDS = {
    "documentId": ("documentId", "documentIds"),
    "stepIds": ("stepId", "stepIds"),
    "stepId": ("stepId", "stepIds"),
    "cursor": ("nextCursor",),
    "fromStage": ("stageSlug",),
    "artifactId": ("artifactId", "sourceId", "sourceIds"),
    "remove_step": ("stepId", "stepIds"),
    "retry_step": ("stepId", "stepIds"),
    "reorder_steps": ("stepId", "stepIds"),
}
IDS = frozenset(
    {
        *("planId", "runId", "jobId", "skillExecutionId", "reviewId", "dagSlug", "stageSlug"),
        *("stepKey", "documentKey", "part"),
        *FIELDS,
    }
)
#: For each action of a condition, the parameter that it requires. The schema says this only in a
#: description.
NEEDED_PARAMS = {"skip_to": "targetStepOrder", "add_steps": "steps"}
#: Tools that require exactly one of two arguments, which no schema says that all clients accept.
ALTERNATIVES = {
    "reserve_work": ("planId", "runId"),
    "give_back": ("stepId", "jobId"),
    "decide_cap": ("limit", "end"),
}
#: Arguments whose value is the position of a step.
POSITIONS = frozenset(
    {"dependsOn", "targetStepOrder", "fromStepOrder", "afterStepOrder", "insertAfterOrder"}
)


@dataclass
class RandomCalls:
    """Generator of random calls, which learns ids from the replies to earlier calls."""

    seed: int
    schemas: dict[str, Schema] = field(
        default_factory=lambda: {
            name: dict(tool.listed.input_schema) for name, tool in published_tools().items()
        }
    )

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)  # noqa: S311 - not for secrets
        self.known: dict[str, list[Any]] = defaultdict(list)
        self.held: dict[str, int] = {}
        self.steps = 1
        self.made = 0

    def learn(self, reply: object) -> None:
        for inner in reply if isinstance(reply, list) else ():
            self.learn(inner)
        if not isinstance(reply, dict):
            return
        for name, value in reply.items():
            texts = value if isinstance(value, list) else [value]
            self.known[name] += [
                t for t in texts if isinstance(t, str) and t not in self.known[name]
            ]
            self.learn(value)
        held = {reply[name] for name in ("stepId", "jobId") if name in reply and "attempt" in reply}
        self.held |= dict.fromkeys(held, reply.get("attempt", 0))

    def call(self) -> tuple[str, dict[str, Any]]:
        self.made += 1
        tool = self.random.choice([*self.schemas])
        self.steps = self.random.randint(1, MAX_ITEMS)
        arguments = self.object(self.schemas[tool], tool)
        if tool in ALTERNATIVES:
            chosen, other = self.random.sample(ALTERNATIVES[tool], 2)
            arguments.pop(other, None)
            value = self.value(self.schemas[tool]["properties"][chosen], chosen, tool)
            arguments[chosen] = True if chosen == "end" else value
        if tool == "report_worker":
            arguments["sessionId"] = f"worker-{self.made}"
        return tool, arguments

    def object(self, schema: Schema, tool: str) -> dict[str, Any]:
        required = schema.get("required", [])
        share = self.random.random()
        names = [n for n in schema["properties"] if n in required or self.random.random() < share]
        if "minProperties" in schema:
            names = self.random.sample([*schema["properties"]], len(schema["properties"]))
        drawn = {name: self.value(schema["properties"][name], name, tool) for name in names}
        present = {name: value for name, value in drawn.items() if value is not None}
        present = dict(islice(present.items(), schema.get("maxProperties")))
        if needed := NEEDED_PARAMS.get(present.get("ifTrueAction", "")):
            params = schema["properties"]["actionParams"]["properties"]
            value = self.value(params[needed], needed, tool)
            present["actionParams"] = {**present.get("actionParams", {}), needed: value}
        holding = self.held.get(str(present.get("stepId", present.get("jobId"))))
        if "attempt" in present and holding is not None and self.random.random() < 0.8:
            present["attempt"] = holding
        if present.get("mediaType", "").endswith("json"):
            present["content"] = json.dumps([present["content"]])
        return present

    def value(self, schema: Schema, name: str, tool: str) -> Any:  # noqa: ANN401 - JSON
        """Return a value that fits this schema; None if it must be an id and no id is known."""
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        match schema["type"]:
            case "object":
                return self.object(schema, tool)
            case "array":
                return self.array(schema, name, tool)
            case "boolean":
                return self.random.random() < 0.5
            case "integer" | "number":
                return self.number(schema, name)
        return self.text(schema, name, tool)

    def array(self, schema: Schema, name: str, tool: str) -> list[Any]:
        least = schema.get("minItems", 0)
        most = min(schema.get("maxItems", MAX_ITEMS), max(least, MAX_ITEMS))
        count = self.steps if name == "steps" else self.random.randint(least, most)
        drawn = [self.value(schema["items"], name, tool) for _ in range(max(count, least))]
        return [item for item in drawn if item is not None]

    def number(self, schema: Schema, name: str) -> Any:  # noqa: ANN401 - JSON
        if name in POSITIONS:
            if self.random.random() < 0.02:
                return self.random.choice([2**31, 2**53, 2**63 - 1])
            return 0 if name == "insertAfterOrder" else self.random.randint(1, self.steps)
        low, high = schema.get("minimum", -(2**63) + 1), schema.get("maximum", 2**63 - 1)
        if name == "waitSeconds":
            return 0
        if self.random.random() < 0.5:
            high = min(high, low + 10)
        if schema["type"] == "integer":
            borders = [n for n in (-1, 0, 1, 2**31 - 1, 2**31, 2**53) if low <= n <= high]
            return self.random.choice([low, high, self.random.randint(low, high), *borders])
        return self.random.choice([low, high, self.random.uniform(low, high)])

    def text(self, schema: Schema, name: str, tool: str) -> str | None:
        if name in LANGUAGES:
            return self.random.choice(LANGUAGES[name])
        if name == "definition":
            stage = make_stage("views", make_recipe_step("view"))
            return json.dumps(make_definition(f"views-{self.made % 5}", stage))
        if name == "idempotencyKey" and self.random.random() < 0.9:
            return f"key-{self.made}"
        if name in IDS or (name in {"name", "file"} and "skill" in tool):
            known = [*self.known_ids(name, tool)]
            if self.random.random() < 0.02:
                return self.any_text(schema, name)
            return self.random.choice(known) if known else None
        return self.any_text(schema, name)

    def any_text(self, schema: Schema, name: str) -> str:
        """Return a random text: empty, blank, words, control characters, or of maximum length."""
        least, most = schema.get("minLength", 0), schema.get("maxLength", MAX_LENGTH)
        text = self.random.choice(WORDS) * self.random.choice([1, 1, 1, 30])
        match self.random.randint(1, 30):
            case 1:
                text = ""
            case 2:
                text = self.random.choice(BLANKS)
            case 3:
                text = CONTROLS
            case 4:
                text = "https://example.org/" if name == "url" else self.random.choice("xé♪🌊")
                longest = most if self.random.random() < 0.2 else min(most, 2_001)
                text = text.ljust(longest - self.random.randint(0, 1), "é")
        return text[:most].ljust(least, "x")

    def known_ids(self, name: str, tool: str) -> Iterator[str]:
        if "skill" in tool and name in {"name", "file"}:
            yield {"name": "survey", "file": "SKILL.md"}[name]
            return
        for reply_field in FIELDS.get(name, (name,)):
            yield from self.known[reply_field]
