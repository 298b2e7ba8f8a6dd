"""Client library for agents written in Python.

    async with Client("http://127.0.0.1:8750", session_id="worker-1") as client:
        async for step in client.steps(plan_id):
            async with step:
                await step.submit(await work(step))

An error reply is raised as the matching exception: `NotFound`, `StaleAttempt`, and so on.
"""

from waybook.client.claims import Job, Step
from waybook.client.client import Client
from waybook.client.connection import NO_RETRY, REVISION, Connection, Retry
from waybook.client.errors import (
    KINDS,
    HoldLost,
    NothingReady,
    NotSubmitted,
    Unreachable,
    error_from,
)
from waybook.client.stdio import StdioConnection

__all__ = [
    "KINDS",
    "NO_RETRY",
    "REVISION",
    "Client",
    "Connection",
    "HoldLost",
    "Job",
    "NotSubmitted",
    "NothingReady",
    "Retry",
    "StdioConnection",
    "Step",
    "Unreachable",
    "error_from",
]
