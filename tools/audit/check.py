"""What `make audit` does: every scanner over the files that are in the repository.

Run by the environment of the scanners, not by ours. First each of our rules is shown a file that
breaks it: a rule that does not find it has stopped looking.
"""

import json
import string
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
TOOLS = Path(sys.executable).parent
RULES = HERE / "rules.yaml"
SAMPLES = HERE / "samples.yaml"
#: What they find and we have looked at: where, and why it stays.
ACCEPTED = {
    "B104: src/waybook/settings.py": "told apart, not listened on",
    "B108: src/waybook/embedded_postgres/layout.py": "private; data_directory.py checks its owner",
    "B108: src/waybook/embedded_postgres/data_directory.py": "the same",
    "B301: src/waybook/app/request/layout_worker.py": "written by its own parent process",
    "B704: src/waybook/transport/http/dashboard/plan_view.py": "our own drawing",
    "B704: src/waybook/transport/http/html/layout.py": "cleaned just before",
    "B704: src/waybook/transport/http/dashboard/run_view.py": "our own drawing",
    "B704: src/waybook/transport/http/dashboard/workflows.py": "our own drawing",
    "Basic Auth Credentials: src/waybook/redaction.py": "an example, made up",
    "Basic Auth Credentials: src/waybook/store/driver/addresses.py": "an example, made up",
    "Basic Auth Credentials: src/waybook/app/operations/settings_display.py": "an example, made up",
    "Slack Token: src/waybook/app/operations/settings_display.py": "an example, made up",
    "Basic Auth Credentials: tests/cli/test_app.py": "a canary",
    "Basic Auth Credentials: tests/cli/test_operating.py": "a canary",
    "Basic Auth Credentials: tests/test_settings.py": "a canary",
    "Basic Auth Credentials: tests/transport/test_record_pages.py": "a canary",
    "JSON Web Token: tests/transport/test_secrets.py": "a canary",
}
#: Those that guess by the look of a text find every hash and every id; the others know their prey.
GUESSERS = ("Base64HighEntropyString", "HexHighEntropyString", "KeywordDetector")


def run(tool: str, *arguments: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """What a scanner says."""
    command = [TOOLS / tool, *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def semgrep(where: Path) -> list[str]:
    """What our rules find there, one line each, beginning with the rule."""
    quiet = ("--metrics", "off", "--disable-version-check", "--no-git-ignore", "--quiet", "--json")
    done = run("semgrep", "scan", "--config", RULES, *quiet, *_folders(where), cwd=where)
    found = json.loads(done.stdout or "{}")
    if done.returncode or found.get("errors"):
        sys.exit(f"semgrep could not look: {found.get('errors') or done.stderr}")
    return [
        f"{one['check_id'].rpartition('.')[2]}: {one['path']}:{one['start']['line']}"
        for one in found["results"]
    ]


def rules_look() -> list[str]:
    """Rules that do not find the file that breaks them, or have none."""
    samples = yaml.safe_load(SAMPLES.read_text())
    with tempfile.TemporaryDirectory() as folder:
        for files in samples.values():
            for name, text in files.items():
                place = Path(folder, name)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text.replace("TOKEN", "wb_" + string.ascii_letters[:40]))
        # Rules name paths from the root of a repository.
        subprocess.run(("git", "init", "-q"), cwd=folder, check=True)
        found = {line.partition(":")[0] for line in semgrep(Path(folder))}
    rules = {rule["id"] for rule in yaml.safe_load(RULES.read_text())["rules"]}
    return sorted(f"blind: {rule}" for rule in rules - (found & set(samples)))


def rules_broken() -> list[str]:
    """Files of ours that break a rule."""
    return semgrep(ROOT)


def bandit() -> list[str]:
    """What Bandit finds in the package."""
    done = run("bandit", "-q", "-r", "src", "-f", "json", "--severity-level", "medium")
    found = json.loads(done.stdout)
    return [
        f"{one['test_id']}: {one['filename']}:{one['line_number']} {one['issue_text']}"
        for one in found["results"]
    ] + [f"not read: {one}" for one in found["errors"]]


def secrets() -> list[str]:
    """Texts that are keys, in any file of the repository."""
    off = [word for name in GUESSERS for word in ("--disable-plugin", name)]
    done = run("detect-secrets", "scan", "--no-verify", *off, *_tracked())
    if done.returncode:
        sys.exit(f"detect-secrets could not look: {done.stderr}")
    found = json.loads(done.stdout)["results"]
    return [
        f"{one['type']}: {name}:{one['line_number']}"
        for name, ones in found.items()
        for one in ones
    ]


def _place(line: str) -> str:
    """What was found and in which file, without the line."""
    kind, _, where = line.partition(": ")
    return f"{kind}: {where.split(':')[0]}"


def _tracked() -> list[str]:
    listed = subprocess.run(
        ("git", "ls-files"), cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in listed.stdout.splitlines() if not name.endswith((".lock", ".json"))]


def _folders(where: Path) -> Sequence[str]:
    known = ("src", "tests", "docs", "tools", "benchmarks", "examples", "README.md")
    return [name for name in known if (where / name).exists()]


CHECKS: dict[str, Callable[[], list[str]]] = {
    "every rule finds the file that breaks it": rules_look,
    "no file breaks a rule of ours": rules_broken,
    "Bandit finds nothing": bandit,
    "no secret is in a file": secrets,
}


def main() -> int:
    """Run them all, say what each found."""
    bad, seen = 0, set[str]()
    for what, check in CHECKS.items():
        told = check()
        seen |= {_place(line) for line in told}
        found = [line for line in told if _place(line) not in ACCEPTED]
        sys.stdout.write(f"{'✗' if found else '✓'} {what}\n")
        for line in found:
            sys.stdout.write(f"    {line}\n")
        bad += len(found)
    for gone in sorted(ACCEPTED.keys() - seen):
        sys.stdout.write(f"✗ accepted, but not there any more: {gone}\n")
        bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
