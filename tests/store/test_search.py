"""Full-text and semantic search, limited to one org, on every server version."""

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest

from org_env import NOON, open_test_database
from postgres_servers import ServerDatabase
from store.search_corpus import EMBEDDER, SearchCorpus, make_search_corpus
from waybook.plan.research import ResearchSource
from waybook.research.embedding import Backend
from waybook.research.fusion import fuse
from waybook.research.passages import source_hash, source_id
from waybook.research.query import parse_query
from waybook.store.driver.database import Database
from waybook.store.driver.queries import new_uuid
from waybook.store.research import artifacts, embeddings, search
from waybook.store.research.artifacts import index_source
from waybook.store.research.search import Scope, SearchCapabilities

#: Id of the org in local mode.
ORG = b"00000000-0000-7000-8000-000000000001"
NOTES = {
    "flood": "When an avalanche falls into a glacial lake the wave cuts the dam of loose moraine.",
    "sleep": "Caffeine blocks adenosine receptors and has a half-life of five to six hours.",
    "bread": "Wetting wheat flour lets gluten form an elastic net that traps gas from the yeast.",
    "bug": "CVE-2024-3094 is a backdoor in liblzma 5.6.0; ssh logins took half a second longer.",
    "bees": "A returning forager tells the direction of flowers by dancing on the comb.",
}
HASH = source_hash(url="https://example.org/lake", title="Glacial lakes", quote="A dam.")
WIKI = ResearchSource(
    id=source_id(HASH),
    content_hash=HASH,
    url="https://example.org/lake",
    title="Glacial lakes",
    quote="A dam.",
    retrieved_at=NOON,
)


@pytest.fixture
async def database(shared_place: ServerDatabase) -> AsyncIterator[Database]:
    async with open_test_database(shared_place) as made:
        yield made


@pytest.fixture
async def library(database: Database, shared_place: ServerDatabase) -> SearchCorpus:
    """Store the same texts in two orgs; return the search corpus of the first."""
    mine = await make_search_corpus(database, shared_place)
    theirs = await make_search_corpus(database, shared_place)
    for name, text in NOTES.items():
        await mine.store(name, text)
        await theirs.store(f"their {name}", text)
    return mine


def plan_in(place: ServerDatabase, org_id: UUID) -> str:
    """Insert a plan as a row, without calling a tool; return its id."""
    plan_id = new_uuid()
    with psycopg.connect(place.admin_dsn) as admin:
        admin.execute(
            "insert into plan (org_id, id, name, status, revision, audit_seq, audit_hash,"
            " updated_at) values (%s, %s, 'Plan', 'executing', 1, 1, '', now())",
            (org_id, plan_id),
        )
    return plan_id


def artifact_in(
    place: ServerDatabase, library: SearchCorpus, plan_id: str | None, title: str
) -> str:
    artifact_id = new_uuid()
    with psycopg.connect(place.admin_dsn) as admin:
        admin.execute(
            "insert into artifact (org_id, id, plan_id, kind, title, content, created_at,"
            " created_by, audit_hash) values (%s, %s, %s, 'note', %s, %s, %s, 'ann', '')",
            (library.org_id, artifact_id, plan_id, title, '"Text of it."', NOON),
        )
    return artifact_id


async def test_search_description_names_the_methods_that_the_database_supports(
    library: SearchCorpus, shared_place: ServerDatabase
) -> None:
    able = library.abilities
    assert able.backend is Backend.PORTABLE
    assert able.indexed == shared_place.server.is_embedded
    reach = "" if able.indexed else ", words among the newest 5,000 passages"
    assert able.describe == f"full text and vectors{reach}"


async def test_search_without_a_vector_backend_uses_only_full_text(library: SearchCorpus) -> None:
    assert set(await library.lists("glacial lake")) == {"words", "meaning"}
    library.abilities = SearchCapabilities(backend=None, indexed=False)
    assert set(await library.lists("glacial lake")) == {"words"}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("moraine dam", "flood"),
        ("CVE-2024-3094", "bug"),
        ("liblzma 5.6.0", "bug"),
        ("gluten", "bread"),
        ("caffiene adenosine", "sleep"),
        ('"elastic net"', "bread"),
    ],
)
async def test_search_by_exact_or_misspelled_words_finds_the_note(
    library: SearchCorpus, asked: str, expected: str
) -> None:
    assert (await library.search(asked))[0] == expected


async def test_search_by_synonyms_finds_the_matching_note(library: SearchCorpus) -> None:
    assert (await library.search("insects pointing to blossoms"))[0] == "bees"


async def test_search_never_returns_passages_of_another_org(library: SearchCorpus) -> None:
    for query in (*NOTES.values(), "glacial lake", "their flood"):
        assert set(await library.search(query)) <= set(NOTES)


async def test_search_ranks_a_full_match_above_a_partial_match(library: SearchCorpus) -> None:
    await library.store("partly", "Wheat grows. Flour is milled. Nothing about nets.")
    full, partial = (await library.lists("wheat flour gluten yeast"))["words"]
    assert full.measure > 1 > partial.measure
    assert (await library.search("wheat flour gluten yeast"))[:2] == ["bread", "partly"]


async def test_search_treats_a_tag_like_a_word_of_the_title(library: SearchCorpus) -> None:
    await library.store("plain", "Nothing special.", tags=("hydrology",))
    assert (await library.search("hydrology"))[0] == "plain · hydrology"


