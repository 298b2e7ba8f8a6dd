"""Dependencies, which are pinned by hash and listed in the bill of materials."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from project.repository import ROOT, tracked

LOCKS = sorted((ROOT / "requirements").glob("*.lock"))
PINNED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", re.MULTILINE)
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def packages(lock: Path) -> dict[str, tuple[str, set[str]]]:
    """Return the version and the allowed hashes of each package in a lock file."""
    entries = re.split(r"^(?=\S)", lock.read_text(), flags=re.MULTILINE)
    named = [(PINNED.match(entry), entry) for entry in entries if entry.strip()]
    return {m[1]: (m[2], set(HASH.findall(entry))) for m, entry in named if m}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_lock_file_pins_every_package_by_hash(lock: Path) -> None:
    requirements = [line for line in lock.read_text().splitlines() if re.match(r"[^\s#]", line)]
    assert len(requirements) == len(packages(lock)) > 0
    assert [name for name, (_, hashes) in packages(lock).items() if not hashes] == []


def test_npm_lock_files_have_hashes_and_contain_no_index_url() -> None:
    locks = [path for path in tracked() if path.name == "package-lock.json"]
    assert len(locks) > 2
    for lock in locks:
        packages_by_path = json.loads(lock.read_text("utf-8"))["packages"]
        listed = [entry for path, entry in packages_by_path.items() if path]
        assert all("integrity" in entry and "resolved" not in entry for entry in listed), lock


def test_makefile_installs_packages_from_lock_files_only() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.findall(r".*pip (?:install|sync).*", makefile) == []
    named = re.findall(r"\$\(SETUP\) \S+ (.+?)(?: \|\|| &&|$)", makefile, re.MULTILINE)
    assert {file for files in named for file in files.split() if not file.endswith(".lock")} == {
        "$(WAYBOOK)"
    }


def test_pip_and_uv_install_only_the_packages_of_the_lock_file() -> None:
    """With `--no-deps`, pip installs no package that the lock file lacks."""
    program = (ROOT / "tools" / "setup_env.py").read_text()
    assert re.findall(r'"sync", "--require-hashes"|"install", "--no-deps"', program) == [
        '"install", "--no-deps"',
        '"sync", "--require-hashes"',
        '"install", "--no-deps"',
    ]


@pytest.mark.parametrize("name", ["run.lock", "build.lock"])
def test_development_lock_file_includes_every_package_of_other_lock_files(name: str) -> None:
    """`make demo` and `make test` use the same environment, so they must need the same versions."""
    parts = packages(ROOT / "requirements" / name)
    assert parts.items() <= packages(ROOT / "requirements" / "dev.lock").items()


def test_sbom_lists_locked_packages_and_bundled_htmx() -> None:
    bill = json.loads((ROOT / "requirements" / "sbom.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    listed = {component["name"]: component for component in bill["components"]}
    htmx = listed.pop("htmx.org")
    locked = packages(ROOT / "requirements" / "run.lock")
    assert {
        name: (component["version"], {digest["content"] for digest in component["hashes"]})
        for name, component in listed.items()
    } == locked
    script = ROOT / "src/waybook/transport/http/html/static/htmx.min.js"
    assert htmx["hashes"][0]["content"] == hashlib.sha256(script.read_bytes()).hexdigest()
