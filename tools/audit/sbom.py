"""Writes requirements/sbom.cdx.json: what Waybook is run with, as CycloneDX lists it.

Run by the environment of the scanners. The same lock gives the same file: no time, no serial.
"""

import json
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
LOCK = ROOT / "requirements" / "run.lock"
FILE = ROOT / "requirements" / "sbom.cdx.json"
HTMX = ROOT / "src/waybook/transport/http/html/static/htmx.min.js"
TOOL = Path(sys.executable).parent / "cyclonedx-py"


def bill() -> dict[str, object]:
    """The bill of materials of the lock file."""
    command = (TOOL, "requirements", LOCK, "--pyproject", ROOT / "pyproject.toml")
    settings = ("--mc-type", "application", "--output-reproducible", "--of", "JSON")
    done = subprocess.run((*command, *settings), capture_output=True, text=True, check=True)
    made: dict[str, object] = json.loads(done.stdout)
    listed = [_component(one) for one in made.get("components", ())]  # type: ignore[attr-defined]
    made["components"] = sorted([*listed, _htmx()], key=lambda one: str(one["purl"]))
    made["dependencies"] = []
    return made


def _component(told: dict[str, Any]) -> dict[str, object]:
    """A package by its name, its version and the hashes it may be installed by."""
    hashes = [one for link in told["externalReferences"] for one in link.get("hashes", ())]
    kept = {name: told[name] for name in ("name", "version", "purl", "type")}
    return {**kept, "bom-ref": told["purl"], "hashes": hashes}


def _htmx() -> dict[str, object]:
    """The script that lies in our own folder."""
    text = HTMX.read_bytes()
    (version,) = re.findall(rb'version:"([0-9.]+)"', text)
    purl = f"pkg:npm/htmx.org@{version.decode()}"
    known = {"name": "htmx.org", "version": version.decode(), "purl": purl, "type": "library"}
    seal = {"alg": "SHA-256", "content": sha256(text).hexdigest()}
    return {**known, "bom-ref": purl, "hashes": [seal]}


def main() -> None:
    """Write it."""
    FILE.write_text(json.dumps(bill(), indent=1, sort_keys=True, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
