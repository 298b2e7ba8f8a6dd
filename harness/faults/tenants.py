"""Orgs in the fault test: users, tokens, and workflow."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from faults.cluster import Cluster
from faults.history import Body
from waybook.accounts.model import NewUser
from waybook.app.accounts.members import add_token, add_user
from waybook.app.request.request_context import RequestContext
from waybook.app.tools.runs.workflows import AddDag, add_dag
from waybook.bootstrap import Application, start_application
from waybook.core.decision_context import Channel, Scope
from waybook.settings_reading import read_settings

ORGS: Final = ("alder", "birch", "cedar")
#: Names of the users of every org.
USERS: Final = ("ann", "bob", "cem", "dia")
SCOPES: Final = (Scope.PLAN_WRITE, Scope.RUN_WRITE, Scope.REVIEW)
DAG: Final = "fan"
STAGE: Final = "work"
MODELS: Final = ("alpha", "beta", "gamma")
#: For each step of the workflow, its strategy and the steps on which it depends directly.
RECIPE: Final = {
    "split": ("all_to_one", ()),
    "each": ("per_model", ("split",)),
    "join": ("all_to_one", ("each",)),
    "polish": ("per_model", ("join",)),
    "close": ("all_to_one", ("polish", "join")),
}


@dataclass(slots=True)
class Tenant:
    """Org with its users and its open plans and runs."""

    slug: str
    org_id: str
    #: Text that occurs only in the data of this org.
    canary: str
    tokens: dict[str, str]
    #: Ids of the org's plans, and of its runs, without those that an agent has seen to be closed.
    plans: set[str] = field(default_factory=set)
    runs: set[str] = field(default_factory=set)
    #: For each last heartbeat of a step, the time at which an agent first saw it; the keys are step
    #: id and heartbeat.
    held_since: dict[tuple[str, str], float] = field(default_factory=dict)


def definition() -> Body:
    """Return the workflow definition, with two fan-outs that are each followed by a fan-in."""
    steps = [
        {
            "stepKey": key,
            "jobType": "EXECUTE",
            "granularityStrategy": strategy,
            "inputsRequired": [],
            "outputs": [{"documentKey": key}],
        }
        for key, (strategy, _) in RECIPE.items()
    ]
    edges = [[before, key] for key, (_, earlier) in RECIPE.items() for before in earlier]
    stages = [{"slug": STAGE, "recipe": {"steps": steps, "edges": edges}}]
    return {"slug": DAG, "name": DAG, "stages": stages}


@asynccontextmanager
async def inside(cluster: Cluster) -> AsyncIterator[Application]:
    """Yield an application with the rights of the database owner, and without a proxy."""
    flags = {"database_url": cluster.owner_url, "data_dir": cluster.home, "migrate": "always"}
    settings = read_settings(flags, {}, Path("/nonexistent")).settings
    async with start_application(settings, sweeping=False) as here:
        yield here


async def make_tenants(cluster: Cluster, rng: random.Random) -> list[Tenant]:
    """Create the orgs, the workflow definition, and a token for each user."""
    tenants = []
    async with inside(cluster) as here:
        for slug in ORGS:
            org_id = await here.create_org(slug)
            caller = replace(here.caller(Channel.CLI), org_id=org_id)
            call = RequestContext(services=here.dispatcher.services, caller=caller)
            tokens = {}
            for user in USERS:
                await add_user(call, NewUser(name=user, scopes=SCOPES))
                tokens[user] = (await add_token(call, user, "faults", SCOPES)).secret
            await add_dag.run(call, AddDag(definition=definition()))
            canary = f"canary-{slug}-{rng.getrandbits(48):012x}"
            tenants.append(Tenant(slug, str(org_id), canary, tokens))
    return tenants
