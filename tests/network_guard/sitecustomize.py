"""Guard that keeps test processes from connecting to other machines.

At startup, Python imports a module named `sitecustomize` if it finds one, so the guard also works
in Python programs that tests start. Refused attempts are recorded. Code with sockets of its own,
such as libuv, is checked by `make harness NAME=test-offline`.
"""

import errno
import os
import sys
from ipaddress import ip_address

#: Environment variable with the path of the file that records refused attempts.
NOTED = "WAYBOOK_TEST_NETWORK"
#: Audit events of Python about network addresses, with the position of the address in their
#: arguments.
EVENTS = {
    "socket.connect": 1,
    "socket.sendto": 1,
    "socket.sendmsg": 1,
    "socket.getaddrinfo": 0,
    "socket.gethostbyname": 0,
    "socket.gethostbyaddr": 0,
}


def is_local_address(address: object) -> bool:
    """Return whether an address is on this machine: loopback, Unix socket, or none."""
    if isinstance(address, tuple):
        address = address[0] if address else None
        # Addresses that begin with a number belong to local protocols, such as netlink.
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
    """Record and refuse a connection to another machine."""
    place, noted = EVENTS.get(event), os.environ.get(NOTED)
    if place is None or noted is None or is_local_address(args[place]):
        return
    with open(noted, "a", encoding="utf-8") as file:  # noqa: PTH123 - as light as can be
        file.write(f"{event} {args[place]!r}\n")
    raise OSError(errno.ENETUNREACH, f"a test may not look beyond this machine: {args[place]!r}")


def install() -> None:
    """Install the guard in this process, if it is not installed yet; it cannot be removed."""
    if not hasattr(sys, "is_guarded"):
        setattr(sys, "is_guarded", True)  # noqa: B010 - it has no such attribute
        sys.addaudithook(watch)


if NOTED in os.environ:
    install()
