"""Build a virtual environment from lock files, using only the Python standard library.

    python3 tools/setup_env.py FOLDER FILE...

Each FILE is a lock file with hashes, or `pyproject.toml`, which installs Waybook from its sources.
Nothing happens if the environment already has these files installed. Files that were installed
earlier stay installed.

uv installs the packages, because it takes 3 seconds and pip takes 20. It trusts the system's
certificates and uses pip's index settings. If uv fails, pip is used.

An environment is rebuilt if it is incomplete, if it was moved, or if this script runs with another
Python than the environment has.
"""

import ast
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = "pyproject.toml"
UV_LOCK = "requirements/uv.lock"
#: File that records what is installed in an environment. It is missing while an installer runs, so
#: an environment without the file may be incomplete.
STAMP = ".waybook-installed"
#: For each pip setting, the uv variables with the same meaning, and the separator between values.
VARIABLES = {
    "index-url": (["UV_DEFAULT_INDEX"], " "),
    "extra-index-url": (["UV_INDEX"], " "),
    "find-links": (["UV_FIND_LINKS"], ","),
    "trusted-host": (["UV_INSECURE_HOST"], " "),
    "cert": (["SSL_CERT_FILE"], " "),
    "client-cert": (["SSL_CLIENT_CERT"], " "),
    "proxy": (["HTTP_PROXY", "HTTPS_PROXY"], " "),
}


def pip_settings(listed: str) -> dict[str, str]:
    r"""Return the settings that `pip config list` printed. Environment variables override files.

    >>> pip_settings("global.proxy='one'\n:env:.proxy='two'\nlist.format='json'")
    {'proxy': 'two'}
    """
    settings: dict[str, str] = {}
    for section in ("global", "install", ":env:"):
        for line in listed.splitlines():
            key, _, value = line.partition("=")
            place, _, name = key.rpartition(".")
            if place == section:
                settings[name] = str(ast.literal_eval(value))
    return settings


def uv_variables(settings: Mapping[str, str]) -> dict[str, str]:
    r"""Return the environment variables that make uv use the index settings of pip.

    >>> uv_variables({"find-links": "\n/one\n/two"})["UV_FIND_LINKS"]
    '/one,/two'
    """
    replaced = {
        variable: separator.join(settings[name].split())
        for name, (variables, separator) in VARIABLES.items()
        if name in settings
        for variable in variables
    }
    # Let uv look for a package on every index, as pip does. This is safe, because uv accepts only
    # files with a hash from the lock file.
    return {"UV_SYSTEM_CERTS": "1", "UV_INDEX_STRATEGY": "unsafe-best-match", **replaced}


