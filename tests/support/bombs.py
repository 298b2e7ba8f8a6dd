"""Small inputs that may be expensive to process: request bodies, snapshots, definitions, Markdown.

No input exceeds the server's size limits. The server must answer each input with a result or a
documented error.
"""

import json
from typing import Final

MEBIBYTE: Final = 1024 * 1024
#: Size in bytes of a large value. With the JSON around it, the value just fits into the largest
#: request body that the server accepts.
ROOM: Final = MEBIBYTE - 4_096

#: Hostile JSON values, as text.
VALUES: Final = {
    "a NUL": '"\\u0000"',
    "half a character": '"\\ud800"',
    "half a character as a key": '{"\\udfff":1}',
    "more than a float": "1e400",
    "less than a float": "-1E+999",
    "a long exponent": "1e" + "9" * 5_000,
    "minus nothing": "-0",
    "five thousand digits": "9" * 5_000,
    "a million digits": "9" * ROOM,
    "a million digits behind a point": "0." + "1" * (ROOM - 2),
    "deep lists": "[" * 100_000 + "]" * 100_000,
    "deep objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "as deep as may be": "[" * 60 + "]" * 60,
    "the same key": "{" + ",".join(['"a":1'] * 100_000) + "}",
    "many keys": "{" + ",".join(f'"{n}":0' for n in range(90_000)) + "}",
    "a long key": '{"' + "k" * 100_000 + '":1}',
    "a long text": '"' + "x" * ROOM + '"',
    "a text of escapes": '"' + "\\u00e4" * (ROOM // 6) + '"',
    "empty lists": "[" + ",".join(["[]"] * (ROOM // 3)) + "]",
    "empty texts": "[" + ",".join(['""'] * (ROOM // 3)) + "]",
    "numbers": "[" + ",".join(["0"] * (ROOM // 2)) + "]",
    "texts of JSON": json.dumps("[" * 100_000 + "]" * 100_000),
    "half of it": '{"a":[1,2,',
    "not a number": "NaN",
}
#: Hostile JSON values whose nesting or length may make a JSON parser fail.
DEEP: Final = {name: VALUES[name] for name in ("deep lists", "deep objects", "a million digits")}


def _steps(count: int, **more: object) -> list[dict[str, object]]:
    fields = {"jobType": "EXECUTE", "granularityStrategy": "per_model", **more}
    return [{"stepKey": f"s{n}", "stepNumber": n, "name": "x", **fields} for n in range(count)]


def _snapshot(steps: list[dict[str, object]], edges: list[list[str]], models: int) -> str:
    recipe = {"steps": steps, "edges": edges}
    stages = [{"slug": "one", "recipe": recipe}, {"slug": "two", "recipe": recipe}]
    transitions = [{"from": "one", "to": "two"}]
    runs = [{"stageSlug": slug, "models": [f"m{n}" for n in range(models)]} for slug in ("one",)]
    dag = {"slug": "bomb", "stages": stages, "transitions": transitions}
    return json.dumps({"dag": dag, "stageRuns": runs, "jobs": []}, separators=(",", ":"))


_PAIRS = "pairwise_by_origin"
SNAPSHOTS: Final = {
    "many steps": _snapshot(_steps(3_000), [], 1),
    "many edges": _snapshot(
        _steps(200), [[f"s{a}", f"s{b}"] for a in range(200) for b in range(a + 1, 200)], 2
    ),
    "a long chain": _snapshot(_steps(2_000), [[f"s{n}", f"s{n + 1}"] for n in range(1_999)], 2),
    "a circle": _snapshot(
        _steps(2_000), [[f"s{n}", f"s{(n + 1) % 2_000}"] for n in range(2_000)], 2
    ),
    "many models": _snapshot(_steps(5), [], 60_000),
    "pairs of many models": _snapshot(_steps(3, granularityStrategy=_PAIRS), [], 20_000),
    "lineages of many models": _snapshot(
        _steps(20, granularityStrategy="per_source_document_by_lineage"), [], 10_000
    ),
    "many jobs": json.dumps(
        {
            "dag": json.loads(_snapshot(_steps(2), [], 1))["dag"],
            "jobs": [
                {"id": str(n), "jobType": "EXECUTE", "status": "x", "parent": str(n + 1)}
                for n in range(13_000)
            ],
        },
        separators=(",", ":"),
    ),
}

_LAUGHS = "\n".join(
    [
        "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]",
        *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)),
    ]
)
#: Hostile workflow definitions, as text.
DEFINITIONS: Final = {
    "a billion laughs": _LAUGHS,
    "quadratic aliases": "a: &a [" + "x," * 20_000 + "]\nb: [" + "*a," * 20_000 + "]",
    "merged keys": "a: &a {x: 1}\nb: {" + "<<: *a, " * 20_000 + "}",
    "itself": "a: &a [*a]",
    "a tag of Python": "!!python/object/apply:os.system ['true']",
    "deep YAML": "[" * 50_000,
    "deep by indentation": "\n".join(" " * n + "a:" for n in range(1_400)),
    "deep by dashes": "- " * 50_000 + "x",
    "a key that is a list": "? [a, b]\n: 1",
    "many anchors": "\n".join(f"k{n}: &n{n} x" for n in range(40_000)),
    "many documents": "---\n" * 200_000,
    "a long scalar": "a: >\n" + " x" * 400_000,
    "open quotes": "a: '" + "x\n" * 300_000,
    **VALUES,
}
#: Hostile prompts of workflow steps; a prompt is a template that the server renders.
TEMPLATES: Final = {
    "loops in loops": "{% for a in inputs %}" * 200 + "{% endfor %}" * 200,
    "brackets": "{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}",
    "a power": "{{ 9 ** 9 ** 9 ** 9 }}",
    "a repetition": "{{ 'x' * 999999999 }}",
    "filters": "{{ run.name" + "|upper" * 5_000 + " }}",
    "a range": "{% for n in range(999999999) %}x{% endfor %}",
    "attributes": "{{ ''.__class__.__mro__ }}",
    "open blocks": "{% if run %}" * 10_000,
    "comments": "{#" * 50_000,
}
MARKDOWN: Final = {
    "brackets": "[" * 50_000,
    "brackets and parentheses": "[a](" * 20_000,
    "images": "![" * 30_000,
    "stars": "*a_" * 30_000,
    "stars in pairs": "**a " * 30_000,
    "backticks": "".join("`" * (n % 300) + " " for n in range(2_000)),
    "quotes": ">" * 50_000 + " a",
    "lists": "\n".join("  " * (n % 500) + "- a" for n in range(5_000)),
    "references": "\n".join(f"[{n}]: <x>" for n in range(10_000)) + "[0]" * 10_000,
    "a wide table": "|" + "a|" * 5_000 + "\n|" + "-|" * 5_000 + ("\n|" + "b|" * 5_000) * 3,
    "tags": "<div>" * 30_000,
    "tags in tags": "<a<b" * 30_000,
    "attributes": "<p " + "a=b " * 30_000 + ">",
    "entities": "&amp;" * 50_000,
    "angle brackets": "<" * 100_000,
    "backslashes": "\\" * 100_000,
    "links": "http://" * 30_000,
}
FORMS: Final = {
    "many fields": b"a&" * (ROOM // 2),
    "the same field": b"token=x&" * (ROOM // 8),
    "escapes": b"token=" + b"%41" * (ROOM // 3),
    "half an escape": b"token=%" * (ROOM // 7),
    "NULs": b"token=" + b"%00" * (ROOM // 3),
    "not UTF-8": b"token=" + b"%ff" * (ROOM // 3),
}
