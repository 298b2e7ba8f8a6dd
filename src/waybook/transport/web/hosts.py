"""Which names this server answers to: a page of somebody else's must not reach it by DNS tricks."""

import re
from dataclasses import dataclass
from typing import Final

LOOPBACK: Final = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?", re.IGNORECASE)
ORIGIN: Final = re.compile(r"(https?)://([^/\s]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The loopback names, at any port, and `names`: exactly what a client writes into `Host`.

    >>> hosts = AllowedHosts(frozenset({"plans.example.org"}))
    >>> hosts.allow_host("localhost:8750"), hosts.allow_host("plans.example.org")
    (True, True)
    >>> hosts.allow_host("localhost.example.net"), hosts.allow_origin("null", "localhost")
    (False, False)
    """

    names: frozenset[str] = frozenset()
    #: The one of them that a proxy serves over https for us.
    encrypted: str | None = None

    def allow_host(self, host: str) -> bool:
        """Whether a `Host` header names us."""
        return LOOPBACK.fullmatch(host) is not None or host.lower() in self.names

    def allow_origin(self, origin: str, host: str) -> bool:
        """Whether an `Origin` header names a page of ours: where this request came, or our name.

        Another port of this machine is somebody else; so is a page that came in the clear under
        the name that has https, for anybody on the way may have written it.
        """
        matched = ORIGIN.fullmatch(origin)
        if matched is None:
            return False
        scheme, named = matched[1].lower(), matched[2].lower()
        if named == self.encrypted:
            return scheme == "https"
        return named == host.lower() or named in self.names
