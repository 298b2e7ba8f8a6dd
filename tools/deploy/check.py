"""Check the deployment files in deploy/: `make harness NAME=deploy-check`.

No container runtime is needed: the script runs the image's commands in an empty directory, if
possible as an unprivileged user. A check is skipped and reported if its tool (Go, ShellCheck,
systemd) is not installed. With CI=true, a missing tool is an error.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import kubernetes_validate
import yaml

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "waybook"
LINTERS = Path(sys.executable).parent
#: Versions of Kubernetes whose schemas the manifests must match: the oldest and the newest
#: supported one.
KUBERNETES_VERSIONS = ("1.25", "1.37")
#: Values to render the Helm chart with: the defaults, options turned on, and options turned off.
VALUES: tuple[Mapping[str, object], ...] = (
    {},
    {
        "replicas": 1,
        "settings": {"WAYBOOK_TOOLS": "all"},
        "settingsSecret": "more",
        "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "tls"},
        "networkPolicy": {"egressTo": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]},
    },
    {"retention": {"enabled": False}, "networkPolicy": {"enabled": False}},
)
#: Pattern for names of chart values that would contain a secret. Instead, the chart must use the
#: name of a Kubernetes secret.
SECRET_NAME = re.compile(r"(password|token|secret|key|dsn)$", re.IGNORECASE)
#: Id of the system account under which the container runs.
IMAGE_USER = 10001


class MissingTool(Exception):
    pass


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Run a command; return its output, or exit with its output if it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command[0]} failed:\n{done.stdout}{done.stderr}"
    return done.stdout


def find_tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise MissingTool(name)
    return path


def check_image() -> None:
    run(LINTERS / "hadolint", DEPLOY / "Dockerfile")


def check_scripts() -> None:
    run(find_tool("shellcheck"), DEPLOY / "install.sh", DEPLOY / "postgres-roles.sh")


def check_yaml() -> None:
    """Check the syntax of all YAML files except templates, and the services of compose.yaml."""
    rules = "{extends: default, rules: {line-length: {max: 100}, document-start: disable}}"
    files = [DEPLOY / "compose.yaml", CHART / "values.yaml", CHART / "Chart.yaml"]
    run(LINTERS / "yamllint", "--strict", "--config-data", rules, *files)
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
    for name in ("migrate", "waybook"):
        assert services[name]["read_only"] is True, f"the service {name} must be read-only"
        assert services[name]["cap_drop"] == ["ALL"], (
            f"the service {name} must drop all capabilities"
        )


def check_chart() -> None:
    """Render the Helm chart with each of the `VALUES`; check the manifests against schemas."""
    assert not list(secret_values(yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))))
    for values in VALUES:
        manifests = render(values)
        assert {manifest["kind"] for manifest in manifests} >= {"Deployment", "Service", "Job"}
        for manifest in manifests:
            for version in KUBERNETES_VERSIONS:
                kubernetes_validate.validate(manifest, version, strict=True)
            for container in containers(manifest):
                security = container["securityContext"]
                assert security["readOnlyRootFilesystem"] is True, manifest["kind"]
                assert security["allowPrivilegeEscalation"] is False, manifest["kind"]


def secret_values(values: Mapping[str, object], path: str = "") -> Iterator[str]:
    """Yield the names of chart values that hold a secret itself, not the name of a secret."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from secret_values(value, f"{path}{name}.")
        elif SECRET_NAME.search(name) and not name.endswith("Secret"):
            yield path + name


def containers(manifest: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Yield the containers in a Kubernetes manifest, at any depth."""
    for name, value in manifest.items():
        if name == "containers" and isinstance(value, list):
            yield from value
        elif isinstance(value, dict):
            yield from containers(value)


def render(values: Mapping[str, object]) -> list[dict[str, object]]:
    """Return the Kubernetes manifests of the chart with these values."""
    with tempfile.TemporaryDirectory() as folder:
        values_file = Path(folder, "values.yaml")
        values_file.write_text(yaml.safe_dump(dict(values)), "utf-8")
        # Folder of Go libraries on Debian.
        packages = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": folder}
        go = find_tool("go")
        text = run(go, "run", HERE / "render.go", CHART, "team", values_file, **packages)
    return [manifest for manifest in yaml.safe_load_all(text) if manifest]


def check_unit() -> None:
    """Check the systemd unit.

    systemd checks that the command of a unit exists, so the checked copy has another command than
    `waybook`.
    """
    analyze = find_tool("systemd-analyze")
    text = (DEPLOY / "systemd" / "waybook.service").read_text("utf-8")
    with tempfile.TemporaryDirectory() as folder:
        unit = Path(folder, "waybook.service")
        unit.write_text(text.replace("/opt/waybook/bin/waybook", "/bin/true"), "utf-8")
        run(analyze, "verify", unit)
        run(analyze, "security", "--offline=yes", "--threshold=25", unit)


def check_install() -> None:
    """Install and start Waybook in an empty directory, by the commands of the container image."""
    wheels = sorted((ROOT / "dist").glob("*.whl"))
    assert wheels, "run `make wheel` first"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        place.chmod(0o755)
        build, target, data = place / "build", place / "waybook", place / "data"
        build.mkdir()
        for file in (DEPLOY / "install.sh", ROOT / "requirements" / "run.lock", wheels[-1]):
            shutil.copy(file, build)
        run("sh", "install.sh", target, cwd=build, EMBEDDED="0")
        data.mkdir()
        as_user: list[str] = []
        if os.geteuid() == 0:
            os.chown(data, IMAGE_USER, IMAGE_USER)
            as_user = [find_tool("setpriv"), f"--reuid={IMAGE_USER}", f"--regid={IMAGE_USER}"]
            as_user += ["--clear-groups"]
        command = [*as_user, str(target / "bin" / "waybook")]
        environment = {"HOME": str(data), "PYTHONDONTWRITEBYTECODE": "1"}
        run(*command, "--version", cwd=data, **environment)
        run(*command, "serve", "--help", cwd=data, **environment)


CHECKS: tuple[Callable[[], None], ...] = (
    check_image,
    check_scripts,
    check_yaml,
    check_chart,
    check_unit,
    check_install,
)


def main() -> int:
    failed = 0
    for check in CHECKS:
        title = check.__name__.replace("_", " ")
        try:
            check()
        except MissingTool as error:
            sys.stdout.write(f"left out  {title}: {error} is not installed\n")
            failed += os.environ.get("CI") == "true"
        except (AssertionError, kubernetes_validate.ValidationError) as error:
            sys.stdout.write(f"failed    {title}\n{error}\n")
            failed += 1
        else:
            sys.stdout.write(f"ok        {title}\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