def run(
    *command: str | Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program in the root folder of the repository; return the completed process."""
    try:
        return subprocess.run(
            command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True
        )
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class Environment:
    """Virtual environment in a folder, with the Python that runs this script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        self.stamp = folder / STAMP
        self.tag = f"{sys.implementation.cache_tag}{sys.abiflags}"
        base = os.path.realpath(sys.base_prefix)
        self.origin = {"python": f"{base} {self.tag}", "folder": str(folder)}

    def installed(self) -> dict[str, str] | None:
        """Return the digests of the installed files; None if the environment cannot be used."""
        try:
            record = json.loads(self.stamp.read_text("utf-8"))
            files = dict(record.pop("files"))
        except (OSError, ValueError, AttributeError, KeyError, TypeError):
            return None
        if record != self.origin:
            return None
        # After an upgrade of the operating system, the environment's Python may be missing or have
        # another version.
        program = "import sys; print(sys.implementation.cache_tag + sys.abiflags)"
        answer = run(self.python, "-I", "-c", program)
        return files if answer.stdout.strip() == self.tag else None

    def provide(self, files: Iterable[str]) -> None:
        """Install these files, unless the environment already has the same version of them.

        Files that were installed earlier stay installed.

        Raises:
            SystemExit: the environment cannot be created, or the packages cannot be installed.
        """
        before = self.installed()
        earlier = [name for name in before or () if (ROOT / name).exists()]
        wanted = {
            name: hashlib.sha256((ROOT / name).read_bytes()).hexdigest()
            for name in dict.fromkeys([*files, *earlier])
        }
        if before == wanted:
            return
        if before is None:
            self.create()
        self.stamp.unlink(missing_ok=True)
        try:
            self.install(wanted)
        except SystemExit:
            if before is None:
                shutil.rmtree(self.folder, ignore_errors=True)
            else:  # The environment can still be used, but without the new packages.
                self.record(before)
            raise
        self.record(wanted)

    def record(self, files: Mapping[str, str]) -> None:
        """Write down the digests of the installed files in the environment."""
        self.stamp.write_text(json.dumps({**self.origin, "files": files}, indent=1), "utf-8")

    def create(self) -> None:
        """Replace the folder by an environment that contains only pip.

        Raises:
            SystemExit: this Python cannot create environments.
        """
        if find_spec("ensurepip") is None or find_spec("venv") is None:
            name = f"python{sys.version_info.major}.{sys.version_info.minor}"
            how = "install the package of your system with its modules venv and ensurepip"
            if shutil.which("apt"):
                how = f"run `apt install {name}-venv` as root"
            raise SystemExit(f"{name} cannot create virtual environments: {how}, then try again.")
        if self.folder.exists():
            say(f"{self.folder.name} is incomplete or was made by another Python: rebuilding it.")
            shutil.rmtree(self.folder)
        # If this Python belongs to a virtual environment, perhaps the one to replace, use the
        # Python from which that environment was created.
        python = getattr(sys, "_base_executable", sys.executable)
        created = run(python, "-m", "venv", self.folder)
        if created.returncode:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise SystemExit(f"{created.stdout}{created.stderr}{python} -m venv failed.")

    def install(self, files: Iterable[str]) -> None:
        """Install these files by uv or, if this fails, by pip.

        Raises:
            SystemExit: pip failed too.
        """
        locks = [name for name in files if name != PROJECT]
        waybook = ["--no-build-isolation", "--editable=."] if PROJECT in files else []
        if not (locks or waybook):
            return
        problem = self.install_with_uv(locks, waybook)
        if problem is None:
            return
        say(f"uv failed ({problem}); installing with pip instead, which takes longer.")
        hashed = ["--require-hashes", *(f"--requirement={lock}" for lock in locks)] if locks else []
        for arguments in filter(None, (hashed, waybook)):
            # Lock files list all packages, so pip need not look for dependencies.
            done = self.pip("-qq", "install", "--no-deps", *arguments)
            if done.returncode:
                raise SystemExit(f"{done.stdout}{done.stderr}pip could not install the packages.")

    def install_with_uv(self, locks: list[str], waybook: list[str]) -> str | None:
        """Install by uv; return the error if this fails."""
        own, shared = self.folder / "bin" / "uv", ROOT / ".venv" / "bin" / "uv"
        if not (own.exists() or shared.exists()):
            wheel = ["--only-binary=:all:", "--require-hashes", f"--requirement={UV_LOCK}"]
            if self.pip("-qq", "install", *wheel).returncode:
                return "it cannot be downloaded"
        uv, itself = (own, [UV_LOCK]) if own.exists() else (shared, [])
        settings = pip_settings(self.pip("config", "list").stdout)
        offline = ["--no-index"] if settings.get("no-index", "0") in {"1", "true", "yes"} else []
        variables = {**uv_variables(settings), **os.environ, "VIRTUAL_ENV": str(self.folder)}
        sync = ["sync", "--require-hashes", *locks, *itself] if locks else []
        install = ["install", "--no-deps", *waybook] if waybook else []
        for arguments in filter(None, (sync, install)):
            done = run(uv, "pip", *arguments, *offline, "--quiet", environment=variables)
            if done.returncode:
                lines = [line.strip() for line in done.stderr.splitlines() if ": " in line]
                causes = [line for line in lines if line.startswith("cause: ")]
                return (causes or lines or ["no reason given"])[-1].partition(": ")[2]
        return None

    def pip(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the pip of the environment."""
        return run(self.python, "-m", "pip", "--disable-pip-version-check", *arguments)


def main(folder: str, *files: str) -> None:
    """Wait until no other process sets up an environment in this repository; then set one up."""
    with Path(__file__).open(encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        Environment(Path(folder).absolute()).provide(files)


if __name__ == "__main__":
    main(*sys.argv[1:])
