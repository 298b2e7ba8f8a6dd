"""What an examination finds of sign-ins: whether the issuer answers, as itself, with keys."""

from collections.abc import Iterator

from waybook.endpoints.issuer_examination import ExaminedIssuer, examine_issuer
from waybook.endpoints.issuer_settings import IssuerSettings, read_issuer
from waybook.errors import Misconfigured
from waybook.settings import Settings
from waybook.usecases.findings import Finding, State

SEE = "see docs/how-to/sign-in-with-your-identity-provider.md"


async def about_issuer(settings: Settings) -> list[Finding]:
    """Whether the settings fit together, and whether the issuer is there; it is asked now."""
    try:
        configured = read_issuer(settings)
    except Misconfigured as fault:
        return [Finding("sign-in", State.FAIL, fault.message, SEE)]
    if configured is None:
        said = "with API tokens alone" if settings.asks_everybody else "nobody is asked"
        return [Finding("sign-in", State.OK, said)]
    if not settings.asks_everybody:
        said = "oidc_issuer is set, but nobody is asked who they are"
        return [Finding("sign-in", State.WARN, said, "set auth to required, or take it away")]
    return [*_found(configured, await examine_issuer(configured.issuer))]


def _found(configured: IssuerSettings, seen: ExaminedIssuer) -> Iterator[Finding]:
    if seen.fault is not None:
        todo = "people cannot sign in there now; check oidc_issuer, to the letter, and the network"
        yield Finding("issuer", State.FAIL, f"{configured.issuer}: {seen.fault}", todo)
        return
    yield Finding("issuer", State.OK, f"{configured.issuer} answers, by this name")
    yield _keys(seen)
    yield _pages(configured, seen)


def _keys(seen: ExaminedIssuer) -> Finding:
    if seen.keys_fault is not None:
        return Finding("issuer keys", State.FAIL, seen.keys_fault, "no token of its counts now")
    said = f"{seen.usable} of {seen.published} can be used"
    if not seen.usable:
        todo = "have it sign with RS256, PS256, ES256, ES384 or EdDSA; RSA keys need 2,048 bits"
        return Finding("issuer keys", State.FAIL, said, todo)
    return Finding("issuer keys", State.OK, f"{said}: {', '.join(seen.algorithms)}")


def _pages(configured: IssuerSettings, seen: ExaminedIssuer) -> Finding:
    if configured.client_id is None:
        said = "agents sign in there, people with tokens: oidc_client_id is not set"
        return Finding("issuer pages", State.OK, said)
    if not seen.has_pages:
        said = "it does not say where people sign in, or not over https"
        return Finding("issuer pages", State.FAIL, said, SEE)
    return Finding("issuer pages", State.OK, "people sign in there too")
