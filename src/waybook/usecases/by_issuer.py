"""Who is calling, by the word of the issuer that they signed in with."""

import logging
from datetime import datetime

from waybook.endpoints.issued import (
    Claims,
    IssuedIdentity,
    IssuerClient,
    check_times,
    identity_from_claims,
)
from waybook.errors import Forbidden, InvalidInput, Unauthenticated
from waybook.orgs.manage import NewUser
from waybook.orgs.secret import PREFIX
from waybook.record.moment import Channel
from waybook.record.scopes import Scope, expand_scopes
from waybook.store import members
from waybook.store.members import Member, MemberLookup
from waybook.usecases.call import RequestContext
from waybook.usecases.exchange import Caller
from waybook.usecases.house import Services
from waybook.usecases.identify import authenticate_token
from waybook.usecases.manage_users import add_user

log = logging.getLogger(__name__)

#: As whom the audit knows whoever let a new user in.
SIGN_IN_ACTOR = "sign-in"


async def authenticate_bearer(
    services: Services, issuer: IssuerClient | None, secret: str, channel: Channel
) -> Caller:
    """Whoever shows this secret: a token of ours, or one of the issuer's.

    Raises:
        Unidentified: it does not count; why is told to the log alone.
        Unavailable: that cannot be found out now.
        Forbidden: it counts, but lets its bearer do nothing here.
    """
    if issuer is None or secret.startswith(PREFIX):
        return await authenticate_token(services, secret, channel)
    try:
        return await authenticate_issuer_token(services, issuer, secret, channel)
    except Unauthenticated as error:
        log.info("an access token was refused: %s", error.message)
        raise Unauthenticated from None


async def authenticate_issuer_token(
    services: Services, issuer: IssuerClient, text: str, channel: Channel
) -> Caller:
    """Whoever shows this access token, coming through this door.

    Raises:
        Unidentified: it does not count here.
        Unavailable: that cannot be found out now.
        Forbidden: it counts, but lets its bearer do nothing here.
    """
    now = await database_time(services)
    claims = await issuer.claims(text, audience=issuer.settings.audience, now=now)
    who = identity_from_claims(claims, issuer.settings)
    looked, member = await find_or_create_member(services, issuer, claims, channel)
    scopes = expand_scopes(who.scopes) & expand_scopes(member.scopes)
    if not scopes:
        raise Forbidden(
            "this access token lets its bearer do nothing here; ask the issuer for one with a "
            f"scope of ours: {', '.join(Scope)}",
            needed=[str(scope) for scope in Scope],
            granted=[],
        )
    return Caller(
        org_id=looked.org_id,
        user=member.name,
        channel=channel,
        scopes=scopes,
        # A program that acts for a person is not that person. Their subject is not told: it could
        # not be taken back where they are erased.
        credential=f"client:{who.client}:{member.user_id}",
    )


async def find_or_create_member(
    services: Services, issuer: IssuerClient, claims: Claims, channel: Channel
) -> tuple[MemberLookup, Member]:
    """The user somebody is, made at first sight if that is allowed.

    Raises:
        Unidentified: there is no such org, or they may not come in.
    """
    who = identity_from_claims(claims, issuer.settings)
    looked = await _look(services, issuer, who)
    check_times(claims, looked.now)
    if looked.member is None:
        await _let_in(services, issuer, who, looked, channel)
        looked = await _look(services, issuer, who)
    if looked.member is None or looked.member.is_disabled:
        raise Unauthenticated("that user may not come in")
    return looked, looked.member


async def database_time(services: Services) -> datetime:
    """What time it is at the database; asked only if it has not said a word yet."""
    told = services.database.now()
    if told is None:
        (((told,),),) = await services.database.read_global("select app_now()")
    return told


async def _look(services: Services, issuer: IssuerClient, who: IssuedIdentity) -> MemberLookup:
    asked = members.member_statements(who.org, issuer.settings.issuer, who.subject)
    found = members.read_member((await services.database.read_by_slug(who.org, *asked))[-1])
    if found is None:
        raise Unauthenticated("there is no such org")
    return found


async def _let_in(
    services: Services,
    issuer: IssuerClient,
    who: IssuedIdentity,
    looked: MemberLookup,
    channel: Channel,
) -> None:
    """Make somebody a user of their org; if another has their name, they get a longer one."""
    scopes = issuer.settings.new_user_scopes
    if scopes is None:
        raise Unauthenticated("nobody has let that user in")
    doorkeeper = Caller(
        org_id=looked.org_id,
        user=SIGN_IN_ACTOR,
        channel=channel,
        scopes=frozenset({Scope.ADMIN}),
        credential=f"issuer:{issuer.settings.issuer}",
    )
    call = RequestContext(services=services, caller=doorkeeper)
    for name in (who.name, f"{who.name[:80]} ({who.subject[:100]})"):
        new = NewUser(
            name=name,
            scopes=tuple(scopes),
            email=who.email,
            issuer=issuer.settings.issuer,
            subject=who.subject,
        )
        try:
            await add_user(call, new)
        except InvalidInput:
            # Somebody has the name; or they came twice at once, and are let in already.
            if (await _look(services, issuer, who)).member is not None:
                return
            continue
        return
