"""Checks of an OpenID Connect issuer by `waybook doctor`, over real sockets."""

from collections.abc import AsyncIterator

import pytest

from fake_endpoint import fake_endpoint, never_respond
from fake_issuer import FakeIssuer, fake_issuer, make_key, rsa_key
from sign_in_env import server_settings
from waybook.app.operations.checks import CheckResult, CheckState
from waybook.app.operations.diagnostics import check_issuer_settings
from waybook.integrations import oidc_issuer
from waybook.settings import Settings


@pytest.fixture
async def there() -> AsyncIterator[FakeIssuer]:
    async with fake_issuer() as made:
        yield made


async def checks_by_name(there: FakeIssuer, **more: object) -> dict[str, CheckResult]:
    findings = await check_issuer_settings(server_settings(there, **more))
    assert "hush hush" not in str(findings)
    return {result.name: result for result in findings}


async def test_issuer_check_reports_ok_and_usable_keys_of_reachable_issuer(
    there: FakeIssuer,
) -> None:
    there.keys = [make_key("ES256"), make_key("RS256")]
    seen = await checks_by_name(there)
    assert {result.state for result in seen.values()} == {CheckState.OK}
    assert there.url in seen["issuer"].message
    assert seen["issuer keys"].message == "2 of 2 can be used: ES256, RS256"
    assert seen["issuer pages"].message == "browser sign-in enabled"
    assert there.request_counts == {"openid-configuration": 1, "jwks": 1}


async def test_issuer_check_accepts_plain_oauth_metadata(there: FakeIssuer) -> None:
    there.plain_oauth = True
    assert (await checks_by_name(there))["issuer"].state is CheckState.OK


async def test_issuer_check_shows_configured_and_published_issuer_if_different(
    there: FakeIssuer,
) -> None:
    seen = await checks_by_name(there, oidc_issuer=f"{there.url}/")
    assert list(seen) == ["issuer"]
    assert seen["issuer"].state is CheckState.FAIL
    assert seen["issuer"].message.startswith(f"{there.url}/: it names itself {there.url}, which")
    assert "oidc_issuer" in str(seen["issuer"].remedy)


async def test_issuer_check_fails_if_issuer_is_down_or_unreachable(there: FakeIssuer) -> None:
    there.down = True
    assert "503" in (await checks_by_name(there))["issuer"].message
    seen = await checks_by_name(there, oidc_issuer="http://127.0.0.1:1")
    assert (seen["issuer"].state, "cannot be reached" in seen["issuer"].message) == (
        CheckState.FAIL,
        True,
    )


async def test_issuer_check_fails_after_timeout_without_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(oidc_issuer, "SECONDS", 0.05)
    async with fake_endpoint(never_respond) as silent:
        [result] = await check_issuer_settings(server_settings(FakeIssuer(url=silent.url)))
    assert result.state is CheckState.FAIL
    assert "within 0.05 s" in result.message


@pytest.mark.parametrize(
    "published",
    [
        {"keys": []},
        {},
        [],
        {"keys": [{"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}]},
        {"keys": [make_key("ES256").published(use="enc")]},
    ],
    ids=["none", "nothing", "no object", "a shared secret", "for another use"],
)
async def test_issuer_check_fails_without_usable_key(there: FakeIssuer, published: object) -> None:
    there.published = published
    seen = await checks_by_name(there)
    assert seen["issuer"].state is CheckState.OK
    assert seen["issuer keys"].state is CheckState.FAIL
    assert "0 of" in seen["issuer keys"].message
    assert "RS256" in str(seen["issuer keys"].remedy)


async def test_issuer_check_counts_short_keys_as_unusable(there: FakeIssuer) -> None:
    short = make_key("RS256")
    short.private = rsa_key(1024)
    there.keys = [short, make_key("EdDSA")]
    assert (await checks_by_name(there))["issuer keys"].message == "1 of 2 can be used: EdDSA"


async def test_sign_in_check_fails_for_insecure_authorization_endpoint(
    there: FakeIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = {**there.about(), "authorization_endpoint": "http://id.example.org/authorize"}
    monkeypatch.setattr(there, "about", lambda: metadata)
    assert (await checks_by_name(there))["issuer pages"].state is CheckState.FAIL
    agents = await checks_by_name(there, oidc_client_id=None, oidc_client_secret=None)
    assert agents["issuer pages"].state is CheckState.OK


async def test_issuer_check_sends_no_request_without_complete_configuration(
    there: FakeIssuer,
) -> None:
    for settings, state in (
        (Settings(), CheckState.OK),
        (Settings(auth="required"), CheckState.OK),
        (server_settings(there, auth="none"), CheckState.WARN),
        (server_settings(there, oidc_org=None), CheckState.FAIL),
    ):
        [result] = await check_issuer_settings(settings)
        assert (result.name, result.state) == ("sign-in", state)
    assert not there.request_counts
