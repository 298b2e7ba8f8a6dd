"""An org in our hands: locked, so that its users and tokens are changed one after the other."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from waybook.orgs.manage import record_org
from waybook.orgs.model import Org
from waybook.record.changes import Entry
from waybook.record.moment import Moment
from waybook.record.scopes import Scope
from waybook.store import identities, ledger, org_ledger
from waybook.store.database import Results
from waybook.store.sql import Statement
from waybook.usecases.call import Call, Opened
from waybook.usecases.permission import require


@dataclass(frozen=True, slots=True)
class HeldOrg:
    opened: Opened
    loaded: identities.LoadedOrg

    @property
    def org(self) -> Org:
        return self.loaded.org

    @property
    def now(self) -> datetime:
        return self.loaded.head.after(self.opened.now)

    @property
    def moment(self) -> Moment:
        """What the rules are told of the world."""
        return self.opened.moment._replace(now=self.now)

    @property
    def found(self) -> Results:
        """What else was asked for."""
        return self.opened.found[2:]

    async def write(self, *entries: Entry, org: Org | None = None) -> None:
        """Write what these entries account for, and commit.

        `org` is how the org is from now on, if that is otherwise.
        """
        head = self.loaded.head
        # A chain begins with how the org stood before.
        first = () if head.seq else (record_org(self.org, self.moment),)
        hand = ledger.Hand(now=self.now, actor=self.moment.actor, head=head)
        written = org_ledger.statements(org or self.org, (*first, *entries), hand)
        await self.opened.tx.commit(*written)


@asynccontextmanager
async def held_org(call: Call, *statements: Statement) -> AsyncIterator[HeldOrg]:
    """The caller's org, locked, and what these statements find.

    Raises:
        Forbidden: the caller does not look after it.
    """
    require(call.caller, Scope.ADMIN, "changing users and tokens")
    lock = (identities.SQL["lock_org"](), identities.SQL["last_entry_of_org"]())
    async with call.open(*lock, *statements) as opened:
        yield HeldOrg(opened, identities.read_org(opened.found[0], opened.found[1]))
