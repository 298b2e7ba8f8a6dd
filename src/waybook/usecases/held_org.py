"""An org in our hands: locked, so that its users and tokens are changed one after the other."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from waybook.orgs.manage import record_org
from waybook.orgs.model import Org
from waybook.record.changes import Entry
from waybook.record.moment import DecisionContext
from waybook.record.scopes import Scope
from waybook.store import identities, ledger, org_ledger
from waybook.store.database import Results
from waybook.store.sql import Statement
from waybook.usecases.call import OpenTransaction, RequestContext
from waybook.usecases.permission import require_scope


@dataclass(frozen=True, slots=True)
class LockedOrg:
    opened: OpenTransaction
    loaded: identities.LoadedOrg

    @property
    def org(self) -> Org:
        return self.loaded.org

    @property
    def now(self) -> datetime:
        return self.loaded.head.after(self.opened.now)

    @property
    def decision_context(self) -> DecisionContext:
        """What the rules are told of the world."""
        return self.opened.decision_context._replace(now=self.now)

    @property
    def results(self) -> Results:
        """What else was asked for."""
        return self.opened.results[2:]

    async def write(self, *entries: Entry, org: Org | None = None) -> None:
        """Write what these entries account for, and commit.

        `org` is how the org is from now on, if that is otherwise.
        """
        head = self.loaded.head
        # A chain begins with how the org stood before.
        first = () if head.seq else (record_org(self.org, self.decision_context),)
        write_context = ledger.WriteContext(
            now=self.now, actor=self.decision_context.actor, head=head
        )
        written = org_ledger.statements(org or self.org, (*first, *entries), write_context)
        await self.opened.tx.commit(*written)


@asynccontextmanager
async def lock_org(ctx: RequestContext, *statements: Statement) -> AsyncIterator[LockedOrg]:
    """The caller's org, locked, and what these statements find.

    Raises:
        Forbidden: the caller does not look after it.
    """
    require_scope(ctx.caller, Scope.ADMIN, "changing users and tokens")
    lock = (identities.SQL["lock_org"](), identities.SQL["last_entry_of_org"]())
    async with ctx.begin(*lock, *statements) as opened:
        yield LockedOrg(opened, identities.read_org(opened.results[0], opened.results[1]))
