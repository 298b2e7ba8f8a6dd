"""Test of the plugins with real clients: `make harness NAME=plugins`."""

import subprocess
from pathlib import Path
from typing import Final

from node_packages import NODE, environment, install
from plugin_clients import claude_code, gemini_cli
from plugins.hook_process import ROOT
from waybook.cli.commands.plugin import write_plugins

WANTED: Final = Path(__file__).parent / "clients"
MANIFEST: Final = ROOT / "src" / "waybook" / "plugins" / "mcpb" / "manifest.json"


def main() -> None:
    """Validate the bundle manifest and the plugin, then run the test with each client."""
    packages = install(WANTED, "plugin-clients") / "node_modules"
    validate = packages / "@anthropic-ai" / "mcpb" / "dist" / "cli" / "cli.js"
    command = [str(NODE / "bin" / "node"), str(validate), "validate", str(MANIFEST)]
    subprocess.run(command, env=environment(), check=True)
    write_plugins(claude_code.PLUGIN.parent)
    (program,) = (packages / "@anthropic-ai").glob("claude-code-*/claude")
    subprocess.run([str(program), "plugin", "validate", str(claude_code.PLUGIN)], check=True)
    claude_code.main(str(program))
    gemini_cli.main(str(packages / "@google" / "gemini-cli" / "bundle" / "gemini.js"))


if __name__ == "__main__":
    main()
