"""One process per data directory serves the dashboard, and records its URL in the directory."""

import json
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from waybook.embedded_postgres.data_directory import ControlDirectory
from waybook.page_address import (
    PageClaim,
    can_serve_pages,
    current_base_url,
    find_page_server,
)
from waybook.settings import Settings

URL = "http://127.0.0.1:4321"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data")


@pytest.fixture
def make_claim(settings: Settings) -> Iterator[Callable[[], PageClaim]]:
    claims: list[PageClaim] = []

    def make() -> PageClaim:
        claims.append(PageClaim(settings, "waybook test"))
        return claims[-1]

    yield make
    for claim in claims:
        claim.close()


def test_a_single_process_at_a_time_can_serve_the_dashboard(
    make_claim: Callable[[], PageClaim],
) -> None:
    first, second = make_claim(), make_claim()
    assert first.try_take()
    assert first.try_take()
    assert not second.try_take()
    first.close()
    first.close()
    assert second.try_take()


def test_base_url_is_the_recorded_url_while_a_process_serves_dashboard(
    settings: Settings, make_claim: Callable[[], PageClaim]
) -> None:
    claim = make_claim()
    assert current_base_url(settings) == settings.base_url
    assert claim.try_take()
    assert find_page_server(settings) is None
    claim.record(URL)
    assert current_base_url(settings) == URL
    assert make_claim().last_port == 4321
    claim.close()
    assert current_base_url(settings) == settings.base_url
    assert make_claim().last_port == 4321


def test_dashboard_address_file_is_readable_by_owner_only(
    settings: Settings, make_claim: Callable[[], PageClaim]
) -> None:
    make_claim().record(URL)
    control_dir = ControlDirectory(settings.data_dir)
    assert stat.S_IMODE(control_dir.pages_record.stat().st_mode) == 0o600
    assert stat.S_IMODE(control_dir.directory.stat().st_mode) == 0o700
    assert [path.name for path in control_dir.directory.iterdir()] == ["pages.json"]


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "7", '{"url": 7, "command": "", "pid": 1}', '{"url": "http://127.0.0.1:1"}'],
)
def test_invalid_dashboard_address_file_is_ignored(
    settings: Settings, make_claim: Callable[[], PageClaim], content: str
) -> None:
    claim = make_claim()
    assert claim.try_take()
    ControlDirectory(settings.data_dir).pages_record.write_text(content)
    assert find_page_server(settings) is None
    assert claim.last_port is None


def test_invalid_port_in_the_dashboard_address_is_ignored(
    settings: Settings, make_claim: Callable[[], PageClaim]
) -> None:
    record = {"url": "http://127.0.0.1:99999", "command": "waybook mcp", "pid": 1}
    claim = make_claim()
    ControlDirectory(settings.data_dir).pages_record.write_text(json.dumps(record))
    assert claim.last_port is None


@pytest.mark.parametrize(
    "elsewhere", [{"database_url": "postgresql://db/x"}, {"public_url": "https://plans.example"}]
)
def test_configured_url_overrides_the_recorded_dashboard_address(
    settings: Settings, make_claim: Callable[[], PageClaim], elsewhere: dict[str, str]
) -> None:
    claim = make_claim()
    assert claim.try_take()
    claim.record(URL)
    configured = Settings(data_dir=settings.data_dir, **elsewhere)  # type: ignore[arg-type]  # settings as texts
    assert current_base_url(configured) == configured.base_url


def test_second_server_records_an_address_when_the_first_ends(
    make_claim: Callable[[], PageClaim],
) -> None:
    first, second, stdio = make_claim(), make_claim(), make_claim()
    assert not stdio.is_server_running()
    assert first.try_record_server(URL)
    assert stdio.is_server_running()
    second.wait_for_handover()
    assert not second.try_record_server("http://127.0.0.1:4322")
    with closing(first):
        assert stdio.last_port == 4321
    assert not stdio.is_server_running()
    assert second.try_record_server("http://127.0.0.1:4322")
    assert (stdio.is_server_running(), stdio.last_port) == (True, 4322)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, True),
        ({"pages": "off"}, False),
        ({"database_url": "postgresql://db/x"}, False),
        ({"public_url": "https://plans.example"}, False),
        ({"token": "wb_x"}, False),
        ({"auth": "required"}, False),
    ],
)
def test_stdio_process_serves_dashboard_pages_only_with_local_settings(
    changed: dict[str, str], *, expected: bool
) -> None:
    assert can_serve_pages(Settings(**changed)) is expected  # type: ignore[arg-type]  # settings as texts
