"""`tools/setup_env.py`, which creates `.venv` for every `make` target, tested offline."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from project.repository import ROOT
from tools.setup_env import Environment, pip_settings, uv_variables

#: Program that runs a script without the module `ensurepip`, which Debian has in the package
#: `python3-venv`.
WITHOUT_VENV = """
import runpy, sys
import importlib.util as util
find = util.find_spec
util.find_spec = lambda name: None if name == "ensurepip" else find(name)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
#: Lock file with a package that is on no index.
ABSENT = f"absent==1.0 --hash=sha256:{64 * '0'}\n"


class Checkout:
    """Folder with `setup_env.py`, a lock file for one package, and a package index."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = root / ".venv"
        self.program = root / "tools" / "setup_env.py"
        for name in ("tools/setup_env.py", "requirements/uv.lock"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
        self.write_package("1.0")

    def write_package(self, version: str) -> str:
        """Add a version of the package to the index; write and return a lock file for it."""
        index = self.root / "index"
        index.mkdir(exist_ok=True)
        wheel = index / f"tiny-{version}-py3-none-any.whl"
        about = f"tiny-{version}.dist-info"
        with ZipFile(wheel, "w") as archive:
            archive.writestr("tiny.py", f"version = {version!r}\n")
            archive.writestr(
                f"{about}/METADATA", f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n"
            )
            archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            archive.writestr(f"{about}/RECORD", "")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        locked = f"tiny=={version} --hash=sha256:{digest}\n"
        self.lock(locked)
        return locked

    def lock(self, text: str) -> None:
        (self.root / "tiny.lock").write_text(text, "utf-8")

    def set_up(
        self, *prefix: str, python: str = sys.executable
    ) -> subprocess.CompletedProcess[str]:
        """Run `setup_env.py` with a local folder as its only package index.

        The folder has no uv, so uv cannot be installed.
        """
        variables = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.root / "index")}
        command = [python, *prefix, str(self.program), ".venv", "tiny.lock"]
        return subprocess.run(
            command,
            env={**variables, **index},
            cwd=self.root,
            check=False,
            capture_output=True,
            text=True,
        )

    def installed_version(self) -> str:
        command = [str(self.environment / "bin/python"), "-c", "import tiny; print(tiny.version)"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_setup_recovers_from_missing_venv_module_and_failed_installation(
    checkout: Checkout,
) -> None:
    """All cases are in one test, because creating an environment takes longer than the cases."""
    locked = checkout.write_package("1.0")
    (checkout.environment / "half-made").mkdir(parents=True)
    first = checkout.set_up("-c", WITHOUT_VENV)
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    assert first.returncode == 1
    assert first.stderr.startswith(f"{name} cannot create virtual environments: ")
    assert first.stderr.endswith(", then try again.\n")
    assert first.stderr.count("\n") == 1
    second = checkout.set_up()
    assert second.returncode == 0
    assert second.stderr.splitlines() == [
        ".venv is incomplete or was made by another Python: rebuilding it.",
        "uv failed (it cannot be downloaded); installing with pip instead, which takes longer.",
    ]
    assert checkout.installed_version() == "1.0"
    # After the README's setup, `.venv/bin` is on the PATH, so `python3` is the Python of `.venv`.
    again = checkout.set_up(python=str(checkout.environment / "bin" / "python"))
    assert (again.returncode, again.stderr) == (0, "")
    checkout.lock(ABSENT)
    failed = checkout.set_up()
    assert failed.returncode == 1
    assert "absent==1.0" in failed.stderr
    assert failed.stderr.endswith("pip could not install the packages.\n")
    checkout.lock(locked)
    assert checkout.set_up().stderr == ""
    checkout.write_package("2.0")
    assert checkout.set_up().returncode == 0
    assert checkout.installed_version() == "2.0"


def test_first_setup_that_fails_leaves_no_environment_behind(checkout: Checkout) -> None:
    checkout.lock(ABSENT)
    assert checkout.set_up().returncode == 1
    assert not checkout.environment.exists()


@pytest.mark.parametrize("damage", ["no stamp", "no interpreter", "other python", "moved"])
def test_damaged_python_environment_is_treated_as_not_installed(
    tmp_path: Path, damage: str
) -> None:
    environment = Environment(tmp_path / "env")
    environment.python.parent.mkdir(parents=True)
    environment.python.symlink_to(sys.executable)
    environment.record({"a.lock": "1"})
    assert environment.installed() == {"a.lock": "1"}
    if damage == "no stamp":
        environment.stamp.unlink()
    elif damage == "no interpreter":
        environment.python.unlink()
    elif damage == "other python":
        environment.tag = environment.origin["python"] = "cpython-399"
    else:
        environment = Environment(environment.folder.rename(tmp_path / "moved"))
    assert environment.installed() is None


def test_package_index_settings_of_pip_are_passed_on_to_uv() -> None:
    listed = (
        ":env:.extra-index-url='https://two/simple'\n"
        "global.extra-index-url='https://one/simple'\n"
        "global.index-url='https://index/simple'\n"
        "install.find-links='\\n/wheels\\n/more'\n"
        "global.proxy='http://proxy:3128'\n"
        "global.trusted-host='index two'\n"
        "global.cert='/etc/ca.pem'\n"
        "list.format='json'\n"
    )
    assert uv_variables(pip_settings(listed)) == {
        "UV_SYSTEM_CERTS": "1",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_DEFAULT_INDEX": "https://index/simple",
        "UV_INDEX": "https://two/simple",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_INSECURE_HOST": "index two",
        "SSL_CERT_FILE": "/etc/ca.pem",
        "HTTP_PROXY": "http://proxy:3128",
        "HTTPS_PROXY": "http://proxy:3128",
    }
