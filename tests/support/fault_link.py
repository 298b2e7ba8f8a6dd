"""Proxy on loopback with which tests break connections to a server."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from patience import PATIENCE_SECONDS

#: Value of the socket option `SO_LINGER` with which closing the socket resets the connection.
LINGER_NOT = struct.pack("ii", 1, 0)
CHUNK_BYTES = 65_536


@dataclass(eq=False)
class Wire:
    client: socket.socket
    upstream: socket.socket
    #: Number of this connection, counted from 1 in the order of acceptance.
    number: int
    pumps: list[threading.Thread] = field(default_factory=list)

    def reset(self) -> None:
        # Closing a socket does not end the connection while a thread reads from the socket, so end
        # the reading first.
        for end, how in ((self.client, socket.SHUT_RD), (self.upstream, socket.SHUT_RDWR)):
            # This fails if the other side has already closed the socket.
            with contextlib.suppress(OSError):
                end.shutdown(how)
        for pump in self.pumps:
            if pump is not threading.current_thread():
                pump.join(1)
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
        self.client.close()
        self.upstream.close()


@dataclass
class FaultLink:
    """Proxy that forwards bytes in both directions until a test breaks a connection."""

    #: Path of a Unix socket, or host and port.
    target: str | tuple[str, int]
    wires: set[Wire] = field(default_factory=set)
    #: Lock for `wires`. A connection is added and its threads are started under this lock, so that
    #: `reset_all` resets only connections whose threads have started.
    changing: threading.Lock = field(default_factory=threading.Lock)
    #: Number of connections that were closed because the target was unavailable.
    refused: int = 0
    #: While this event is not set, no data is forwarded.
    is_open: threading.Event = field(default_factory=threading.Event)
    #: Number of times that data arrived and had to wait for `is_open`.
    held: int = 0
    #: For each accepted connection, the number of answers that the target has sent.
    answers: list[int] = field(default_factory=list)
    #: Answer to lose: the number of its connection, and the number of earlier answers on this
    #: connection. The link resets the connection instead of forwarding the answer.
    cut: tuple[int, int] | None = None
    #: Number of bytes of the next answer to forward before the link resets the connection.
    reset_after_bytes: int | None = None
    #: The link sets `holds_answer` when it has an answer but waits to send it, and a test sets
    #: `may_answer` to end the wait.
    holds_answer: threading.Event = field(default_factory=threading.Event)
    may_answer: threading.Event = field(default_factory=threading.Event)
    was_reset: threading.Event = field(default_factory=threading.Event)

    def reset_all(self) -> int:
        with self.changing:
            wires = [*self.wires]
            self.wires.clear()
        for wire in wires:
            wire.reset()
        return len(wires)

    def lose_next_answer(self) -> None:
        """Do not forward the next answer of the target; reset its connection instead."""
        self.was_reset.clear()
        self.may_answer.set()
        self.reset_after_bytes = 0

    def answer_and_reset(self) -> None:
        """Let the link forward the answer that it holds, and then reset the connection."""
        self.may_answer.set()
        assert self.was_reset.wait(PATIENCE_SECONDS)
        for event in (self.holds_answer, self.may_answer, self.was_reset):
            event.clear()

    def accept(self, listening: socket.socket) -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            family = socket.AF_UNIX if isinstance(self.target, str) else socket.AF_INET
            upstream = socket.socket(family)
            try:
                upstream.connect(self.target)
            except OSError:
                self.refused += 1
                upstream.close()
                client.close()
                continue
            self.answers.append(0)
            wire = Wire(client, upstream, len(self.answers))
            for pump in (self._forward, self._answer):
                wire.pumps.append(threading.Thread(target=pump, args=(wire,), daemon=True))
            with self.changing:
                self.wires.add(wire)
                for thread in wire.pumps:
                    thread.start()

    def _forward(self, wire: Wire) -> None:
        self._pump(wire, wire.client, wire.upstream)

    def _answer(self, wire: Wire) -> None:
        self._pump(wire, wire.upstream, wire.client)

    def _count(self, wire: Wire) -> None:
        """Count an answer; if `cut` selects this answer, let `_pump` reset the connection."""
        if self.cut == (wire.number, self.answers[wire.number - 1]):
            self.may_answer.set()
            self.reset_after_bytes = 0
        self.answers[wire.number - 1] += 1

    def _pump(self, wire: Wire, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                if not self.is_open.is_set():
                    self.held += 1
                    self.is_open.wait()
                if sink is wire.client:
                    self._count(wire)
                cut = self.reset_after_bytes
                if cut is not None and sink is wire.client:
                    self._cut(wire, data[:cut])
                    return
                sink.sendall(data)
            if wire in self.wires:
                sink.shutdown(socket.SHUT_WR)

    def _cut(self, wire: Wire, data: bytes) -> None:
        self.reset_after_bytes = None
        self.holds_answer.set()
        self.may_answer.wait(PATIENCE_SECONDS)
        wire.client.sendall(data)
        self.wires.discard(wire)
        wire.reset()
        self.was_reset.set()


@contextmanager
def fault_link(dsn: str) -> Iterator[tuple[FaultLink, str]]:
    """Start a proxy to the server of this DSN; yield the proxy and the DSN that uses it."""
    params = conninfo_to_dict(dsn)
    host, port_of_server = str(params["host"]), int(params.get("port") or 5432)
    is_folder = host.startswith("/")
    target = f"{host}/.s.PGSQL.{port_of_server}" if is_folder else (host, port_of_server)
    with _open_link(target) as (link, port):
        yield link, make_conninfo(dsn, host="127.0.0.1", port=port)


@contextmanager
def http_fault_link(address: str) -> Iterator[tuple[FaultLink, str]]:
    """Start a proxy to the HTTP server at this address; yield the proxy and its address."""
    parts = urlsplit(address)
    assert parts.hostname is not None
    assert parts.port is not None
    with _open_link((parts.hostname, parts.port)) as (link, port):
        yield link, f"http://127.0.0.1:{port}"


@contextmanager
def _open_link(target: str | tuple[str, int]) -> Iterator[tuple[FaultLink, int]]:
    link = FaultLink(target)
    link.is_open.set()
    listening = socket.create_server(("127.0.0.1", 0))
    accepting = threading.Thread(target=link.accept, args=(listening,), daemon=True)
    accepting.start()
    try:
        yield link, listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        accepting.join(PATIENCE_SECONDS)
        listening.close()
        link.is_open.set()
        link.may_answer.set()
        link.reset_all()
