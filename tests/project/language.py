"""Language measures, which find texts that are not in plain language."""

import ast
import gc
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from project.repository import ROOT

SOURCE: Final = "src"
TESTS: Final = "tests"

DENIED: Final = re.compile(
    r"\b(?:whoever|whomever|whosever|whatever|somebody|nobody|anybody|everybody|anew|told|"
    r"of ours|is none|are none|let go|lets? (?:in|go)|counts? no more|sign of life|"
    r"by the word of|stands? (?:in|on|before|beside)|comes? to nothing)\b",
    re.IGNORECASE,
)
OPENING: Final = re.compile(
    r"^(?:what|who|whose|whoever|whom|how|where|whether|which|why|when|those|of|somebody)\b",
    re.IGNORECASE,
)
NAMES: Final = frozenset(
    {"told", "said", "asked", "found", "kept", "given", "meant", "whole", "one", "beside", "anew"}
    | {"house", "hand", "purse", "deed", "letter", "postman", "mishap", "desk"}
    | {"nobody", "somebody", "anybody", "everybody", "whoever"}
)
CONSTANT: Final = re.compile(
    r"^_?(?:MOST|LONGEST|LARGEST|LEAST|FEWEST|DEEPEST|WIDEST|NARROWEST|SHORTEST|FARTHEST)(?:_|$)"
)
#: Pronouns that a test name must not contain, because the name must say who or what is meant.
PRONOUNS: Final = frozenset(
    {"it", "its", "itself", "they", "them", "their", "theirs", "he", "him", "his", "she", "her"}
    | {"we", "us", "our", "ours", "you", "your", "who", "whom", "whose", "what"}
)
BRITISH: Final = re.compile(
    r"colour|(?<![a-z])centre|neighbour|organis[ei]|recognis|sanitis|catalogue|learnt",
    re.IGNORECASE,
)
MAX_TEST_NAME_LENGTH: Final = 70

_CODE: Final = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_INLINE: Final = re.compile(r"`[^`\n]+`|\[(?P<label>[^\]\n]*)\]\([^)\n]*\)|<!--.*?-->", re.DOTALL)
_TAG: Final = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}|<[^>]*>", re.DOTALL)


Span: TypeAlias = tuple[tuple[int, int], tuple[int, int]]
CONTEXTS: Final = frozenset({ast.Load})
STRINGS: Final = frozenset({ast.Constant, ast.JoinedStr})
BODIES: Final = frozenset({ast.Module, ast.ClassDef})
SCOPES: Final = BODIES | {ast.FunctionDef, ast.AsyncFunctionDef}
REFERENCES: Final = frozenset({ast.Name, ast.Attribute})
#: For each kind of syntax tree node, the field that contains the name which the node defines.
BINDINGS: Final[Mapping[type[ast.AST], str]] = {
    ast.Name: "id",
    ast.Attribute: "attr",
    ast.arg: "arg",
    ast.FunctionDef: "name",
    ast.AsyncFunctionDef: "name",
    ast.ClassDef: "name",
    ast.alias: "asname",
    ast.ExceptHandler: "name",
    ast.MatchAs: "name",
    ast.MatchStar: "name",
}


class Text(NamedTuple):
    """Text or name, with the file and line in which it occurs."""

    file: str
    line: int
    text: str


@dataclass(slots=True)
class Corpus:
    """All texts and names of the repository, by kind."""

    docstrings: list[Text] = field(default_factory=list)
    comments: list[Text] = field(default_factory=list)
    #: Comments in the `.sql` files.
    queries: list[Text] = field(default_factory=list)
    #: String constants of the source that are not docstrings.
    strings: list[Text] = field(default_factory=list)
    #: Names of variables, parameters, attributes, functions and classes, where they are defined.
    names: list[Text] = field(default_factory=list)
    constants: list[Text] = field(default_factory=list)
    tests: list[Text] = field(default_factory=list)
    templates: list[Text] = field(default_factory=list)
    sentences: list[Text] = field(default_factory=list)


class Allowed(NamedTuple):
    """Text that a language measure allows as an exception."""

    file: str
    text: str
    reason: str


@cache
def corpus(root: Path = ROOT) -> Corpus:
    """Read all texts and names of the repository."""
    # Reading creates a million syntax tree nodes that all stay in use, and garbage collection would
    # double the time.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return _read(root)
    finally:
        if was_enabled:
            gc.enable()


