"""Reading definitions of DAGs: versions are kept for ever, a run goes by one of them."""

from collections.abc import Iterable

from waybook.store.sql import AsJson, Statement, load

SQL = load("definitions")


def definition_statement(slug: str, version: int | None = None) -> Statement:
    """A version of a definition, or its latest."""
    return SQL["definition"](slug=slug, version=version)


def lock_statement(slug: str) -> Statement:
    """Take turns with whoever else adds a version of this definition."""
    return SQL["lock_definition"](slug=slug)


def definitions_statement() -> Statement:
    """The latest version of every definition."""
    return SQL["definitions"]()


def named_statement(named: Iterable[tuple[str, int]]) -> Statement:
    """Several versions of definitions at once."""
    asked = [{"slug": slug, "version": version} for slug, version in named]
    return SQL["definitions_named"](named=AsJson(asked))


def versions_statement(slug: str, most: int) -> Statement:
    """The versions of a definition, latest first."""
    return SQL["versions"](slug=slug, most=most)
