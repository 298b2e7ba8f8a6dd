"""Write requirements/sbom.cdx.json, the CycloneDX bill of materials of Waybook's dependencies.

The script runs in the virtual environment of the scanners. The output has no timestamp and no
serial number, so that the same lock file gives the same bytes.
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
    """Return the bill of materials with the locked packages and the bundled htmx script."""
    command = (TOOL, "requirements", LOCK, "--pyproject", ROOT / "pyproject.toml")
    settings = ("--mc-type", "application", "--output-reproducible", "--of", "JSON")
    done = subprocess.run((*command, *settings), capture_output=True, text=True, check=True)
    bom: dict[str, object] = json.loads(done.stdout)
    listed = [_component(entry) for entry in bom.get("components", ())]  # type: ignore[attr-defined]
    bom["components"] = sorted([*listed, _htmx()], key=lambda component: str(component["purl"]))
    bom["dependencies"] = []
    return bom


def _component(entry: dict[str, Any]) -> dict[str, object]:
    """Return the CycloneDX entry of a package: its name, version and permitted file hashes."""
    hashes = [digest for link in entry["externalReferences"] for digest in link.get("hashes", ())]
    identity = {name: entry[name] for name in ("name", "version", "purl", "type")}
    return {**identity, "bom-ref": entry["purl"], "hashes": hashes}


def _htmx() -> dict[str, object]:
    text = HTMX.read_bytes()
    (version,) = re.findall(rb'version:"([0-9.]+)"', text)
    purl = f"pkg:npm/htmx.org@{version.decode()}"
    identity = {"name": "htmx.org", "version": version.decode(), "purl": purl, "type": "library"}
    digest = {"alg": "SHA-256", "content": sha256(text).hexdigest()}
    return {**identity, "bom-ref": purl, "hashes": [digest]}


def main() -> None:
    FILE.write_text(json.dumps(bill(), indent=1, sort_keys=True, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