def _read(root: Path) -> Corpus:
    read = Corpus()
    for folder in (SOURCE, TESTS, "harness", "tools", "benchmarks", "examples"):
        for path in sorted((root / folder).rglob("*.py")):
            _read_module(read, path, str(path.relative_to(root)))
    read.queries += _query_comments(root)
    for path in sorted((root / SOURCE).rglob("*.html")):
        text = _TAG.sub(_blanked, path.read_text(encoding="utf-8"))
        read.templates += _lines(str(path.relative_to(root)), text)
    for path in (*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))):
        read.sentences += _sentences(path, str(path.relative_to(root)))
    return read


def _query_comments(root: Path) -> Iterator[Text]:
    for path in sorted((root / SOURCE).rglob("*.sql")):
        # Published migrations never change, so their comments are not checked.
        if path.parent.name != "migrations":
            yield from _blocks(path, str(path.relative_to(root)))


def _blocks(path: Path, file: str) -> Iterator[Text]:
    block: Text | None = None
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], 1):
        if line.startswith("--") and not line.startswith("-- name: "):
            text = line.lstrip("- ")
            first, before = (block.line, f"{block.text} ") if block else (number, "")
            block = Text(file, first, f"{before}{text}")
        elif block:
            yield block
            block = None


# Functions that read Python files.


def _read_module(read: Corpus, path: Path, file: str) -> None:
    text = path.read_text(encoding="utf-8")
    strings: list[Span] = []
    docstrings: set[int] = set()
    for node in _nodes(ast.parse(text)):
        kind = type(node)
        if kind in STRINGS:
            _read_string(read, node, file, strings, docstrings)
        elif kind in SCOPES:
            docstrings |= _read_docstring(read, node, file)
            if kind in BODIES:
                read.constants += _constants(node.body, file)
            elif _is_test(node.name, file):
                read.tests.append(Text(file, node.lineno, node.name))
        name = _bound(node, kind)
        if name:
            read.names.append(Text(file, node.lineno, name))
    read.comments += _comments(text, sorted(strings), file)


def _nodes(tree: ast.Module) -> Iterator[Any]:
    """Yield all nodes of a syntax tree, as `ast.walk` does but faster."""
    open_nodes: list[ast.AST] = [tree]
    while open_nodes:
        node = open_nodes.pop()
        yield node
        for value in node.__dict__.values():
            if value.__class__ is list:
                open_nodes += (inner for inner in value if isinstance(inner, ast.AST))
            elif isinstance(value, ast.AST) and value.__class__ not in CONTEXTS:
                open_nodes.append(value)


def _read_string(
    read: Corpus,
    node: ast.JoinedStr | ast.Constant,
    file: str,
    strings: list[Span],
    docstrings: set[int],
) -> None:
    start = (node.lineno, node.col_offset)
    strings.append((start, (node.end_lineno or 0, node.end_col_offset or 0)))
    value = getattr(node, "value", None)
    if isinstance(value, str) and file.startswith(SOURCE) and id(node) not in docstrings:
        read.strings.append(Text(file, node.lineno, value))


def _read_docstring(
    read: Corpus,
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
    file: str,
) -> set[int]:
    """Record the docstring of a node; return the id of the string node, if there is a docstring."""
    match node.body:
        case [ast.Expr(value=ast.Constant(value=str(text)) as constant), *_]:
            read.docstrings.append(Text(file, constant.lineno, text.strip()))
            return {id(constant)}
    return set()


def _bound(node: Any, kind: type[ast.AST]) -> str | None:  # noqa: ANN401 - any node
    """Return the name that a node of the syntax tree defines, or None."""
    attribute = BINDINGS.get(kind)
    if attribute is None:
        return None
    if kind in REFERENCES and type(node.ctx) is not ast.Store:
        return None
    name: str | None = getattr(node, attribute)
    return name


def _constants(body: Iterable[ast.stmt], file: str) -> Iterator[Text]:
    for statement in body:
        targets = (
            statement.targets
            if isinstance(statement, ast.Assign)
            else [statement.target]
            if isinstance(statement, ast.AnnAssign)
            else []
        )
        for target in targets:
            if isinstance(target, ast.Name) and target.id.isupper():
                yield Text(file, target.lineno, target.id)


def _is_test(name: str, file: str) -> bool:
    return file.startswith(TESTS) and name.startswith("test_")


