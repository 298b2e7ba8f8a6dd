"""Only administrators can read audit entries about users and tokens."""

from dataclasses import replace

from auth_env import at, make_token
from org_env import OrgEnv
from waybook.app.queries.audit import AuditFilter, browse_audit
from waybook.app.request.request_context import RequestContext
from waybook.core.decision_context import Scope, expand_scopes


async def subjects(ctx: RequestContext, subject_id: str | None = None) -> set[str]:
    entries, _ = await browse_audit(ctx, AuditFilter(subject_id=subject_id))
    return {entry.subject for entry in entries}


async def test_caller_without_admin_scope_sees_only_audit_entries_of_plans(world: OrgEnv) -> None:
    await make_token(world.agent, email="ann@example.org")
    await world.agent.plan()
    admin, org_id = at(world.agent), str(world.agent.org_id)
    assert await subjects(admin) == {"org", "plan"}
    assert await subjects(admin, org_id) == {"org"}
    for scope in set(Scope) - {Scope.ADMIN}:
        call = replace(admin, caller=replace(admin.caller, scopes=expand_scopes([scope])))
        assert await subjects(call) == {"plan"}, scope
        assert await subjects(call, org_id) == set(), scope
