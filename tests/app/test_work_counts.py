"""Numbers of open plans, runs and other work, which only the leader reports as metrics."""

from org_env import OrgEnv
from waybook.background import count_all_orgs
from waybook.store.deliveries import WorkCount
from waybook.transport.http.metrics import collect_metrics


async def test_metrics_count_steps_in_progress_of_all_orgs(own_world: OrgEnv) -> None:
    services = own_world.dispatcher.services
    plan = await own_world.agent.plan()
    await own_world.agent.take(plan)
    report = {"sessionId": "w1", "agent": "codex", "state": "parked"}
    await own_world.agent.call("report_worker", **report)
    await count_all_orgs(services)
    assert services.work.by_org[own_world.agent.org_id].steps == 1
    assert services.work.total().steps >= 1
    shown = {metric.name for metric in collect_metrics(own_world.dispatcher)}
    assert "waybook_steps_in_progress" not in shown
    services.leadership.is_leader = True
    try:
        metrics = [*collect_metrics(own_world.dispatcher)]
    finally:
        services.leadership.is_leader = False
    figures = {metric.name: metric.value for metric in metrics}
    parked = [m.value for m in metrics if m.labels == {"state": "parked"}]
    assert parked == [services.work.total().parked] != [0]
    assert figures["waybook_leader"] == 1
    assert figures["waybook_steps_in_progress"] == services.work.total().steps
    assert figures["waybook_pool_size"] == services.database.pool.size


async def test_metrics_drop_the_counts_of_a_removed_org(own_world: OrgEnv) -> None:
    services = own_world.dispatcher.services
    await count_all_orgs(services)
    services.work.keep_only([])
    assert services.work.by_org == {}
    assert services.work.total() == WorkCount()
