"""Guard against network access: test processes cannot connect to other machines.

Python imports a module named `sitecustomize` at startup if its folder is on the path, so this also
guards Python programs that tests start. Every refused attempt is recorded. Code that does not use
Python's sockets, such as libuv, is covered by `make harness NAME=test-offline` instead.
"""

import errno
import os
import sys
from ipaddress import ip_address

#: Environment variable with the path of the file in which refused attempts are recorded.
NOTED = "WAYBOOK_TEST_NETWORK"
#: Python audit events that have a network address, and the index of the address in their arguments.
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
        # Only in the addresses of netlink and similar local protocols is the first part a number.
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
    """Refuse a connection to another machine, and record the attempt."""
    place, noted = EVENTS.get(event), os.environ.get(NOTED)
    if place is None or noted is None or is_local_address(args[place]):
        return
    with open(noted, "a", encoding="utf-8") as file:  # noqa: PTH123 - as light as can be
        file.write(f"{event} {args[place]!r}\n")
    raise OSError(errno.ENETUNREACH, f"a test may not look beyond this machine: {args[place]!r}")


def install() -> None:
    """Install the guard once in this process; it cannot be removed."""
    if not hasattr(sys, "is_guarded"):
        setattr(sys, "is_guarded", True)  # noqa: B010 - it has no such attribute
        sys.addaudithook(watch)


if NOTED in os.environ:
    install()
