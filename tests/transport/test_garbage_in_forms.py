"""Arbitrary values in form fields get a defined answer, never a 500."""

from itertools import product

from database_fixtures import ON_POSTGRES_18
from org_env import OrgEnv
from transport.page_client import FORM_TOKEN, make_browser
from transport.valid_forms import valid_forms

pytestmark = ON_POSTGRES_18

GARBAGE = ("", "a\0b", "9" * 5_000, "-1", "²", "٣" * 5_000, "é" * 2_000)
#: Forms with valid field names and with values that contain NUL characters, which PostgreSQL does
#: not accept in texts.
OF_TOKENS = (
    {"act": "disable", "user": "an\0n"},
    {"act": "create", "user": "\0", "label": "x", "scope": "plan:read", "days": "9" * 5_000},
    {"act": "revoke", "id": "\0", "confirmed": "yes"},
)


async def test_form_fields_with_garbage_never_cause_server_error(world: OrgEnv) -> None:
    forms = list((await valid_forms(world.agent)).values())
    forms += [("/tokens", fields) for fields in OF_TOKENS]
    async with make_browser(world.agent) as browser:
        match = FORM_TOKEN.search((await browser.get("/tokens")).text)
        assert match
        for at, sound in forms:
            for name, garbage in product(sound, GARBAGE):
                fields = {"token": match[1], **sound, name: garbage}
                reply = await browser.post(at, data=fields)
                assert reply.status_code < 500, (at, name, garbage[:10])
