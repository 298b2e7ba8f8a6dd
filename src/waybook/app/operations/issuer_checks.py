"""Checks of sign-in: the settings, and the issuer's identity and keys."""

from collections.abc import Iterator

from waybook.app.operations.diagnostics import CheckResult, CheckState
from waybook.errors import Misconfigured
from waybook.integrations.config import IssuerSettings, issuer_from_settings
from waybook.integrations.oidc_discovery import IssuerCheck, check_issuer
from waybook.settings import Settings

DOCS_HINT = "see docs/how-to/sign-in-with-your-identity-provider.md"


async def check_issuer_settings(settings: Settings) -> list[CheckResult]:
    """Return results about the sign-in settings and the issuer, which is contacted now."""
    try:
        configured = issuer_from_settings(settings)
    except Misconfigured as error:
        return [CheckResult("sign-in", CheckState.FAIL, error.message, DOCS_HINT)]
    if configured is None:
        said = "with API tokens alone" if settings.requires_auth else "nobody is asked"
        return [CheckResult("sign-in", CheckState.OK, said)]
    if not settings.requires_auth:
        said = "oidc_issuer is set, but nobody is asked who they are"
        return [
            CheckResult("sign-in", CheckState.WARN, said, "set auth to required, or take it away")
        ]
    return [*_found(configured, await check_issuer(configured.issuer))]


def _found(configured: IssuerSettings, seen: IssuerCheck) -> Iterator[CheckResult]:
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
            "issuer keys", CheckState.FAIL, seen.keys_fault, "no token of its counts now"
        )
    said = f"{seen.usable} of {seen.published} can be used"
    if not seen.usable:
        todo = "have it sign with RS256, PS256, ES256, ES384 or EdDSA; RSA keys need 2,048 bits"
        return CheckResult("issuer keys", CheckState.FAIL, said, todo)
    return CheckResult("issuer keys", CheckState.OK, f"{said}: {', '.join(seen.algorithms)}")


def _pages(configured: IssuerSettings, seen: IssuerCheck) -> CheckResult:
    if configured.client_id is None:
        said = "agents sign in there, people with tokens: oidc_client_id is not set"
        return CheckResult("issuer pages", CheckState.OK, said)
    if not seen.has_pages:
        said = "it does not say where people sign in, or not over https"
        return CheckResult("issuer pages", CheckState.FAIL, said, DOCS_HINT)
    return CheckResult("issuer pages", CheckState.OK, "people sign in there too")
