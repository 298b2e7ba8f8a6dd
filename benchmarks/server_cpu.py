"""CPU time of a PostgreSQL server: the postmaster and all its processes, read from /proc."""

import os
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def find_postmaster(data_dir: Path) -> int:
    (pid_file,) = data_dir.rglob("postmaster.pid")
    return int(pid_file.read_text().splitlines()[0])


def server_cpu_seconds(postmaster: int) -> float:
    ticks = 0
    for process in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = process.read_text().rsplit(")", 1)[1].split()
        except OSError:  # The process has ended.
            continue
        number, parent = int(process.parent.name), int(fields[1])
        if number == postmaster:
            # Two of these fields are the CPU times of child processes that have ended.
            ticks += sum(map(int, fields[11:15]))
        elif parent == postmaster:
            ticks += sum(map(int, fields[11:13]))
    return ticks / TICKS_PER_SECOND