def _comments(text: str, strings: list[Span], file: str) -> Iterator[Text]:
    """Yield the comments of Python code; adjacent comment lines are one comment.

    A comment is the text after a # outside of strings. Python's tokenizer would be slower.
    """
    block: Text | None = None
    for number, line in enumerate(text.split("\n") if "#" in text else (), 1):
        column = _comment_column(line, number, strings)
        comment = line[column:].lstrip("#: ").strip() if column >= 0 else ""
        if block and comment and not line[:column].strip():
            block = Text(file, block.line, f"{block.text} {comment}")
            continue
        if block:
            yield block
            block = None
        if comment and not comment.startswith(("noqa", "type: ignore", "pragma", "fmt:")):
            if line[:column].strip():
                yield Text(file, number, comment)
            else:
                block = Text(file, number, comment)
    if block:
        yield block


def _comment_column(line: str, number: int, strings: list[Span]) -> int:
    """Return the column at which a comment starts, or -1 if the line has none."""
    column = line.find("#")
    while column >= 0:
        # Convert the column to bytes, because the syntax tree counts columns in bytes.
        position = (number, len(line[:column].encode()))
        index = bisect_right(strings, (position, position))
        if not any(start <= position < end for start, end in strings[max(0, index - 9) : index]):
            return column
        column = line.find("#", column + 1)
    return -1


# Functions that read templates and docs.


def _blanked(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n") or " "


def _lines(file: str, text: str) -> Iterator[Text]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield Text(file, number, line.strip())


def _sentences(path: Path, file: str) -> Iterator[Text]:
    text = _CODE.sub(_blanked, path.read_text(encoding="utf-8"))
    text = _INLINE.sub(_shortened, text)
    yield from (line for line in _lines(file, text) if not set(line.text) <= set("|-: "))


def _shortened(match: re.Match[str]) -> str:
    # Keep inline code and link texts, so that sentences stay complete, and replace comments by
    # spaces.
    if match["label"] is not None:
        return match["label"]
    return match[0] if match[0].startswith("`") else _blanked(match)


# Measures of language.


class Measure(NamedTuple):
    name: str
    total: int
    hits: list[Text]


@cache
def measures(root: Path = ROOT, allowed: tuple[Allowed, ...] = ()) -> list[Measure]:
    read = corpus(root)

    def measure(name: str, texts: list[Text], hits: Iterable[Text]) -> Measure:
        return Measure(name, len(texts), [hit for hit in hits if not is_allowed(hit, allowed)])

    prose = [*read.docstrings, *read.comments, *read.queries, *read.templates, *read.sentences]
    return [
        measure(
            "docstrings opening with a question word",
            read.docstrings,
            (text for text in read.docstrings if OPENING.match(text.text)),
        ),
        measure(
            "comments of queries opening with a question word",
            read.queries,
            (text for text in read.queries if OPENING.match(text.text)),
        ),
        *(
            measure(f"{name} with private idiom", texts, _denied(texts))
            for name, texts in (
                ("docstrings", read.docstrings),
                ("comments", read.comments),
                ("comments of queries", read.queries),
                ("strings of the source", read.strings),
                ("lines of templates", read.templates),
                ("lines of docs", read.sentences),
            )
        ),
        measure("names bound", read.names, (t for t in read.names if words_of(t.text) & NAMES)),
        measure(
            "limits outside MAX_ and MIN_",
            read.constants,
            (text for text in read.constants if CONSTANT.match(text.text)),
        ),
        measure(
            "test names with pronouns or idiom",
            read.tests,
            (text for text in read.tests if _is_vague(text.text)),
        ),
        measure(
            f"test names over {MAX_TEST_NAME_LENGTH} characters",
            read.tests,
            (text for text in read.tests if len(text.text) > MAX_TEST_NAME_LENGTH),
        ),
        measure(
            "British spellings",
            [*prose, *read.names],
            (text for text in (*prose, *read.names) if BRITISH.search(text.text)),
        ),
    ]


def is_allowed(hit: Text, allowed: Iterable[Allowed]) -> bool:
    return any(hit.file == entry.file and entry.text in hit.text for entry in allowed)


def words_of(name: str) -> set[str]:
    """Return the words of an identifier in lower case.

    >>> sorted(words_of("_HeldRun_found"))
    ['found', 'held', 'run']
    """
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)}


def _denied(texts: Iterable[Text]) -> Iterator[Text]:
    return (text for text in texts if DENIED.search(text.text))


def _is_vague(name: str) -> bool:
    spoken = name.removeprefix("test_").replace("_", " ")
    return bool(DENIED.search(spoken)) or bool(set(spoken.split()) & PRONOUNS)
