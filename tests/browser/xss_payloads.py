"""Payloads for script injection, each of which tries to set `window.__pwned`.

A request for `/__pwned` is another sign that a payload was executed. Pages must show payloads as
plain text.
"""

from typing import Final

DO: Final = "window.__pwned=1"

PAYLOADS: Final = (
    f"<script>{DO}</script>",
    f"<ScRiPt>{DO}</sCrIpT>",
    f"<script >{DO}</script >",
    f"<scr<script>ipt>{DO}</script>",
    "<script src=/__pwned></script>",
    f"<script type=module>{DO}</script>",
    f"</script><script>{DO}</script>",
    f"</title><script>{DO}</script>",
    f"</textarea><script>{DO}</script>",
    f"</style><script>{DO}</script>",
    f"--><script>{DO}</script>",
    f"]]><script>{DO}</script>",
    f"<img src=x onerror={DO}>",
    f"<img src=/__pwned onload={DO}>",
    f'"><img src=x onerror={DO}>',
    f"'><img src=x onerror={DO}>",
    f'" onmouseover="{DO}" autofocus onfocus="{DO}',
    f"' onmouseover='{DO}' autofocus onfocus='{DO}",
    f"` onmouseover={DO} x=`",
    f"<svg onload={DO}>",
    f"<svg><script>{DO}</script></svg>",
    f"<svg><animate onbegin={DO} attributeName=x dur=1s>",
    f"<svg><a xlink:href=javascript:{DO}><text y=20>x</text></a></svg>",
    f'<svg><use href="data:image/svg+xml,<svg onload={DO}>"/></svg>',
    f"<math><mtext></form><form><mglyph><style></math><img src=x onerror={DO}>",
    f"<body onload={DO}>",
    f"<details open ontoggle={DO}>x</details>",
    f"<input autofocus onfocus={DO}>",
    f"<video><source onerror={DO}></video>",
    f"<audio src=x onerror={DO}></audio>",
    f"<iframe src=javascript:{DO}></iframe>",
    f'<iframe srcdoc="<script>parent.{DO}</script>"></iframe>',
    "<iframe src=/__pwned></iframe>",
    f"<object data=javascript:{DO}></object>",
    "<embed src=/__pwned>",
    f"<a href=javascript:{DO}>x</a>",
    f"[x](javascript:{DO})",
    f"[x](JaVaScRiPt:{DO})",
    f"[x](java\tscript:{DO})",
    f"![x](javascript:{DO})",
    "![x](/__pwned)",
    f"<javascript:{DO}>",
    f"[x]: data:text/html,<script>{DO}</script>",
    f"javascript:{DO}//",
    f"data:text/html,<script>{DO}</script>",
    f"<form action=javascript:{DO}><button>x</button></form>",
    f"<button formaction=javascript:{DO} form=filter>x</button>",
    "<base href=//elsewhere.invalid/>",
    f"<meta http-equiv=refresh content='0;url=javascript:{DO}'>",
    "<link rel=stylesheet href=/__pwned>",
    "<style>*{background:url(/__pwned)}</style>",
    '<p style="background:url(/__pwned)">x</p>',
    '<div hx-get="/__pwned" hx-trigger="load">x</div>',
    f'<div hx-on::load="{DO}" data-hx-on:click="{DO}">x</div>',
    f"<template><script>{DO}</script></template>",
    f"<noscript><p title='</noscript><img src=x onerror={DO}>'>",
    f"&lt;script&gt;{DO}&lt;/script&gt;",
    f"%3Cscript%3E{DO}%3C/script%3E",
    f"\\u003cscript\\u003e{DO}\\u003c/script\\u003e",
    f"\u202e<script>{DO}</script>",
    f"<\u0131mg src=x onerror={DO}>",
    f"=HYPERLINK('javascript:{DO}')",
    f'A" --> B["x"]\nclick A "javascript:{DO}"',
)
#: All payloads in one text, for fields that accept long texts.
ALL: Final = "\n\n".join(PAYLOADS)


def payloads(length: int) -> list[str]:
    """Return texts of at most this many characters that together contain all payloads."""
    texts = [""]
    for payload in PAYLOADS:
        if len(texts[-1]) + len(payload) >= length:
            texts.append("")
        texts[-1] += payload.replace("\n", " ").replace("\t", " ") + " "
    return [piece.strip() for piece in texts]
