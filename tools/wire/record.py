"""Record everything that a Waybook version replies, and compare two recordings.

    record.py record OUT [--waybook PATH/.venv/bin/waybook] [--quick]
    record.py compare A B [--only wire,prose,texts]

`record` starts a server with an empty data directory and calls it through HTTP, MCP and the command
line in a fixed scenario. Ids, times, hashes, ports and measurements become placeholders, so that
two recordings of the same code are byte-identical.

A recording has three sections. `wire` is the interface for programs: tool replies, status codes,
headers, links and form fields of pages, JSON of commands, names of options. `prose` has the
messages and descriptions in these replies. `texts` has the pages and the command output for people.
`compare` prints a diff per entry, and exits with 1 if a section differs.
"""

import argparse
import json
import sys
from difflib import unified_diff
from pathlib import Path
from typing import Any

import scenario
import surfaces
from recorder import Mcp, Recorder
from server import Installation, installation

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = ("wire", "prose", "texts")


def record(waybook: Path, *, quick: bool = False) -> dict[str, Any]:
    """Run the scenario with this `waybook` command; return the normalized recording."""
    recorder = Recorder()
    with installation(waybook) as installed:
        surfaces.prepare(installed)
        literals = {str(installed.home): "<home>", str(waybook.parent): "<bin>"}
        with surfaces.receiver(installed) as (received, port):
            literals[f"127.0.0.1:{port}"] = "<receiver>"
            literals |= _local_mode(recorder, installed, quick=quick)
            surfaces.record_webhooks(recorder, installed, received)
        literals |= surfaces.record_server_mode(recorder, installed)
        return recorder.recording(literals)


def _local_mode(recorder: Recorder, installed: Installation, *, quick: bool) -> dict[str, str]:
    with installed.serving("--tools", "all") as server:
        mcp = Mcp(recorder, server)
        scenario.list_everything(mcp)
        ids = {**scenario.call_plan_tools(mcp), **scenario.call_run_tools(mcp, server)}
        scenario.read_prompts_and_resources(mcp, ids)
        _check_coverage(mcp)
        surfaces.record_rest(recorder, server, ids)
        surfaces.record_pages(recorder, server, ids)
        surfaces.record_forms(recorder, server, ids)
        if not quick:
            surfaces.record_commands(recorder, installed, ids)
        surfaces.record_stdio(recorder, installed)
        return {f"127.0.0.1:{server.port}": "<server>", f"localhost:{server.port}": "<server>"}


def _check_coverage(mcp: Mcp) -> None:
    """Exit with an error if a tool never succeeded, or was never refused, in the scenario."""
    for kind, tools in (("succeeded", mcp.recorder.succeeded), ("refused", mcp.recorder.refused)):
        if missing := set(mcp.schemas) - tools:
            sys.exit(f"the scenario has no call that {kind} for: {', '.join(sorted(missing))}")


def compare(first: Path, second: Path, sections: list[str]) -> int:
    """Print the differences between two recordings; return 1 if there are any."""
    left, right = (json.loads(path.read_text()) for path in (first, second))
    different = 0
    for section in sections:
        before, after = left[section], right[section]
        changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        for name in changed:
            title = f"{section}: {name}"
            sys.stdout.writelines(
                f"{line}\n"
                for line in unified_diff(
                    _lines(before.get(name)),
                    _lines(after.get(name)),
                    title,
                    title,
                    lineterm="",
                    n=2,
                )
            )
        entries = len({**before, **after})
        sys.stdout.write(f"{section}: {len(changed)} of {entries} entries differ\n")
        different += len(changed)
    return 1 if different else 0


def _lines(value: object) -> list[str]:
    return json.dumps(value, indent=1, ensure_ascii=False).splitlines() if value is not None else []


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="record the replies of a version")
    recording.add_argument("out", type=Path)
    recording.add_argument("--waybook", type=Path, default=ROOT / ".venv/bin/waybook")
    recording.add_argument("--quick", action="store_true", help="leave out the commands")
    comparing = commands.add_parser("compare", help="compare two recordings")
    comparing.add_argument("first", type=Path)
    comparing.add_argument("second", type=Path)
    comparing.add_argument("--only", default=",".join(SECTIONS), help="sections to compare")
    options = parser.parse_args(arguments)
    if options.command == "compare":
        return compare(options.first, options.second, options.only.split(","))
    recorded = record(options.waybook.absolute(), quick=options.quick)
    options.out.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")
    counts = ", ".join(f"{len(recorded[section])} {section}" for section in SECTIONS)
    sys.stdout.write(f"{options.out}: {counts}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
