"""A terminal that changes its size is drawn anew at once, not with the next look."""

import asyncio
import contextlib
import signal


def resize_event() -> asyncio.Event:
    """An event that is set whenever the terminal has another size."""
    resized = asyncio.Event()
    with contextlib.suppress(AttributeError, NotImplementedError, ValueError):  # not everywhere
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, resized.set)
    return resized


async def wait_or_resize(resized: asyncio.Event, seconds: float) -> None:
    """Wait so long, or until the terminal has another size."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(resized.wait(), seconds)
    resized.clear()
