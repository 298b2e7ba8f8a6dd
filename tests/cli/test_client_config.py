"""Edits of clients' configuration files, which keep all other content and can be undone."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.cli.client_config import json_edit, toml_edit
from waybook.cli.client_config.clients import (
    CLIENTS,
    Client,
    ConfigScope,
    Places,
    command_for,
    config_file,
    is_temporary_environment,
)
from waybook.cli.client_config.files import ConfigError, read_config, write_config

ENTRY = {"command": "/opt/way book/bin/waybook", "args": ["mcp", "--data-dir", 'C:\\d "x" é']}

KEYS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
SERVERS = st.dictionaries(KEYS, VALUES, max_size=3).filter(lambda servers: "w" not in servers)
DOCUMENTS = st.builds(
    lambda first, servers, last: {**first, **servers, **last},
    st.dictionaries(KEYS, VALUES, max_size=2),
    st.builds(lambda servers: {"servers": servers}, SERVERS) | st.just({}),
    st.dictionaries(KEYS, VALUES, max_size=2),
).filter(lambda value: isinstance(value.get("servers", {}), dict))
STYLES = st.sampled_from(
    [{"indent": 2}, {"indent": 4}, {"indent": "\t"}, {"indent": 0}, {}, {"separators": (",", ":")}]
)
COMMENTS = st.sampled_from(["", '// note { "\n', "/* , } */", " \n\t"])


def add(text: str | None, entry: Mapping[str, Any] = ENTRY) -> str:
    return json_edit.add_entry(text, "servers", "w", entry, comments=True)


def remove(text: str) -> str:
    return json_edit.remove_entry(text, "servers", "w", comments=True)


@given(DOCUMENTS, STYLES, st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "\ufeff", "\n"]))
def test_adding_then_removing_waybook_restores_json_config_exactly(
    value: dict[str, Any], style: dict[str, Any], newline: str, lead: str
) -> None:
    text = lead + json.dumps(value, ensure_ascii=False, **style).replace("\n", newline) + newline
    added = add(text)
    assert json.loads(added.lstrip("\ufeff"))["servers"].pop("w") == ENTRY
    client = Client("", "", comments=True, container="servers")
    assert client.remove(client.add(text, ENTRY), text) == text
    if value and value.get("servers") != {}:
        assert remove(added) == text


@given(DOCUMENTS, STYLES)
def test_adding_waybook_inserts_one_contiguous_block_into_json_config(
    value: dict[str, Any], style: dict[str, Any]
) -> None:
    text = json.dumps(value, ensure_ascii=False, **style)
    added = add(text)
    start = next((n for n, c in enumerate(text) if added[n] != c), len(text))
    end = len(text) - start
    while end and added[-end:] != text[-end:]:
        end -= 1
    rest = text[start : len(text) - end]
    assert rest.strip() == ""


@given(DOCUMENTS, STYLES)
def test_adding_waybook_twice_leaves_json_config_of_client_unchanged(
    value: dict[str, Any], style: dict[str, Any]
) -> None:
    added = add(json.dumps(value, **style))
    assert add(added) == added
    other = {"url": "http://127.0.0.1:8750/mcp"}
    assert add(add(added, other)) == added


@given(COMMENTS, COMMENTS, COMMENTS, COMMENTS, st.booleans())
def test_adding_and_removing_waybook_keeps_comments_in_json_config(
    first: str,
    second: str,
    third: str,
    fourth: str,
    trailing: bool,  # noqa: FBT001 - hypothesis
) -> None:
    comma = "," if trailing else ""
    inner = f'{{{second}"a": 1{comma}{third}}}'
    text = f'{first}{{{first}\n"servers": {inner},\n"b": "//"{fourth}{comma}}}{fourth}'
    added = add(text)
    assert json_edit.Document(added, comments=True).value == {
        "servers": {"w": ENTRY, "a": 1},
        "b": "//",
    }
    assert remove(added) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"servers": {"a": 1, "w": {}}}', '{"servers": {"a": 1}}'),
        ('{"servers": {"a": 1, "w": {}, "b": 2}}', '{"servers": {"a": 1, "b": 2}}'),
        ('{"servers": {"a": 1, // a\n "w": {}}}', '{"servers": {"a": 1 // a\n }}'),
        ('{"servers": {"w": {} /* x */}}', "{}"),
        ('{"servers": {"w": {},}, "a": 1}', '{"a": 1}'),
        ('{"a": 1}', '{"a": 1}'),
        ("", ""),
    ],
)
def test_hand_written_waybook_entry_can_be_removed_from_json(text: str, expected: str) -> None:
    assert remove(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n"a": 1,\n"b": }', "line 3: this is not JSON"),
        ("[]", "line 1: the top level is not an object"),
        ('{"a": 1,\n"servers": []}', 'line 2: "servers" is not an object'),
        ('{"servers": {},\n"servers": {}}', 'line 2: "servers" occurs twice'),
        ('{"servers": {"w": 1,\n"w": 2}}', 'line 2: "w" occurs twice'),
        ("[" * 100_000, "this is not JSON"),
        ('{"a": ' + "9" * 5000 + "}", "this is not JSON that can be edited"),
    ],
)
def test_error_for_broken_json_config_names_the_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        add(text)


def test_comment_in_json_config_is_refused_if_client_forbids_comments() -> None:
    with pytest.raises(ConfigError, match="line 2"):
        json_edit.add_entry('{\n// note\n"a": 1}', "servers", "w", ENTRY, comments=False)


TOML_LINES = st.sampled_from(
    [
        "a = 1",
        "# note [x]",
        "",
        '[servers.other]\nurl = "u"',
        "[b]\nfloat = nan",
        '[[rows]]\ntext = """\n[x]\n"""',
        "[servers.w2]",
    ]
)
TOML_TEXTS = st.lists(TOML_LINES, max_size=6, unique=True).map(
    lambda lines: "\n".join(sorted(lines, key=lambda line: line.startswith("[")))
)


def add_toml(text: str | None, entry: Mapping[str, Any] = ENTRY) -> str:
    return toml_edit.add_entry(text, "servers", "w", entry)


def remove_toml(text: str) -> str:
    return toml_edit.remove_entry(text, "servers", "w")


@given(TOML_TEXTS, st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "\n", "\n\n"]))
def test_adding_then_removing_waybook_restores_toml_config_exactly(
    text: str, newline: str, end: str
) -> None:
    text = (text + end).replace("\n", newline)
    added = add_toml(text)
    assert added.startswith(text)
    assert tomllib.loads(added)["servers"]["w"] == ENTRY
    assert remove_toml(added) == text
    assert add_toml(added) == added
    other = {"url": "u", "http_headers": {"Authorization": "Bearer x\x7f"}}
    replaced = add_toml(added, other)
    assert tomllib.loads(replaced)["servers"]["w"] == other
    assert remove_toml(replaced) == text


@given(TOML_TEXTS, TOML_TEXTS)
def test_removing_waybook_keeps_tables_added_later_to_toml_config(text: str, later: str) -> None:
    try:
        expected = tomllib.loads(f"{text}\n{later}", parse_float=str)
    except tomllib.TOMLDecodeError:
        return
    if not later.startswith("["):
        return
    added = add_toml(text) + "[servers.w.tools.ping]\napproval = true\n" + later
    removed = remove_toml(added)
    assert tomllib.loads(removed, parse_float=str) == expected
    assert removed.endswith(later)


def test_removing_waybook_keeps_the_comment_above_the_next_table() -> None:
    later = '\n# my other server\n[servers.other]\nurl = "u" # [x]\n'
    header = add_toml("a = 1\n") + later
    assert remove_toml(header) == "a = 1\n" + later
    quoted = '[servers . "w"] # mine\nargs = [\n  "x",\n]\n[servers.w.env]\nA = "1"\n'
    assert remove_toml(quoted + later) == later
    assert remove_toml(add_toml(quoted + later, {"url": "v"})) == later


def test_replacing_waybook_entry_keeps_subtables_in_toml_config() -> None:
    added = add_toml("") + "\n[servers.w.tools.ping]\napproval = true\n"
    replaced = add_toml(added, {"url": "u"})
    assert tomllib.loads(replaced)["servers"]["w"] == {
        "url": "u",
        "tools": {"ping": {"approval": True}},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\nb =\n", "line 2: this is not TOML"),
        ("servers = 1", "line 1: servers.w is not a table"),
        ('a = 1\nservers = { w = { url = "u" } }', "line 2: .* header of its own"),
        ('a = 1\n[servers]\nw.url = "u"', "line 2|line 3"),
    ],
)
def test_error_for_broken_toml_config_names_the_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        add_toml(text)


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("is_http", [False, True])
def test_waybook_entry_can_be_read_and_removed_in_each_config(name: str, *, is_http: bool) -> None:
    client = CLIENTS[name]
    if is_http and client.url_field is None:
        return
    url = "http://127.0.0.1:8750/mcp"
    entry = client.http_entry(url, "secret") if is_http else client.stdio_entry(["/w", "mcp"])
    created = client.add(None, entry)
    assert client.read(created) == entry
    assert client.read(client.remove(created, None)) is None


@pytest.mark.parametrize(
    ("name", "platform", "expected"),
    [
        ("claude-code", "linux", "/users/me/.claude.json"),
        ("codex", "linux", "/codex/config.toml"),
        ("cursor", "win32", "/users/me/.cursor/mcp.json"),
        ("vscode", "linux", "/users/me/.config/Code/User/mcp.json"),
        ("vscode", "win32", "/appdata/Code/User/mcp.json"),
        ("gemini", "darwin", "/users/me/.gemini/settings.json"),
        (
            "claude-desktop",
            "darwin",
            "/users/me/Library/Application Support/Claude/claude_desktop_config.json",
        ),
    ],
)
def test_user_config_path_depends_on_platform_and_environment(
    name: str, platform: str, expected: str
) -> None:
    environment = {"CODEX_HOME": "/codex", "APPDATA": "/appdata"}
    places = Places(Path("/users/me"), Path("/project"), platform, environment)
    assert config_file(CLIENTS[name], ConfigScope.USER, places) == Path(expected)


def test_client_config_of_a_project_is_in_the_project_folder() -> None:
    places = Places(Path("/users/me"), Path("/project"), "linux", {})
    configs = {
        name: config_file(client, ConfigScope.PROJECT, places) for name, client in CLIENTS.items()
    }
    assert configs["claude-code"] == Path("/project/.mcp.json")
    assert configs["vscode"] == Path("/project/.vscode/mcp.json")
    assert configs["claude-desktop"] is None


def test_client_config_refers_to_token_by_environment_variable() -> None:
    configs = {
        name: client.http_entry("u", client.token_reference) for name, client in CLIENTS.items()
    }
    assert configs["codex"] == {"url": "u", "bearer_token_env_var": "WAYBOOK_TOKEN"}
    assert configs["claude-code"]["headers"] == {"Authorization": "Bearer ${WAYBOOK_TOKEN}"}
    assert configs["vscode"]["headers"] == {"Authorization": "Bearer ${env:WAYBOOK_TOKEN}"}


@pytest.mark.parametrize(
    ("started_as", "prefix", "programs", "expected"),
    [
        ("/bin/waybook", "/usr", ["/bin/waybook"], ["/bin/waybook"]),
        ("/venv/waybook/__main__.py", "/v", ["/v/bin/waybook"], ["/v/bin/waybook"]),
        ("/venv/waybook/__main__.py", "/v", [], ["/v/bin/python", "-m", "waybook"]),
        ("/c/uv/archive-v0/x/bin/waybook", "/c/uv/archive-v0/x", ["uvx"], ["uvx", "waybook"]),
        ("/c/uv/environments-v2/x/bin/waybook", "/c/uv/environments-v2/x", [], ["uvx", "waybook"]),
    ],
)
def test_command_in_client_config_is_absolute_path_or_uvx(
    started_as: str, prefix: str, programs: list[str], expected: list[str]
) -> None:
    present = {program: program for program in programs}
    assert command_for(started_as, "/v/bin/python", prefix, present.get) == expected


def test_uv_tool_environment_is_not_considered_temporary() -> None:
    assert not is_temporary_environment(PurePosixPath("/me/.local/share/uv/tools/waybook"))


def test_writing_client_config_keeps_symbolic_link_and_permissions(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("{}")
    real.chmod(0o640)
    link.symlink_to(real)
    write_config(link, '{"a": 1}\r\n')
    assert link.is_symlink()
    assert read_config(real) == '{"a": 1}\r\n'
    assert real.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "real.json"]


def test_error_for_client_config_not_in_utf8_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_bytes(b"a = 1\nb = \xff\n")
    with pytest.raises(ConfigError, match="line 2: this is not UTF-8"):
        read_config(file)
