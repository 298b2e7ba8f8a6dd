"""Invalid settings are refused at the start, and secrets stay secret."""

from pathlib import Path

import pytest

from waybook.errors import Misconfigured
from waybook.settings import Settings
from waybook.settings_reading import read_settings

ENDPOINT = {"WAYBOOK_MODEL_URL": "http://127.0.0.1:11434/v1", "WAYBOOK_MODEL": "m"}


def settings(environment: dict[str, str]) -> Settings:
    return read_settings({}, {"WAYBOOK_CONFIG": "/nowhere/config.toml", **environment}).settings


def test_without_an_endpoint_nothing_is_asked_of_its_settings() -> None:
    found = settings({})
    assert (found.model_url, found.model_api, found.model_seconds) == (None, "openai", 55)


def test_an_endpoint_needs_an_address_and_a_model() -> None:
    found = settings({**ENDPOINT, "WAYBOOK_MODEL_KEY": "s3cret", "WAYBOOK_MODEL_SECONDS": "20"})
    assert (found.model_url, found.model) == ("http://127.0.0.1:11434/v1", "m")
    assert (found.model_key, found.model_seconds) == ("s3cret", 20)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"MODEL_URL": "127.0.0.1:11434"}, "model_url"),
        ({"MODEL_URL": "file:///etc/passwd"}, "model_url"),
        ({"MODEL_URL": "http://"}, "model_url"),
        ({"MODEL_URL": "https://ann:s3cret@models.example/v1"}, "model_key"),
        ({"MODEL_URL": "https://models.example/v1?key=s3cret"}, "model_key"),
        ({"MODEL": ""}, "set model"),
        ({"MODEL_API": "telepathy"}, "openai or anthropic"),
        ({"MODEL_SECONDS": "0"}, "model_seconds"),
        ({"MODEL_SECONDS": "4000"}, "model_seconds"),
        ({"MODEL_SECONDS": "long"}, "model_seconds"),
        ({"MODEL_KEY": "s3cret\n"}, "model_key"),
        ({"MODEL_KEY": "s3crét"}, "model_key"),
    ],
    ids=str,
)
def test_what_cannot_work_is_named_and_no_secret_told(changed: dict[str, str], named: str) -> None:
    given = {**ENDPOINT, **{f"WAYBOOK_{name}": value for name, value in changed.items()}}
    with pytest.raises(Misconfigured) as refused:
        settings(given)
    assert named in refused.value.message
    assert "s3cr" not in refused.value.message


