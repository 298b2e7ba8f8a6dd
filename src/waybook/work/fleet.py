"""Workers of one process: starts them, finishes what killed ones left, and drains on a signal."""

import asyncio
import re
import signal
from collections.abc import Sequence
from typing import Final

from waybook.errors import InvalidInput
from waybook.work.delivery import Workshop
from waybook.work.endpoint import close_endpoints
from waybook.work.options import Options
from waybook.work.process import end_leftovers
from waybook.work.records import StateFolder
from waybook.work.worker import Agent, Worker
from waybook.work.worktrees import Repository

#: Statuses with which the process ends.
DONE, FAILED, STOPPED = 0, 1, 143
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


async def run_fleet(options: Options) -> int:
    """Run the workers until no work is left or a signal arrives, and return the exit status.

    At the first signal, the workers claim nothing more and get time to finish. At the second one,
    they give back at once what they hold.
    """
    repository = await _repository(options)
    state = StateFolder(options.state_folder)
    agents = [(Agent(adapter, options.connect(adapter.name)), n) for adapter, n in options.agents]
    host = re.sub(r"[^A-Za-z0-9-]", "-", options.host)[:40]
    crew = [(agent, state.take_session(host)) for agent, count in agents for _ in range(count)]
    shop = Workshop(options, state, repository, crew[0][1])
    draining = asyncio.Event()
    workers = [Worker(shop, agent, session, draining) for agent, session in crew]
    end_leftovers()
    try:
        await shop.recover(agents[0][0].client)
        await _run_workers(options, workers, draining)
    finally:
        await shop.close()
        await close_endpoints()
        for agent, _ in agents:
            await agent.client.__aexit__()
    if draining.is_set():
        return STOPPED
    return FAILED if any(worker.has_failed for worker in workers) else DONE


async def _run_workers(
    options: Options, workers: Sequence[Worker], draining: asyncio.Event
) -> None:
    loop = asyncio.get_running_loop()
    tasks = [asyncio.create_task(worker.run()) for worker in workers]

    def cancel() -> None:
        for task in tasks:
            task.cancel()

    def stop() -> None:
        if draining.is_set():
            cancel()
            return
        options.say(f"stopping in at most {options.grace_seconds:g} s; once more to stop now")
        draining.set()
        loop.call_later(options.grace_seconds, cancel)

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        results = await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
    for result in results:
        if isinstance(result, Exception):
            raise result


async def _repository(options: Options) -> Repository | None:
    """Return the repository of the worktrees, or None if the agents work in the folder itself."""
    repository = None if options.isolation == "none" else await Repository.find(options.folder)
    if repository is None and options.isolation in {"step", "worker"}:
        message = f"{options.folder} is not in a git repository"
        raise InvalidInput(f"{message}: change the folder, or use --isolation none")
    if repository is not None and options.target is not None:
        listed = await repository.git("worktree", "list", "--porcelain")
        if f"branch refs/heads/{options.target}" in listed.splitlines():
            message = f"the branch {options.target} is checked out, so it cannot be merged into"
            raise InvalidInput(f"{message}: name another one with --into, and merge it yourself")
    return repository
