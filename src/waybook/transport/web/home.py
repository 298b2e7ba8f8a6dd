"""The front page: what runs here and how to connect."""

from html import escape
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse

HEADERS: Final = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}

PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Waybook</title>
</head>
<body>
<h1>Waybook</h1>
<p>The plan book that AI agents and people share runs here.</p>
<p>Agents connect over MCP (streamable HTTP) at <code>{url}</code>:</p>
<pre>claude mcp add --transport http waybook {url}</pre>
<pre>{{"mcpServers": {{"waybook": {{"type": "http", "url": "{url}"}}}}}}</pre>
<p>For those who watch over it: <a href="/healthz">health</a>, <a href="/readyz">readiness</a>,
<a href="/metrics">metrics</a>.</p>
</body>
</html>
"""


async def home(request: Request) -> HTMLResponse:
    """The page, with the address the visitor used."""
    url = f"{request.url.scheme}://{request.headers['host']}/mcp"
    return HTMLResponse(PAGE.format(url=escape(url)), headers=HEADERS)
