"""Hosts of an elastic job, as they are when it starts."""

from __future__ import annotations

import subprocess
from typing import Optional

_SECONDS = 60  # for the script to say where hosts are


def discover_hosts(script: str, slots: Optional[int]) -> str:
    """What the user's script prints, a line ``host`` or ``host:slots`` for each, as ``-H`` reads it."""
    try:
        said = subprocess.run(
            script, shell=True, check=True, stdout=subprocess.PIPE, text=True, timeout=_SECONDS
        ).stdout
    except (subprocess.SubprocessError, OSError) as error:
        raise ValueError(f"horovod.run: host_discovery_script failed: {error}") from error
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"horovod.run: host_discovery_script {script!r} printed no host")
    return ",".join(line if ":" in line else f"{line}:{slots or 1}" for line in lines)


def pick_ranks(wanted: int, fewest: Optional[int], most: Optional[int], hosts: Optional[str]) -> int:
    """How many ranks the job gets: those wanted, or as many as there are slots if ``fewest`` is content."""
    fewest = wanted if fewest is None else fewest
    wanted = max(wanted, fewest)
    if most is not None and most < wanted:
        raise ValueError(f"horovod.run: at most {most} ranks, but {wanted} are wanted")
    if hosts is None:
        return wanted
    there = sum(int(host.rpartition(":")[2]) for host in hosts.split(","))
    if there < fewest:
        raise ValueError(f"horovod.run: {hosts} has {there} slots, and at least {fewest} ranks are wanted")
    return min(wanted, there)
