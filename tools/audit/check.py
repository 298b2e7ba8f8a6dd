"""Run every security scanner over the repository: `make harness NAME=audit`.

First, each of the project's own Semgrep rules is tested with a sample file that violates the rule.
The audit fails if the rule does not report its sample file.
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
#: Findings that were reviewed and accepted, by kind and file, with the reasons.
ACCEPTED = {
    "B104: src/waybook/settings.py": "compared with, not listened on",
    "B108: src/waybook/embedded_postgres/data_directory.py": "private; the file checks its owner",
    "B301: src/waybook/app/request/layout_worker.py": "written by its own parent process",
    "B704: src/waybook/transport/http/dashboard/plans/plan_page.py": "SVG from our own renderer",
    "B704: src/waybook/transport/http/dashboard/texts.py": "sanitized on the line before",
    "B704: src/waybook/app/queries/plans/plan_snapshot.py": "our SVG, sanitized text, JSON",
    "B704: src/waybook/transport/http/dashboard/runs/run_page.py": "SVG from our own renderer",
    "B704: src/waybook/transport/http/dashboard/work_actions.py": "SVG from our own renderer",
    "Basic Auth Credentials: src/waybook/redaction.py": "an invented example",
    "Basic Auth Credentials: src/waybook/store/driver/addresses.py": "an invented example",
    "Basic Auth Credentials: src/waybook/app/operations/settings_display.py": "an invented example",
    "Slack Token: src/waybook/app/operations/settings_display.py": "an invented example",
    "Basic Auth Credentials: tests/cli/test_app.py": "a fake secret of the test",
    "Basic Auth Credentials: tests/cli/test_operating.py": "a fake secret of the test",
    "Basic Auth Credentials: tests/test_settings.py": "a fake secret of the test",
    "Basic Auth Credentials: tests/transport/test_record_pages.py": "a fake secret of the test",
    "JSON Web Token: tests/transport/test_secrets.py": "a fake secret of the test",
}
#: Detectors of secrets that are turned off, because they report every hash and id as a secret.
GUESSING_DETECTORS = ("Base64HighEntropyString", "HexHighEntropyString", "KeywordDetector")


def run(tool: str, *arguments: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [TOOLS / tool, *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def semgrep(root: Path) -> list[str]:
    """Return the Semgrep findings in a repository, each as `RULE: FILE:LINE`."""
    quiet = ("--metrics", "off", "--disable-version-check", "--no-git-ignore", "--quiet", "--json")
    done = run("semgrep", "scan", "--config", RULES, *quiet, *_folders(root), cwd=root)
    report = json.loads(done.stdout or "{}")
    if done.returncode or report.get("errors"):
        sys.exit(f"semgrep failed: {report.get('errors') or done.stderr}")
    return [
        f"{result['check_id'].rpartition('.')[2]}: {result['path']}:{result['start']['line']}"
        for result in report["results"]
    ]


def ineffective_rules() -> list[str]:
    """Return the Semgrep rules without a sample file, and those that do not report their sample."""
    samples = yaml.safe_load(SAMPLES.read_text())
    with tempfile.TemporaryDirectory() as folder:
        for files in samples.values():
            for name, text in files.items():
                file = Path(folder, name)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text.replace("TOKEN", "wb_" + string.ascii_letters[:40]))
        # Semgrep needs a Git repository, because the paths in its rules are relative to the
        # repository's root.
        subprocess.run(("git", "init", "-q"), cwd=folder, check=True)
        reported = {line.partition(":")[0] for line in semgrep(Path(folder))}
    rules = {rule["id"] for rule in yaml.safe_load(RULES.read_text())["rules"]}
    return sorted(f"ineffective: {rule}" for rule in rules - (reported & set(samples)))


def rule_violations() -> list[str]:
    """Return the places in the repository that violate a Semgrep rule."""
    return semgrep(ROOT)


def bandit() -> list[str]:
    done = run("bandit", "-q", "-r", "src", "-f", "json", "--severity-level", "medium")
    report = json.loads(done.stdout)
    return [
        f"{result['test_id']}: {result['filename']}:{result['line_number']} {result['issue_text']}"
        for result in report["results"]
    ] + [f"not read: {error}" for error in report["errors"]]


def secrets() -> list[str]:
    disabled = [word for name in GUESSING_DETECTORS for word in ("--disable-plugin", name)]
    done = run("detect-secrets", "scan", "--no-verify", *disabled, *_tracked())
    if done.returncode:
        sys.exit(f"detect-secrets failed: {done.stderr}")
    secrets_by_file = json.loads(done.stdout)["results"]
    return [
        f"{secret['type']}: {name}:{secret['line_number']}"
        for name, listed in secrets_by_file.items()
        for secret in listed
    ]


def _without_line_number(finding: str) -> str:
    """Return the kind and the file of a finding, which is a key of `ACCEPTED`."""
    kind, _, position = finding.partition(": ")
    return f"{kind}: {position.split(':')[0]}"


def _tracked() -> list[str]:
    listed = subprocess.run(
        ("git", "ls-files"), cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in listed.stdout.splitlines() if not name.endswith((".lock", ".json"))]


def _folders(root: Path) -> Sequence[str]:
    known = ("src", "tests", "docs", "tools", "benchmarks", "examples", "README.md")
    return [name for name in known if (root / name).exists()]


CHECKS: dict[str, Callable[[], list[str]]] = {
    "every rule reports its sample file": ineffective_rules,
    "no file breaks a rule": rule_violations,
    "Bandit reports nothing": bandit,
    "no file contains a secret": secrets,
}


def main() -> int:
    errors, reported = 0, set[str]()
    for expectation, check in CHECKS.items():
        findings = check()
        reported |= {_without_line_number(finding) for finding in findings}
        new = [finding for finding in findings if _without_line_number(finding) not in ACCEPTED]
        sys.stdout.write(f"{'✗' if new else '✓'} {expectation}\n")
        for finding in new:
            sys.stdout.write(f"    {finding}\n")
        errors += len(new)
    for obsolete in sorted(ACCEPTED.keys() - reported):
        sys.stdout.write(f"✗ accepted, but no longer reported: {obsolete}\n")
        errors += 1
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
