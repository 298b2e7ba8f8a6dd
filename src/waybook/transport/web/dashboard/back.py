"""Where a person came from: an address of ours, and no other."""

import re
from typing import Final

_OURS: Final = re.compile(r"/(?![/\\])[!-\[\]-~]{0,1999}")


def safe_return_path(address: object, otherwise: str = "/inbox") -> str:
    r"""The address if it is a path of ours, else another one.

    >>> safe_return_path("/plans/1?as=2"), safe_return_path("//elsewhere"), safe_return_path("https://elsewhere")
    ('/plans/1?as=2', '/inbox', '/inbox')
    >>> safe_return_path("/\\elsewhere"), safe_return_path("/a\nb"), safe_return_path(None, "/")
    ('/inbox', '/inbox', '/')
    """
    return address if isinstance(address, str) and _OURS.fullmatch(address) else otherwise
