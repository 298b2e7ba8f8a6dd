"""Checks of the sign-in settings, and of the issuer's identity and keys."""

from collections.abc import Iterator

from waybook.app.operations.checks import CheckResult, CheckState
from waybook.errors import Misconfigured
from waybook.integrations.config import IssuerSettings, issuer_from_settings
from waybook.integrations.oidc_discovery import IssuerCheck, check_issuer
from waybook.settings import Settings

DOCS_HINT = "see docs/how-to/sign-in-with-your-identity-provider.md"


async def check_issuer_settings(settings: Settings) -> list[CheckResult]:
    try:
        configured = issuer_from_settings(settings)
    except Misconfigured as error:
        return [CheckResult("sign-in", CheckState.FAIL, error.message, DOCS_HINT)]
    if configured is None:
        message = "API tokens only" if settings.requires_auth else "disabled (local mode)"
        return [CheckResult("sign-in", CheckState.OK, message)]
    if not settings.requires_auth:
        message = "oidc_issuer is set, but authentication is disabled"
        return [
            CheckResult(
                "sign-in", CheckState.WARN, message, "set auth to required or remove oidc_issuer"
            )
        ]
    return [*_describe_issuer(configured, await check_issuer(configured.issuer))]


def _describe_issuer(configured: IssuerSettings, seen: IssuerCheck) -> Iterator[CheckResult]:
    if seen.error is not None:
        todo = "people cannot sign in there now; check oidc_issuer, to the letter, and the network"
        yield CheckResult("issuer", CheckState.FAIL, f"{configured.issuer}: {seen.error}", todo)
        return
    yield CheckResult("issuer", CheckState.OK, f"{configured.issuer} answers, by this name")
    yield _keys(seen)
    yield _pages(configured, seen)


def _keys(seen: IssuerCheck) -> CheckResult:
    if seen.keys_fault is not None:
        return CheckResult(
            "issuer keys",
            CheckState.FAIL,
            seen.keys_fault,
            "tokens of this issuer are rejected until keys can be fetched",
        )
    message = f"{seen.usable} of {seen.published} can be used"
    if not seen.usable:
        todo = "have it sign with RS256, PS256, ES256, ES384 or EdDSA; RSA keys need 2,048 bits"
        return CheckResult("issuer keys", CheckState.FAIL, message, todo)
    return CheckResult("issuer keys", CheckState.OK, f"{message}: {', '.join(seen.algorithms)}")


def _pages(configured: IssuerSettings, seen: IssuerCheck) -> CheckResult:
    if configured.client_id is None:
        message = "agents only; browser sign-in needs oidc_client_id"
        return CheckResult("issuer pages", CheckState.OK, message)
    if not seen.has_pages:
        message = "it does not say where people sign in, or not over https"
        return CheckResult("issuer pages", CheckState.FAIL, message, DOCS_HINT)
    return CheckResult("issuer pages", CheckState.OK, "browser sign-in enabled")