def test_a_key_may_stand_in_the_file_and_is_not_printed(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('model_url = "https://models.example/v1"\nmodel = "m"\nmodel_key = "s3cret"\n')
    found = read_settings({}, {}, file)
    assert found.settings.model_key == "s3cret"
    assert "s3cret" not in repr(found)


# Webhooks


def test_links_begin_with_where_people_reach_the_server() -> None:
    assert settings({}).base_url == "http://127.0.0.1:8750"
    found = settings({"WAYBOOK_PUBLIC_URL": "https://plans.example/", "WAYBOOK_PORT": "9000"})
    assert (found.base_url, found.listen_url) == ("https://plans.example", "http://127.0.0.1:9000")


@pytest.mark.parametrize("name", ["WEBHOOK_URL", "PUBLIC_URL"])
@pytest.mark.parametrize(
    "url",
    [
        *("file:///s3cret", "ftp://h/s3cret", "https://", "hooks.example/s3cret", "http://[s3cret"),
        *("http://h:s3cret/", "http://h:0/s3cret", "http://h/s3crét", "http://h/s3cret x"),
    ],
)
def test_an_address_is_one_of_http_and_is_not_told(name: str, url: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        settings({f"WAYBOOK_{name}": url})
    assert name.lower() in refused.value.message
    assert "s3cr" not in refused.value.message


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"WEBHOOK_URL": "http://h", "WEBHOOK_FORMAT": "fax"}, "webhook_format"),
        ({"WEBHOOK_SECRET": "s3cret"}, "set webhook_url"),
    ],
    ids=str,
)
def test_a_webhook_that_cannot_work_is_named(given: dict[str, str], named: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        settings({f"WAYBOOK_{name}": value for name, value in given.items()})
    assert named in refused.value.message
    assert "s3cret" not in refused.value.message


def test_neither_address_nor_secret_is_printed() -> None:
    found = settings({"WAYBOOK_WEBHOOK_URL": "http://h/s3cret", "WAYBOOK_WEBHOOK_SECRET": "s3cret"})
    assert "s3cret" not in repr(found)


def test_in_server_mode_an_org_is_held_to_a_pace_unless_it_is_said_otherwise() -> None:
    server = {"WAYBOOK_AUTH": "required"}
    assert (settings({}).effective_calls_per_second, settings({}).burst) == (0, 120)
    assert (settings(server).effective_calls_per_second, settings(server).burst) == (60, 120)
    assert settings({**server, "WAYBOOK_CALLS_PER_SECOND": "0"}).effective_calls_per_second == 0
    assert (
        settings(
            {"WAYBOOK_CALLS_PER_SECOND": "7", "WAYBOOK_BURST": "10"}
        ).effective_calls_per_second
        == 7
    )


@pytest.mark.parametrize("given", [{"CALLS_PER_SECOND": "-1"}, {"BURST": "0"}, {"BURST": "many"}])
def test_a_pace_that_cannot_be_kept_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(Misconfigured, match="burst"):
        settings({f"WAYBOOK_{name}": value for name, value in given.items()})


# Access


def test_this_machine_alone_is_served_where_nobody_is_asked() -> None:
    assert settings({"WAYBOOK_HOST": "::1"}).auth == "none"
    for host in ("0.0.0.0", "::", "192.168.1.5", "plans.example"):  # noqa: S104 - to be refused
        with pytest.raises(Misconfigured) as refused:
            settings({"WAYBOOK_HOST": host})
        assert "--auth required" in refused.value.message
        assert "waybook token add" in refused.value.message
        open_to_all = {"WAYBOOK_HOST": host, "WAYBOOK_AUTH": "required"}
        assert settings(open_to_all).requires_auth


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, {"127.0.0.1:8750"}),
        ({"PUBLIC_URL": "https://Plans.example/"}, {"plans.example"}),
        ({"PUBLIC_URL": "https://plans.example:443"}, {"plans.example"}),
        ({"PUBLIC_URL": "http://plans.example:8080"}, {"plans.example:8080"}),
        ({"AUTH": "required", "HOST": "0.0.0.0"}, set()),  # noqa: S104 - nobody's name
        (
            {"AUTH": "required", "HOST": "0.0.0.0", "ALLOWED_HOSTS": "a.lan:1, B ,"},  # noqa: S104
            {"a.lan:1", "b"},
        ),
        ({"AUTH": "required", "HOST": "192.168.1.5", "PORT": "80"}, {"192.168.1.5"}),
    ],
    ids=lambda told: str(told if isinstance(told, dict) else sorted(told)),
)
def test_the_server_answers_to_the_names_it_was_told(
    given: dict[str, str], names: set[str]
) -> None:
    found = settings({f"WAYBOOK_{name}": value for name, value in given.items()})
    assert found.host_names == names


@pytest.mark.parametrize(
    "given",
    [
        {"AUTH": "maybe"},
        {"METRICS_TOKEN": "short-s3cret"},
        {"METRICS_TOKEN": "s3cret\nof two lines long"},
        {"METRICS_TOKEN": "s3crét that is long enough"},
    ],
    ids=str,
)
def test_what_lets_in_too_many_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(Misconfigured) as refused:
        settings({f"WAYBOOK_{name}": value for name, value in given.items()})
    assert "s3cr" not in refused.value.message
    assert "METRICS" not in given or "metrics_token" in refused.value.message


def test_tokens_are_not_printed() -> None:
    given = {"WAYBOOK_TOKEN": "wb_s3cret", "WAYBOOK_METRICS_TOKEN": "s3cret-for-figures"}
    assert "s3cret" not in repr(settings(given))
