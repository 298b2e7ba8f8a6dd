"""Skills over MCP, by the protocol extension `io.modelcontextprotocol/skills`.

Every file of a skill is a resource at `skill://NAME/PATH`.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote

import mcp_types as wire
from mcp.server.lowlevel import Server

from waybook.app.request.caller import Answer
from waybook.app.skills.skill import SKILL_FILE, Skill, SkillFile
from waybook.errors import WaybookError
from waybook.transport.errors import Context, error_from_answer, invalid_params
from waybook.transport.gateway import ToolGateway

EXTENSION: Final = "io.modelcontextprotocol/skills"
SCHEME: Final = "skill://"
_FOLDER: Final = "inode/directory"
_CACHE_SECONDS: Final[dict[str, object]] = {"ttlMs": 300_000, "cacheScope": "public"}
_MEDIA_TYPES: Final = {
    ".css": "text/css",
    ".csv": "text/csv",
    ".gif": "image/gif",
    ".html": "text/html",
    ".jpg": "image/jpeg",
    ".js": "text/javascript",
    ".json": "application/json",
    ".md": "text/markdown",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".py": "text/x-python",
    ".sh": "application/x-sh",
    ".svg": "image/svg+xml",
    ".toml": "application/toml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}


class _UriParams(wire.RequestParams):
    uri: str


@dataclass(frozen=True, slots=True)
class Skills:
    gateway: ToolGateway

    def serve(self, server: Server[None]) -> None:
        server.extensions[EXTENSION] = {"directoryRead": True}
        server.add_request_handler("skills/list", wire.PaginatedRequestParams, self.list)
        server.add_request_handler("skills/get", _UriParams, self.get)
        server.add_request_handler("resources/directory/read", _UriParams, self.folder)

    async def list(self, _: Context, __: wire.PaginatedRequestParams) -> dict[str, Any]:
        return {"skills": [entry(skill) for skill in await self.all()], **_CACHE_SECONDS}

    async def get(self, _: Context, params: _UriParams) -> dict[str, Any]:
        for skill in await self.all():
            if _uri_of(skill, SKILL_FILE) == params.uri:
                return {"skill": entry(skill), **_CACHE_SECONDS}
        raise invalid_params(f"No skill is served at {params.uri}", uri=params.uri)

    async def folder(self, _: Context, params: _UriParams) -> dict[str, Any]:
        for skill in await self.all():
            within = f"{SCHEME}{skill.name}"
            if params.uri != within and not params.uri.startswith(f"{within}/"):
                continue
            entries: dict[str, dict[str, str]] = {}
            for file in skill.files:
                uri, beginning = _uri_of(skill, file.path), f"{params.uri}/"
                if not uri.startswith(beginning):
                    continue
                inner = uri.removeprefix(beginning).split("/")
                depth = params.uri.count("/") - SCHEME.count("/")
                entries[inner[0]] = {
                    "uri": f"{beginning}{inner[0]}",
                    "name": PurePosixPath(file.path).parts[depth],
                    "mimeType": _FOLDER if len(inner) > 1 else _media_type_of(file),
                }
            if entries:
                return {"resources": [entries[name] for name in sorted(entries)]}
        raise invalid_params(f"{params.uri} is not a directory resource", uri=params.uri)

    async def listed(self) -> Sequence[wire.Resource]:
        return [
            wire.Resource(
                name=skill.name,
                uri=_uri_of(skill, SKILL_FILE),
                description=skill.description,
                mime_type="text/markdown",
            )
            for skill in await self.all()
        ]

    async def read(self, uri: str) -> wire.ReadResourceResult:
        files = {_uri_of(s, file.path): file for s in await self.all() for file in s.files}
        file = files.get(uri)
        if file is None:
            raise invalid_params("Resource not found", uri=uri)
        kind = _media_type_of(file)
        contents: wire.TextResourceContents | wire.BlobResourceContents
        try:
            text = file.content.decode()
            contents = wire.TextResourceContents(uri=uri, mime_type=kind, text=text)
        except UnicodeDecodeError:
            blob = b64encode(file.content).decode()
            contents = wire.BlobResourceContents(uri=uri, mime_type=kind, blob=blob)
        result = wire.ReadResourceResult(contents=[contents])
        return result.model_copy(update={"ttl_ms": 300_000, "cache_scope": "public"})

    async def all(self) -> tuple[Skill, ...]:
        try:
            return (await self.gateway.dispatcher()).skills
        except WaybookError as error:
            raise error_from_answer(
                Answer(error.as_json(), is_error=True), "No skills now"
            ) from None


def _uri_of(skill: Skill, path: str) -> str:
    return f"{SCHEME}{skill.name}/{quote(path)}"


def entry(skill: Skill) -> dict[str, Any]:
    return {
        "uri": _uri_of(skill, SKILL_FILE),
        "frontmatter": dict(skill.front_matter),
        "resources": [
            {
                "uri": _uri_of(skill, file.path),
                "digest": f"sha256:{sha256(file.content).hexdigest()}",
                "size": len(file.content),
            }
            for file in skill.files
        ],
    }


def _media_type_of(file: SkillFile) -> str:
    try:
        file.content.decode()
        otherwise = "text/plain"
    except UnicodeDecodeError:
        otherwise = "application/octet-stream"
    return _MEDIA_TYPES.get(PurePosixPath(file.path).suffix.lower(), otherwise)
