"""Long test run without faults, in which memory, descriptors and connections must not grow."""

import asyncio
import random
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from faults.cluster import SERVERS, Cluster, Options, running_cluster, start_servers
from faults.history import History
from faults.processes import open_descriptors, resident_bytes
from faults.recovery import light_load
from faults.tenants import make_tenants

SAMPLE_SECONDS: Final = 5.0
LOAD_PAUSE_SECONDS: Final = 0.2
MEGABYTE: Final = 1024 * 1024
#: Allowed growth from the second to the last quarter of the test, as a fraction and as an absolute
#: amount.
ALLOWED: Final = {"memory": (0.05, 4 * MEGABYTE), "descriptors": (0.1, 5), "connections": (0.1, 3)}
CONNECTIONS: Final = """select count(*) from pg_stat_activity
                         where backend_type = 'client backend' and pid <> pg_backend_pid()"""


@dataclass(slots=True)
class Soaked:
    """Measurements during the test run, and a check that none has grown."""

    seconds: float
    history: History
    home: Path
    series: dict[tuple[str, str], list[float]] = field(
        default_factory=lambda: defaultdict[tuple[str, str], list[float]](list)
    )

    def growth(self, name: tuple[str, str]) -> tuple[float, float]:
        """Return the medians of a series in its second and in its last quarter."""
        return quarters(self.series[name])

    @property
    def violations(self) -> list[str]:
        """Return a message for each series that has grown."""
        grown = []
        for name in self.series:
            second, last = self.growth(name)
            share, amount = ALLOWED[name[1]]
            if last > second * (1 + share) + amount:
                medians = f"{second:.0f} in the second quarter, {last:.0f} in the last"
                grown.append(f"{name[1]} of {name[0]}: {medians}")
        return grown


def quarters(values: list[float]) -> tuple[float, float]:
    """Return the medians of the second and the last quarter of the values.

    >>> quarters([9, 9, 1, 2, 3, 4, 5, 6])
    (1.5, 5.5)
    """
    quarter = max(1, len(values) // 4)
    return median(values[quarter : 2 * quarter] or values), median(values[-quarter:])


async def soak(seed: int, minutes: float, source: Path) -> Soaked:
    """Let agents work, and measure the resources of the servers."""
    async with running_cluster(Options(source=source, disk_megabytes=None)) as cluster:
        tenants = await make_tenants(cluster, random.Random(seed))
        await start_servers(cluster)
        async with light_load(cluster, tenants, seed, pause_seconds=LOAD_PAUSE_SECONDS) as work:
            soaked = Soaked(60 * minutes, work.history, cluster.home)
            end = time.monotonic() + soaked.seconds
            while time.monotonic() < end:
                await asyncio.sleep(min(SAMPLE_SECONDS, soaked.seconds / 40))
                await _sample(cluster, soaked)
    return soaked


async def _sample(cluster: Cluster, soaked: Soaked) -> None:
    for name in SERVERS:
        pid = cluster.servers[name].pid
        assert pid is not None, f"{name} does not run"
        soaked.series[name, "memory"].append(resident_bytes(pid))
        soaked.series[name, "descriptors"].append(open_descriptors(pid))
    ((connections,),) = await cluster.sql(CONNECTIONS)
    soaked.series["postgres", "connections"].append(connections)
