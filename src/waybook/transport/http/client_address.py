"""Finds the address of an HTTP client behind trusted proxies.

`X-Forwarded-For` is read from its end, because a client can send any text at its beginning.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

from starlette.requests import Request

from waybook.errors import Misconfigured

_Address: TypeAlias = IPv4Address | IPv6Address
_Network: TypeAlias = IPv4Network | IPv6Network

_MAX_HOPS: Final = 32


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    """Networks of the trusted proxies. By default, no proxy is trusted."""

    networks: tuple[_Network, ...] = ()

    def client_address(self, peer: str, forwarded: Iterable[str]) -> str:
        """Return the peer's address or, if the peer is a trusted proxy, the client's address.

        >>> ours = read_proxies("10.0.0.0/8")
        >>> (
        ...     ours.client_address("10.0.0.1", ["6.6.6.6, 198.51.100.7"]),
        ...     ours.client_address("6.6.6.6", ["1.1.1.1"]),
        ... )
        ('198.51.100.7', '6.6.6.6')
        """
        address = read_address(peer)
        if address is None:
            return peer
        hops = [hop for value in forwarded for hop in value.split(",")]
        for hop in reversed(hops[-_MAX_HOPS:]):
            before = read_address(hop) if self._trusts(address) else None
            if before is None:
                break
            address = before
        return str(address)

    def _trusts(self, address: _Address) -> bool:
        return any(address in network for network in self.networks)


def read_proxies(text: str) -> TrustedProxies:
    """Parse a comma-separated list of proxy addresses or networks.

    Raises:
        Misconfigured: an entry is neither an address nor a network.
    """
    named = [word.strip() for word in text.split(",") if word.strip()]
    try:
        return TrustedProxies(tuple(ip_network(word) for word in named))
    except ValueError as error:
        raise Misconfigured(f"trusted_proxies: {error}") from None


def read_address(text: str) -> _Address | None:
    """Parse an IP address with or without a port. Return None if it is not valid.

    >>> read_address(" 198.51.100.7:5000"), read_address("[2001:db8::1]:443")
    (IPv4Address('198.51.100.7'), IPv6Address('2001:db8::1'))
    >>> read_address("::ffff:10.0.0.1"), read_address("unknown")
    (IPv4Address('10.0.0.1'), None)
    """
    host = text.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def client_address_of(request: Request, proxies: TrustedProxies) -> str:
    peer = request.client.host if request.client else ""
    return proxies.client_address(peer, request.headers.getlist("x-forwarded-for"))
