"""Measure the speed of a cluster without a shared disk, and the cost of a lost host: `python bench/cluster.py`.

Hosts are namespaces of this machine. Each has its own network address, disk, home and shared memory, and one
CPU core for work (tests/support/hosts.py; needs root). The first is the driver and does no work. Printed are

- the speedup of two hosts over one for twelve shards of ten to twenty CPU seconds each, including the start
  of the workers, which takes about five seconds;
- the extra time of shorter shards if a host is killed half-way, and if one is cut off for good.

`make chaos-hosts` compares the results of stages on such a cluster. It takes six minutes on two idle cores.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from hosts import PORT, Hosts, cluster, wait_for

LONG, SHORT = 20.0, 4.0  # seconds of a shard on a slow CPU
SHARED = {"RAY_ADDRESS": f"10.83.0.1:{PORT}"}


def time_shards(
    hosts: Hosts, shard_seconds: float, disturb: Callable[[], None] = lambda: None
) -> tuple[float, str]:
    """Return seconds and result hashes of shards of ``each`` seconds, with a disturbance after work has begun."""
    hosts[0].run(["rm", "-rf", "work-ray"])
    process = hosts[0].start(["python", "-m", "host_work", "grind", str(shard_seconds), "ray"], **SHARED)
    time.sleep(12)  # by then Ray has started and work has begun
    disturb()
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    seconds = re.search(r"seconds ([\d.]+)", output)
    assert seconds is not None, output
    return float(seconds[1]), output.splitlines()[-1]


def measure_cluster() -> None:
    """Print the speedup of a second host, and the cost of a lost one."""
    with cluster(2, cpus={0: 0}) as hosts:
        time_shards(hosts, SHORT)  # sends caramel to the hosts once
        one, expected = time_shards(hosts, LONG)
    with cluster(3, cpus={0: 0}) as hosts:
        time_shards(hosts, SHORT)
        two, digests = time_shards(hosts, LONG)
        undisturbed, short = time_shards(hosts, SHORT)
        rows = {"is cut off": time_shards(hosts, SHORT, lambda: hosts.cut(1))}
        wait_for(hosts, 2, gone=1)
        hosts.mend(1)
        wait_for(hosts, 3)
        rows["is killed"] = time_shards(hosts, SHORT, hosts[2].kill)
    print(
        f"one host {one:.1f} s, two {two:.1f} s: {one / two:.2f} times as fast  equal: {digests == expected}"
    )
    print(f"short shards on two hosts {undisturbed:.1f} s")
    for what, (seconds, digests) in rows.items():
        print(f"one of which {what}: {seconds - undisturbed:.1f} s more  equal: {digests == short}")


if __name__ == "__main__":
    measure_cluster()
