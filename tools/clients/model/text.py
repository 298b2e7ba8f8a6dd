"""Plain text of a message, whose structure differs between the model APIs."""

import json

from tools.clients.model.script import Json


def plain_text(content: Json) -> str:
    """Return the text of a message's content: a string, a list of parts, or other JSON."""
    match content:
        case None:
            return ""
        case str():
            return content
        case list():
            return "\n".join(plain_text(part) for part in content)
        case {"text": str() as text}:
            return text
        case {"content": inner}:
            return plain_text(inner)
        case _:
            return json.dumps(content)
