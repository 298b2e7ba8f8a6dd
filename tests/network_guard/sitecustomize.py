"""Network guard for every Python process of a test run: refuses and records outside connections.

Python imports a module named `sitecustomize` automatically if its folder is on the path, so
programs that tests start are guarded too. Code that bypasses Python's sockets, such as libuv, is
covered by `make harness NAME=test-offline` instead.
"""

import errno
import os
import sys
from ipaddress import ip_address

#: Name of the environment variable that contains the path of the file in which connection attempts
#: are recorded.
NOTED = "WAYBOOK_TEST_NETWORK"
#: Python audit events with a network address, each with the index of the address in the arguments
#: of the event.
EVENTS = {
    "socket.connect": 1,
    "socket.sendto": 1,
    "socket.sendmsg": 1,
    "socket.getaddrinfo": 0,
    "socket.gethostbyname": 0,
    "socket.gethostbyaddr": 0,
}


def is_local_address(address: object) -> bool:
    """Return whether an address is local: loopback, a Unix socket, or absent."""
    if isinstance(address, tuple):
        address = address[0] if address else None
        # The first part of an address is a number only for netlink and similar local protocols.
        if isinstance(address, int):
            return True
    elif isinstance(address, str | bytes) and address[:1] in {"/", b"/", "\0", b"\0"}:
        return True
    name = address.decode("ascii", "replace") if isinstance(address, bytes) else address
    if name is None or name in {"", "localhost"}:
        return True
    try:
        return ip_address(str(name).partition("%")[0]).is_loopback
    except ValueError:
        return False


def watch(event: str, args: tuple[object, ...]) -> None:
    """Refuse network connections to other machines."""
    place, noted = EVENTS.get(event), os.environ.get(NOTED)
    if place is None or noted is None or is_local_address(args[place]):
        return
    with open(noted, "a", encoding="utf-8") as file:  # noqa: PTH123 - as light as can be
        file.write(f"{event} {args[place]!r}\n")
    raise OSError(errno.ENETUNREACH, f"a test may not look beyond this machine: {args[place]!r}")


def install() -> None:
    """Install the network guard once per process; it cannot be removed."""
    if not hasattr(sys, "is_guarded"):
        setattr(sys, "is_guarded", True)  # noqa: B010 - it has no such attribute
        sys.addaudithook(watch)


if NOTED in os.environ:
    install()