async def test_search_returns_the_matching_passage_of_a_long_text(library: SearchCorpus) -> None:
    filler = "Meetings were held and minutes were taken. " * 60
    await library.store("minutes", f"{filler}The perovskite cell broke. {filler}")
    hit = fuse(await library.lists("perovskite"))[0]
    (rows,) = await library.database.read_org(library.org_id, search.hits_statement([hit], 0, 1))
    assert hit.part > 1
    assert "perovskite" in rows[0].body


@pytest.mark.parametrize(
    "asked",
    [
        *("", " ", "the of and", "'", '"', "\\", "-", "- -", "or", "or or", "& | ! ( ) :* <->"),
        *(
            "''''",
            '"""',
            "a:*b",
            "%s %(x)s $1",
            "\u6cb3",
            "\U0001f30a",
            "x" * 5_000,
            "\ud7ff\uffff",
        ),
        *("flood -moraine", '"unclosed', "@00000000-0000-7000-8000-000000000001", "\x1f\x01"),
    ],
)
async def test_search_accepts_any_query_text_without_an_error(
    library: SearchCorpus, asked: str
) -> None:
    assert set(await library.search(asked)) <= set(NOTES)
    assert set(await library.search(asked, plan_id=new_uuid(), kinds=("note", asked[:9]))) == set()


async def test_search_for_only_stop_words_has_no_full_text_hits(library: SearchCorpus) -> None:
    assert (await library.lists("what is it that they do"))["words"] == []


async def test_search_within_a_plan_returns_artifacts_and_sources_of_that_plan(
    library: SearchCorpus, shared_place: ServerDatabase
) -> None:
    plan_id = plan_in(shared_place, library.org_id)
    await library.store("ours", NOTES["flood"], plan_id=plan_id)
    artifact_id = artifact_in(shared_place, library, plan_id, "linked")
    await library.link(artifact_id, WIKI)
    await library.index(index_source(WIKI, NOON))
    assert set(await library.search("glacial dam", plan_id=plan_id)) == {"ours", "Glacial lakes"}
    assert await library.search("glacial dam", plan_id=plan_id, kinds=("source",)) == [
        "Glacial lakes"
    ]
    assert await library.search("glacial dam", plan_id=new_uuid()) == []


async def test_texts_without_index_or_embedding_are_listed_for_indexing(
    library: SearchCorpus, shared_place: ServerDatabase
) -> None:
    artifact_id = artifact_in(shared_place, library, None, "unknown")
    (rows,) = await library.database.read_org(
        library.org_id, artifacts.SQL["without_passages"](since=None, most=9)
    )
    assert [row[0] for row in rows] == [artifact_id]
    await library.write(
        *artifacts.index_statements(
            artifacts.split_subjects([index_source(WIKI, NOON)]), None, library.org_id
        )
    )
    statement = embeddings.SQL["without_embeddings"](
        model=EMBEDDER.model, backend=Backend.PORTABLE, since=None, most=9
    )
    (rows,) = await library.database.read_org(library.org_id, statement)
    assert [row[0] for row in rows] == [WIKI.id]


async def test_artifact_with_an_empty_text_is_searchable_by_the_title(
    library: SearchCorpus,
) -> None:
    await library.store("empty", "")
    assert "empty" in await library.search("empty")


async def test_full_text_search_without_index_scans_only_newest_passages(
    library: SearchCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MAX_UNINDEXED_SCAN", 1)
    library.abilities = SearchCapabilities(backend=None, indexed=False)
    await library.store("later", NOTES["bread"], created_at=NOON + timedelta(days=1))
    assert await library.search("moraine dam") == []
    await library.store("latest", NOTES["flood"], created_at=NOON + timedelta(days=2))
    assert await library.search("moraine dam") == ["latest"]


def test_full_text_search_with_row_level_security_uses_index(own_place: ServerDatabase) -> None:
    """Under row-level security, PostgreSQL uses an index only with leakproof search operators."""
    if not own_place.server.is_embedded:
        pytest.skip("the search operators of this server are not leakproof")
    fill = """
        insert into passage (org_id, subject, subject_id, part, kind, title, body, created_at)
        select o.org_id, 'artifact', gen_random_uuid(), 1, 'note', 'title ' || n, 'word' || n, now()
          from org o, generate_series(1, 3000) n;
        analyze passage"""
    with psycopg.connect(own_place.admin_dsn, autocommit=True) as admin:
        admin.execute(fill.encode())
    question = parse_query("word77")
    statements = search.search_statements(
        question, None, Scope(), SearchCapabilities(backend=None, indexed=True)
    )
    with psycopg.connect(own_place.app_dsn) as serving:
        serving.execute(f"set local app.org_id = '{ORG.decode()}'".encode())
        for statement in statements[:-1]:
            assert isinstance(statement, str)
            serving.execute(statement.encode())
        assert not isinstance(statements[-1], str)
        text = b"explain " + statements[-1].form.text
        plan = serving.pgconn.exec_params(text, [*statements[-1].parameters, ORG])
        lines = [(plan.get_value(n, 0) or b"").decode() for n in range(plan.ntuples)]
    assert any("Bitmap Index Scan on passage_words" in line for line in lines), "\n".join(lines)
    assert not any("Seq Scan on passage" in line for line in lines), "\n".join(lines)
