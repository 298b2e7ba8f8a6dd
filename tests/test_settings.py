"""Settings: invalid values are refused at startup, and secrets are not shown."""

from pathlib import Path

import pytest

from waybook.errors import Misconfigured
from waybook.settings import Settings
from waybook.settings_reading import read_settings

ENDPOINT = {"WAYBOOK_MODEL_URL": "http://127.0.0.1:11434/v1", "WAYBOOK_MODEL": "m"}


def settings(environment: dict[str, str]) -> Settings:
    return read_settings({}, {"WAYBOOK_CONFIG": "/nowhere/config.toml", **environment}).settings


def test_model_endpoint_settings_load_url_model_and_key() -> None:
    loaded = settings({**ENDPOINT, "WAYBOOK_MODEL_KEY": "s3cret"})
    assert (loaded.model_url, loaded.model) == ("http://127.0.0.1:11434/v1", "m")
    assert loaded.model_key == "s3cret"


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"MODEL_URL": "127.0.0.1:11434"}, "model_url"),
        ({"MODEL_URL": "file:///etc/passwd"}, "model_url"),
        ({"MODEL_URL": "http://"}, "model_url"),
        ({"MODEL_URL": "https://ann:s3cret@models.example/v1"}, "model_key"),
        ({"MODEL_URL": "https://models.example/v1?key=s3cret"}, "model_key"),
        ({"MODEL": ""}, "set model"),
        ({"MODEL_KEY": "s3cret\n"}, "model_key"),
        ({"MODEL_KEY": "s3crét"}, "model_key"),
    ],
    ids=str,
)
def test_error_for_invalid_model_endpoint_hides_the_secret(
    changed: dict[str, str], named: str
) -> None:
    environment = {**ENDPOINT, **{f"WAYBOOK_{name}": value for name, value in changed.items()}}
    with pytest.raises(Misconfigured) as refused:
        settings(environment)
    assert named in refused.value.message
    assert "s3cr" not in refused.value.message


def test_settings_repr_hides_a_model_key_of_the_settings_file(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('model_url = "https://models.example/v1"\nmodel = "m"\nmodel_key = "s3cret"\n')
    loaded = read_settings({}, {}, file)
    assert loaded.settings.model_key == "s3cret"
    assert "s3cret" not in repr(loaded)


# Tests of URLs, webhooks and rate limits.


def test_base_url_setting_is_public_url_or_listening_address() -> None:
    assert settings({}).base_url == "http://127.0.0.1:8750"
    loaded = settings({"WAYBOOK_PUBLIC_URL": "https://plans.example/", "WAYBOOK_PORT": "9000"})
    assert (loaded.base_url, loaded.listen_url) == (
        "https://plans.example",
        "http://127.0.0.1:9000",
    )


@pytest.mark.parametrize("name", ["WEBHOOK_URL", "PUBLIC_URL"])
@pytest.mark.parametrize(
    "url",
    [
        *("file:///s3cret", "ftp://h/s3cret", "https://", "hooks.example/s3cret", "http://[s3cret"),
        *("http://h:s3cret/", "http://h:0/s3cret", "http://h/s3crét", "http://h/s3cret x"),
    ],
)
def test_invalid_url_setting_is_not_shown_in_the_error(name: str, url: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        settings({f"WAYBOOK_{name}": url})
    assert name.lower() in refused.value.message
    assert "s3cr" not in refused.value.message


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"WEBHOOK_URL": "http://h", "WEBHOOK_FORMAT": "fax"}, "webhook_format"),
        ({"WEBHOOK_URL": "http://h", "WEBHOOK_FORMAT": "standard:/texts"}, "only slack and text"),
        ({"WEBHOOK_SECRET": "s3cret"}, "set webhook_url"),
    ],
    ids=str,
)
def test_invalid_webhook_setting_is_not_shown_in_the_error(
    environment: dict[str, str], named: str
) -> None:
    with pytest.raises(Misconfigured) as refused:
        settings({f"WAYBOOK_{name}": value for name, value in environment.items()})
    assert named in refused.value.message
    assert "s3cret" not in refused.value.message


def test_settings_repr_hides_webhook_url_and_secret() -> None:
    loaded = settings(
        {"WAYBOOK_WEBHOOK_URL": "http://h/s3cret", "WAYBOOK_WEBHOOK_SECRET": "s3cret"}
    )
    assert "s3cret" not in repr(loaded)


