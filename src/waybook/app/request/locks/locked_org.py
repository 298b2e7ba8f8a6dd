"""The caller's org, locked while its users and tokens change."""

from typing import NamedTuple

from waybook.accounts.manage import record_org
from waybook.accounts.model import Org
from waybook.app.request.caller import require_scope
from waybook.app.request.locks.locking import Locked, Proposal, Written
from waybook.app.request.request_context import RequestContext
from waybook.core.changes import Entry
from waybook.core.decision_context import Scope
from waybook.store.accounts import accounts
from waybook.store.accounts import accounts as org_writer
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Transaction
from waybook.store.driver.queries import Statement


class OrgDecision(NamedTuple):
    entries: tuple[Entry, ...]
    #: The org after the change. None if only users and tokens change.
    org: Org | None = None


class LockedOrg(Locked[OrgDecision]):
    org: Org

    def __init__(self, ctx: RequestContext, *more: Statement) -> None:
        require_scope(ctx.caller, Scope.ADMIN, "changing users and tokens")
        lock = (accounts.SQL["lock_org"](), accounts.SQL["last_entry_of_org"]())
        super().__init__(ctx, *lock, *more)

    async def read(self, results: Results, tx: Transaction) -> None:
        await super().read(results, tx)
        rows, last, *self.results = self.results
        self.org, self.head = accounts.read_org(rows, last)
        self.now = self.head.after(self.now)

    def written(self, proposal: Proposal[OrgDecision]) -> Written:
        entries, org = proposal.decision
        if not self.head.seq:  # The first audit entry of an org records the org itself.
            entries = (record_org(self.org, self.decision_context), *entries)
        return Written(org_writer.statements(org or self.org, entries, self.write_context))
