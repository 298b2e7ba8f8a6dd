"""The command `waybook search`."""

import pytest

from cli.terminal import Body, Terminal

FLOOD = "When an avalanche falls into a glacial lake the wave cuts the dam of loose moraine."


@pytest.fixture(scope="module")
def stored(terminal: Terminal) -> Body:
    """Store research with an overlong title, terminal color codes in its text, and sources."""
    plan_id = terminal.plan("Where research is stored", 1)
    pages = [{"title": f"Page {n}", "url": f"https://example.org/{n}"} for n in range(5)]
    return terminal.call(
        "store_research",
        planId=plan_id,
        kind="finding",
        title="Floods " + "of lakes " * 20,
        content=f"\x1b[31m{FLOOD}\x1b[0m",
        sources=pages,
    )


@pytest.mark.parametrize("columns", [40, 80, 140])
def test_search_command_shows_matched_words_and_sources_of_hit(
    terminal: Terminal, stored: Body, columns: int
) -> None:
    output = terminal.say("search", "moraine dam", columns=columns)
    flat = " ".join(output.split())
    assert stored["artifactId"] in flat
    assert "dam, moraine: 100% of the question, place 1" in flat
    assert "Page 0 https://example.org/0" in flat
    assert "and 3 more" in flat
    assert "searched by full text" in flat
    assert "\x1b" not in output
    assert all(len(line.rstrip()) <= columns for line in output.splitlines())


def test_search_command_filters_hits_by_plan_and_kind(terminal: Terminal, stored: Body) -> None:
    def ids(*words: str) -> list[str]:
        return [hit["id"] for hit in terminal.json_output("search", "moraine dam", *words)["hits"]]

    assert ids("--plan", "Where research", "--kind", "finding") == [stored["artifactId"]]
    assert ids("--kind", "nothing") == []


def test_doctor_and_search_commands_do_not_print_embeddings_key(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAYBOOK_EMBEDDINGS_URL", "http://localhost:1/v1")
    monkeypatch.setenv("WAYBOOK_EMBEDDINGS_MODEL", "m")
    monkeypatch.setenv("WAYBOOK_EMBEDDINGS_KEY", "sk-1234")
    for words in (("doctor",), ("doctor", "--json"), ("search", "dam")):
        result = terminal.run(*words)
        assert "sk-1234" not in result.output
    assert "http://localhost:1/v1" in terminal.run("doctor").output


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"SEARCH_VECTORS": "oracle"}, "use auto, portable or pgvector"),
        ({"SEARCH_VECTORS": "pgvector"}, "which the embedded PostgreSQL does not use"),
        ({"SEARCH_MEMORY_MB": "0"}, "search_memory_mb must be at least 1"),
        ({"EMBEDDINGS_URL": "http://x"}, "embeddings_url and embeddings_model"),
        ({"EMBEDDINGS_MODEL": "m"}, "embeddings_url and embeddings_model"),
        (
            {"EMBEDDINGS_URL": "ftp://x", "EMBEDDINGS_MODEL": "m"},
            "must begin with http:// or https://",
        ),
        ({"EMBEDDINGS_URL": "http://a:b@x", "EMBEDDINGS_MODEL": "m"}, "must not contain a key"),
    ],
)
def test_search_command_prints_error_for_invalid_settings(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], expected: str
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"WAYBOOK_{name}", value)
    result = terminal.run("search", "dam")
    assert result.exit_code == 1
    assert expected in " ".join(result.output.split())
