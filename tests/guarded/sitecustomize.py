"""Read by every Python process of a test run: a look beyond this machine is noted and refused.

Python loads a module of this name by itself wherever its folder is on the path, so that programs
which tests start are held to it too. What goes round Python, as libuv does, is held by
`make test-offline` instead.
"""

import errno
import os
import sys
from ipaddress import ip_address

#: The file in which attempts are noted.
NOTED = "WAYBOOK_TEST_NETWORK"
#: The events that name an address: at which place of what they tell.
EVENTS = {
    "socket.connect": 1,
    "socket.sendto": 1,
    "socket.sendmsg": 1,
    "socket.getaddrinfo": 0,
    "socket.gethostbyname": 0,
    "socket.gethostbyaddr": 0,
}


def is_here(address: object) -> bool:
    """Whether an address is on this machine: loopback, a socket in the file system, none at all."""
    if isinstance(address, tuple):
        address = address[0] if address else None
        if isinstance(address, int):  # netlink, and its like
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


def watch(event: str, told: tuple[object, ...]) -> None:
    """Refuse what goes beyond this machine."""
    place, noted = EVENTS.get(event), os.environ.get(NOTED)
    if place is None or noted is None or is_here(told[place]):
        return
    with open(noted, "a", encoding="utf-8") as file:  # noqa: PTH123 - as light as can be
        file.write(f"{event} {told[place]!r}\n")
    raise OSError(errno.ENETUNREACH, f"a test may not look beyond this machine: {told[place]!r}")


def install() -> None:
    """Watch, once for each process; it cannot be undone."""
    if not hasattr(sys, "is_guarded"):
        setattr(sys, "is_guarded", True)  # noqa: B010 - it has no such attribute
        sys.addaudithook(watch)


if NOTED in os.environ:
    install()
