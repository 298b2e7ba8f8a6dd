"""TCP proxy that causes network faults, in a process of its own.

A link of the proxy forwards connections from one loopback port to another. Commands arrive on
standard input, as one JSON object per line with a link and an action. The process ends when
standard input is closed.
"""

import asyncio
import json
import socket
import struct
import sys
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

import uvloop

HOST: Final = "127.0.0.1"
#: Value of SO_LINGER: closing a socket resets the connection, instead of ending it normally.
RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
#: Minimum delay between two writes, so that the event loop does not change their order.
ORDER_SECONDS: Final = 1e-6


@dataclass(slots=True)
class Link:
    """Port that the proxy forwards, with its active faults."""

    name: str
    listen_port: int
    target_port: int
    delay_seconds: float = 0.0
    #: True if the proxy accepts data without forwarding it.
    is_black_hole: bool = False
    #: Number of answers to lose: the request is forwarded, but instead of forwarding the answer,
    #: the proxy resets the connection.
    answers_to_lose: int = 0
    #: Only an answer to a request with all these texts is lost.
    markers: tuple[bytes, ...] = ()
    pairs: set["Pair"] = field(default_factory=set)


class Pair:
    """Connection of a client to the proxy, and connection of the proxy to the target."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.loop = asyncio.get_running_loop()
        self.client: asyncio.Transport | None = None
        self.target: asyncio.Transport | None = None
        self.loses_answer = False
        #: Data to forward later, each piece with True if it goes to the target. Data waits while
        #: the link is a black hole, or while the proxy connects to the target.
        self.held: list[tuple[bool, bytes]] = []
        self._last_release = 0.0
        self.is_over = False

    def forward(self, data: bytes, *, to_target: bool) -> None:
        """Forward data now or later, or lose it, according to the active faults."""
        link = self.link
        if to_target and link.answers_to_lose and all(marker in data for marker in link.markers):
            link.answers_to_lose -= 1
            self.loses_answer = True
        elif not to_target and self.loses_answer:
            self.cut()
            return
        if link.is_black_hole or self.target is None:
            self.held.append((to_target, data))
        else:
            self._release_later(data, to_target=to_target)

    def release(self) -> None:
        held, self.held = self.held, []
        for to_target, data in held:
            self._release_later(data, to_target=to_target)

    def cut(self) -> None:
        """Reset both connections."""
        self.end()

    def half_close(self, *, to_target: bool) -> None:
        """Close one direction of the connection, and leave the other open."""
        transport = self.target if to_target else self.client
        if transport is not None and not transport.is_closing() and transport.can_write_eof():
            transport.write_eof()

    def end(self) -> None:
        if self.is_over:
            return
        self.is_over = True
        self.link.pairs.discard(self)
        for transport in (self.client, self.target):
            if transport is not None:
                transport.abort()

    def _release_later(self, data: bytes, *, to_target: bool) -> None:
        now = self.loop.time()
        at = now + self.link.delay_seconds
        if at <= self._last_release:
            at = self._last_release + ORDER_SECONDS
        if at <= now:
            self._write(data, to_target=to_target)
            return
        self._last_release = at
        self.loop.call_at(at, lambda: self._write(data, to_target=to_target))

    def _write(self, data: bytes, *, to_target: bool) -> None:
        transport = self.target if to_target else self.client
        if transport is None or transport.is_closing() or self.is_over:
            return
        try:
            transport.write(data)
        except RuntimeError:  # This direction of the connection is closed.
            return


class Side(asyncio.Protocol):
    """One end of a pair: the connection to the client, or the one to the target."""

    def __init__(self, pair: Pair, *, is_client: bool) -> None:
        self.pair = pair
        self.is_client = is_client

    def connection_made(self, made: asyncio.BaseTransport) -> None:
        """Prepare the socket; for a client's connection, also connect to the target."""
        transport = cast("asyncio.Transport", made)
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = self.pair
        if not self.is_client:
            pair.target = transport
            # Both connections were reset before the proxy had connected to the target.
            if pair.is_over:
                transport.abort()
                return
            if not pair.link.is_black_hole:
                pair.release()
            return
        pair.client = transport
        pair.link.pairs.add(pair)
        connecting = pair.loop.create_task(_connect(pair))
        TASKS.add(connecting)
        connecting.add_done_callback(TASKS.discard)

    def data_received(self, data: bytes) -> None:
        self.pair.forward(data, to_target=self.is_client)

    def eof_received(self) -> bool:
        """Forward the end of the data; after the end in both directions, close both connections."""
        self.pair.half_close(to_target=self.is_client)
        return False

    def connection_lost(self, _: Exception | None) -> None:
        self.pair.end()


TASKS: set[asyncio.Task[None]] = set()


async def _connect(pair: Pair) -> None:
    try:
        await pair.loop.create_connection(
            lambda: Side(pair, is_client=False), HOST, pair.link.target_port
        )
    except OSError:
        pair.cut()


def obey(link: Link, command: dict[str, Any]) -> None:
    """Execute a command for a link."""
    match command["do"]:
        case "cut" | "half_close" as action:
            for pair in list(link.pairs):
                if action == "cut":
                    pair.cut()
                else:
                    pair.half_close(to_target=bool(command["to_target"]))
        case "black_hole":
            link.is_black_hole = True
        case "delay":
            link.delay_seconds = float(command["seconds"])
        case "lose_answers":
            link.answers_to_lose = int(command["count"])
            link.markers = tuple(str(marker).encode() for marker in command["markers"])
        case "heal":
            _heal(link)


def _heal(link: Link) -> None:
    link.is_black_hole = False
    link.delay_seconds = 0.0
    link.answers_to_lose = 0
    for pair in list(link.pairs):
        pair.release()


def _accept(link: Link) -> Side:
    return Side(Pair(link), is_client=True)


async def main(links: dict[str, Link]) -> None:
    loop = asyncio.get_running_loop()
    for link in links.values():
        await loop.create_server(partial(_accept, link), HOST, link.listen_port)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while line := await reader.readline():
        command = json.loads(line)
        obey(links[command["link"]], command)
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    NAMED = {name: Link(name, *ports) for name, *ports in json.loads(sys.argv[1])}
    uvloop.run(main(NAMED))
