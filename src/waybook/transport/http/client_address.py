"""Proxies that are trusted to say for whom they ask, and the address that counts behind them.

Anybody can write `X-Forwarded-For`, and each proxy adds to its end whom it was asked by. So it is
read from the end, as long as whoever wrote it is trusted; the first address that is not is where
the request came from. Nothing else that proxies say is believed: neither a name nor a scheme.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

from starlette.requests import Request

from waybook.errors import Misconfigured

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

#: More of them than anybody has in a row.
MAX_HOPS: Final = 32


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    """Whom to believe; nobody, unless it is said."""

    networks: tuple[Network, ...] = ()

    def client_address(self, peer: str, forwarded: Iterable[str]) -> str:
        """Where a request came from: whoever connects, or whom a trusted proxy was asked by.

        >>> ours = read_proxies("10.0.0.0/8")
        >>> (
        ...     ours.client_address("10.0.0.1", ["6.6.6.6, 198.51.100.7"]),
        ...     ours.client_address("6.6.6.6", ["1.1.1.1"]),
        ... )
        ('198.51.100.7', '6.6.6.6')
        """
        found = read_address(peer)
        if found is None:
            return peer
        hops = [hop for value in forwarded for hop in value.split(",")]
        for hop in reversed(hops[-MAX_HOPS:]):
            before = read_address(hop) if self._trusts(found) else None
            if before is None:
                break
            found = before
        return str(found)

    def _trusts(self, address: Address) -> bool:
        return any(address in network for network in self.networks)


def read_proxies(text: str) -> TrustedProxies:
    """The proxies that are named, by address or network, separated by commas.

    Raises:
        Misconfigured: something is neither.
    """
    named = [word.strip() for word in text.split(",") if word.strip()]
    try:
        return TrustedProxies(tuple(ip_network(word) for word in named))
    except ValueError as error:
        raise Misconfigured(f"trusted_proxies: {error}") from None


def read_address(text: str) -> Address | None:
    """An address as proxies write it, with or without a port; nothing if it is none.

    >>> read_address(" 198.51.100.7:5000"), read_address("[2001:db8::1]:443")
    (IPv4Address('198.51.100.7'), IPv6Address('2001:db8::1'))
    >>> read_address("::ffff:10.0.0.1"), read_address("unknown")
    (IPv4Address('10.0.0.1'), None)
    """
    told = text.strip()
    if told.startswith("["):
        told = told[1:].partition("]")[0]
    elif told.count(":") == 1:
        told = told.partition(":")[0]
    try:
        found = ip_address(told)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def client_address_of(request: Request, proxies: TrustedProxies) -> str:
    """The address a request came from, as far as it can be known."""
    peer = request.client.host if request.client else ""
    return proxies.client_address(peer, request.headers.getlist("x-forwarded-for"))
