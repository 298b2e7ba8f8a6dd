"""Request context of a page that is read from a read replica."""

from dataclasses import dataclass

from waybook.app.request.request_context import RequestContext
from waybook.store.driver.connection import Results
from waybook.store.driver.credential_check import pending_check
from waybook.store.driver.queries import Statement
from waybook.store.driver.replica import Replica


@dataclass(slots=True, kw_only=True)
class ReplicaContext(RequestContext):
    replica: Replica

    async def read(self, *statements: Statement | str) -> Results:
        # The replica may not have a revocation yet, so credentials are checked only on the primary.
        if pending_check(self.caller.org_id) is None:
            results = await self.replica.read_org(self.caller.org_id, *statements)
            if results is not None:
                return results
        return await RequestContext.read(self, *statements)