def test_required_authentication_enables_the_default_rate_limit() -> None:
    server = {"WAYBOOK_AUTH": "required"}
    assert settings({}).effective_calls_per_second == 0
    assert settings(server).effective_calls_per_second == 60
    assert settings({**server, "WAYBOOK_CALLS_PER_SECOND": "0"}).effective_calls_per_second == 0
    assert settings({"WAYBOOK_CALLS_PER_SECOND": "7"}).effective_calls_per_second == 7


@pytest.mark.parametrize("rate", ["-1", "many"])
def test_invalid_rate_limit_setting_raises_misconfigured(rate: str) -> None:
    with pytest.raises(Misconfigured, match="calls_per_second"):
        settings({"WAYBOOK_CALLS_PER_SECOND": rate})


# Tests of access to the server.


def test_pages_setting_accepts_only_on_and_off() -> None:
    assert settings({}).pages == "on"
    assert settings({"WAYBOOK_PAGES": "off"}).pages == "off"
    with pytest.raises(Misconfigured, match="must be on or off"):
        settings({"WAYBOOK_PAGES": "yes"})


def test_listening_on_a_public_address_without_authentication_is_refused() -> None:
    assert settings({"WAYBOOK_HOST": "::1"}).auth == "none"
    for host in ("0.0.0.0", "::", "192.168.1.5", "plans.example"):  # noqa: S104 - to be refused
        with pytest.raises(Misconfigured) as refused:
            settings({"WAYBOOK_HOST": host})
        assert "--auth required" in refused.value.message
        assert "waybook token add" in refused.value.message
        open_to_all = {"WAYBOOK_HOST": host, "WAYBOOK_AUTH": "required"}
        assert settings(open_to_all).requires_auth


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({}, {"127.0.0.1:8750"}),
        ({"PUBLIC_URL": "https://Plans.example/"}, {"plans.example"}),
        ({"PUBLIC_URL": "https://plans.example:443"}, {"plans.example"}),
        ({"PUBLIC_URL": "http://plans.example:8080"}, {"plans.example:8080"}),
        ({"AUTH": "required", "HOST": "0.0.0.0"}, set()),  # noqa: S104 - not a host name
        (
            {"AUTH": "required", "HOST": "0.0.0.0", "ALLOWED_HOSTS": "a.lan:1, B ,"},  # noqa: S104
            {"a.lan:1", "b"},
        ),
        ({"AUTH": "required", "HOST": "192.168.1.5", "PORT": "80"}, {"192.168.1.5"}),
    ],
    ids=lambda value: str(value if isinstance(value, dict) else sorted(value)),
)
def test_allowed_hosts_are_those_of_the_configured_addresses(
    environment: dict[str, str], names: set[str]
) -> None:
    loaded = settings({f"WAYBOOK_{name}": value for name, value in environment.items()})
    assert loaded.host_names == names


@pytest.mark.parametrize(
    "environment",
    [
        {"AUTH": "maybe"},
        {"METRICS_TOKEN": "short-s3cret"},
        {"METRICS_TOKEN": "s3cret\nof two lines long"},
        {"METRICS_TOKEN": "s3crét that is long enough"},
    ],
    ids=str,
)
def test_invalid_auth_or_metrics_token_setting_raises_misconfigured(
    environment: dict[str, str],
) -> None:
    with pytest.raises(Misconfigured) as refused:
        settings({f"WAYBOOK_{name}": value for name, value in environment.items()})
    assert "s3cr" not in refused.value.message
    assert "METRICS" not in environment or "metrics_token" in refused.value.message


def test_settings_repr_hides_tokens() -> None:
    environment = {"WAYBOOK_TOKEN": "wb_s3cret", "WAYBOOK_METRICS_TOKEN": "s3cret-for-figures"}
    assert "s3cret" not in repr(settings(environment))


@pytest.mark.parametrize("name", ["DATABASE_URL", "OWNER_URL"])
def test_settings_repr_hides_database_urls(name: str) -> None:
    environment = {"WAYBOOK_DATABASE_URL": "postgresql://serving@db1/waybook"}
    environment |= {f"WAYBOOK_{name}": "postgresql://serving:s3cret@db1/waybook"}
    assert "s3cret" not in repr(settings(environment))
