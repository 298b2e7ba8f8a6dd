"""`waybook login`, `logout` and `completion`: the server to use, and completion in shells."""

import os
import sys
from contextlib import closing

import click
from click.shell_completion import get_completion_class

from waybook.cli.inputs import read_argument
from waybook.cli.options import token_option
from waybook.cli.output import done
from waybook.cli.remote import (
    Remote,
    find_remote,
    is_exposed,
    login_file,
    normalize_url,
    write_login,
)
from waybook.cli.terminal.errors import HintedError, ToolError, UnreachableError


@click.command()
@click.argument("url", required=False)
@token_option
def login_command(*, url: str | None, token: str | None) -> None:
    """Use a server from this terminal.

    All commands for people then read and act on the server at URL. The token is taken from --token
    (- reads it from stdin) or WAYBOOK_TOKEN; otherwise the page that creates tokens is opened, and
    you paste the token. It is stored in a file that only you can read. Without URL, show the
    server in use.
    """
    if url is None:
        used = find_remote()
        click.echo(used.url if used else "the local database")
        return
    remote = Remote(normalize_url(url), token or os.environ.get("WAYBOOK_TOKEN"))
    with closing(remote):
        if remote.token == "-":  # noqa: S105 - not a token
            remote.token = read_argument("-", "--token").strip()
        if remote.token is None and not _accepts(remote):
            remote.token = _ask_for_token(remote)
        if is_exposed(remote.url) and remote.token:
            click.echo(f"Note: {remote.url} is not encrypted; others may see your token.", err=True)
        _check(remote)
        write_login(remote)
    click.echo(done(f"the commands now use {remote.url}; see: waybook plan list"))


def _check(remote: Remote) -> None:
    """Read something, so that a wrong address, token or version is noticed now."""
    try:
        remote.read("plans", limit=1)
    except ToolError as error:
        if error.error["code"] != "FORBIDDEN":
            raise


def _accepts(remote: Remote) -> bool:
    """Return whether the server answers without a token, as on one's own machine."""
    try:
        _check(remote)
    except UnreachableError:
        raise
    except HintedError:
        return False
    return True


def _ask_for_token(remote: Remote) -> str:
    if not sys.stdin.isatty():
        hint = f"waybook login {remote.url} --token TOKEN, or set WAYBOOK_TOKEN"
        raise HintedError(f"{remote.url} requires a token", hint)
    page = f"{remote.url}/tokens"
    click.echo(f"Sign in and create a token on this page, then paste it here:\n  {page}")
    click.launch(page)
    token: str = click.prompt("token", hide_input=True)
    return token.strip()


@click.command()
def logout_command() -> None:
    """Delete the stored login; use the local database."""
    path = login_file()
    is_stored = path.exists()
    path.unlink(missing_ok=True)
    click.echo(done("logged out") if is_stored else "There is no stored login.")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print the completion for a shell.

    It completes commands, options, ids and names. For example, add to ~/.bashrc:
    eval "$(waybook completion bash)"
    """
    kind = get_completion_class(shell)
    if kind is not None:
        click.echo(kind(ctx.find_root().command, {}, "waybook", "_WAYBOOK_COMPLETE").source())
