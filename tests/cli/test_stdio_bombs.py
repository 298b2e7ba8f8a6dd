"""Hostile input to `waybook mcp`: each line gets an answer, and the session stays usable."""

import json
from collections.abc import Iterator

import psycopg
from psycopg import sql

import bombs
from cli.limited_process import MEBIBYTE, Session, limited_session
from cli.terminal import Terminal
from waybook.embedded_postgres.supervisor import Attachment

#: Input lines that are not valid messages.
LINES = {
    "not UTF-8": b"\xff\xfe\xfd",
    "not UTF-8 in a request": b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
    "a surrogate in UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"\xed\xa0\x80"}',
    "UTF-16": '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16-le"),
    "NULs": b"\0" * 1000,
    "no message": b'{"id":1,"method":"ping"}',
    "many messages": b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
    **{name: text.encode() for name, text in bombs.VALUES.items()},
}
WRITTEN = ("plan", "plan_brief", "plan_step", "step_brief", "plan_session", "idempotency_answer")
STEPS = '"steps":[{"stepType":"custom","instructions":"Do."}]'
PLAN = '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"create_research_plan",'


def in_a_plan(value: str) -> bytes:
    """Return a plan creation request that is valid except for this research question."""
    return f'{PLAN}"arguments":{{"name":"a","researchQuestion":{value},{STEPS}}}}}}}'.encode()


def stored(attachment: Attachment) -> dict[str, int]:
    """Return the row counts of the tables that a request to create a plan writes to.

    Other tables may grow at the same time, because a session also finishes background work that
    earlier sessions left.
    """
    with psycopg.connect(attachment.admin_dsn) as admin:
        count = sql.SQL("select count(*) from {}")
        counts = {name: count.format(sql.Identifier(name)) for name in WRITTEN}
        return {name: admin.execute(query).fetchall()[0][0] for name, query in counts.items()}


def so_much(size: int, before: bytes, after: bytes) -> Iterator[bytes]:
    """Yield the bytes of a request that contains a string of about `size` bytes."""
    yield before + b'"'
    for _ in range(size // MEBIBYTE):
        yield b"x" * MEBIBYTE
    yield b'"' + after


def refusals(session: Session) -> list[tuple[object, object]]:
    rejected = [(message["id"], message["error"]["code"]) for message in session.said]
    session.said.clear()
    return rejected


async def test_mcp_session_over_stdio_continues_after_hostile_input(
    terminal: Terminal, attachment: Attachment
) -> None:
    async with limited_session("--data-dir", str(terminal.data_dir)) as session:
        before = stored(attachment)
        await check_invalid_lines(session)
        await check_hostile_arguments(session)
        assert await session.end() == b""
    assert stored(attachment) == before


async def check_invalid_lines(session: Session) -> None:
    for name, line in LINES.items():
        await session.write([line, b"\n"])
        await session.works()
        ((whose, code),) = refusals(session)
        assert whose is None, name
        assert code in {-32700, -32600}, name
    await session.write([b"\n", b"  \r\n"])
    await session.works()
    assert refusals(session) == []  # The server does not respond to empty lines.


async def check_hostile_arguments(session: Session) -> None:
    for name, value in bombs.VALUES.items():
        await session.write([in_a_plan(value), b"\n"])
        await session.works()
        reply = session.said.pop() if session.said else await session.hear(7)
        assert session.said == [], name
        if "error" in reply:
            assert (reply["id"], reply["error"]["code"]) == (None, -32700), name
        else:
            assert reply["result"]["isError"], name
            error = json.loads(reply["result"]["content"][0]["text"])["error"]
            assert error["code"] in {"INVALID_INPUT", "TOO_LARGE"}, name


async def test_stdio_refuses_too_long_line_with_the_request_id(terminal: Terminal) -> None:
    ahead = so_much(100 * MEBIBYTE, b'{"jsonrpc":"2.0","id":7,"method":"ping","params":', b"}\n")
    behind = so_much(2 * MEBIBYTE, b'{"method":"ping","params":', b',"jsonrpc":"2.0","id":"a"}\n')
    without_id = so_much(2 * MEBIBYTE, b'{"method":"ping","params":', b"}\n")
    request = b'{"jsonrpc":"2.0","id":7,"method":"ping"'
    longest = request + b" " * (MEBIBYTE - len(request) - 1) + b"}\n"
    async with limited_session("--data-dir", str(terminal.data_dir)) as session:
        await session.write([longest])
        assert (await session.hear(7))["result"] == {}
        for line, whose in (([b" " + longest], 7), (ahead, 7), (behind, "a"), (without_id, None)):
            await session.write(line)
            refused = (await session.hear(whose))["error"]
            assert refused["data"]["error"]["code"] == "TOO_LARGE"
            assert refused["data"]["error"]["details"] == {"limit": MEBIBYTE}
            await session.works()
        await session.write([b"x" * MEBIBYTE] * 20)
        (last,) = (await session.end()).splitlines()
        assert json.loads(last)["error"]["data"]["error"]["code"] == "TOO_LARGE"
