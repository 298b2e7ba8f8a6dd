"""Commands on the deployment page, which must work in a copy of the repository."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from project.repository import ROOT, code_blocks, read, sections

#: Fake programs. The fake `python3` creates an environment with a `pip` and a `python` that do
#: nothing.
PROGRAMS = {
    "make": 'test "$1" = wheel && mkdir dist && touch dist/waybook-0-py3-none-any.whl',
    "python3": 'mkdir -p "$3/bin" "$3/lib" && ln -s /bin/true "$3/bin/pip"'
    ' && ln -s /bin/true "$3/bin/python" && ls > "$3/installed-from"',
    "systemctl": 'echo "$@" > "${0%/*}/started"',
}


def test_systemd_block_of_the_deploy_page_installs_program_and_unit(tmp_path: Path) -> None:
    (block,) = code_blocks(sections(read("how-to", "deploy.md"), 2)["systemd"], "sh")
    programs, system, clone = tmp_path / "bin", tmp_path / "system", tmp_path / "clone"
    for folder in ("etc/systemd/system", "opt", "tmp"):
        (system / folder).mkdir(parents=True)
    for folder in ("deploy", "requirements"):
        shutil.copytree(ROOT / folder, clone / folder)
    programs.mkdir()
    for name, body in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\nset -e\n{body}\n")
        (programs / name).chmod(0o755)
    subprocess.run(
        ["/bin/sh", "-eu", "-c", re.sub(r"/(?=(?:etc|opt|tmp)/)", f"{system}/", block)],
        cwd=clone,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        check=True,
    )
    installed = (system / "opt/waybook/installed-from").read_text().split()
    assert {"run.lock", "waybook-0-py3-none-any.whl"} <= {*installed}
    unit = (system / "etc/systemd/system/waybook.service").read_text()
    assert unit == (ROOT / "deploy/systemd/waybook.service").read_text()
    assert oct((system / "etc/waybook/waybook.env").stat().st_mode)[-3:] == "600"
    assert (programs / "started").read_text().split() == ["enable", "--now", "waybook"]
