"""How fast a cluster without a shared disk is, and what a lost host costs: `python benchmarks/cluster.py`.

Hosts are namespaces of this machine, each with a network address, a disk, a home and shared memory of its own, and one
processor for work (tests/support/hosts.py; needs root). The first drives and does no work. Printed are

    how much faster two hosts are than one, for shards that take a processor about four seconds each;
    how long the same shards take when a host is killed in their middle, and when one is cut off for good.

What stages make on such a cluster is compared by `make chaos-hosts`. Five minutes on two cores that have nothing else to do.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from hosts import PORT, Hosts, cluster, wait_for

SECONDS = 4.0  # of a processor that a shard takes, about
SHARED = {"RAY_ADDRESS": f"10.83.0.1:{PORT}"}


def ground(found: Hosts, disturb: Callable[[], None] = lambda: None) -> tuple[float, str]:
    """Return seconds and hash of the results of the shards, disturbed after four seconds."""
    found[0].run(["rm", "-rf", "work-ray"])
    process = found[0].start(["python", "-m", "host_work", "grind", str(SECONDS), "ray"], **SHARED)
    time.sleep(12)  # Ray is joined, and work has begun
    disturb()
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    seconds = re.search(r"seconds ([\d.]+)", said)
    assert seconds is not None, said
    return float(seconds[1]), said.splitlines()[-1]


def speed() -> None:
    """Print what a second host is worth, and what one that is lost costs."""
    with cluster(2, cpus={0: 0}) as found:
        ground(found)  # caramel is sent to the hosts once
        one, expected = ground(found)
    with cluster(3, cpus={0: 0}) as found:
        ground(found)
        rows = {"two hosts": ground(found)}
        rows["two hosts, one of which is cut off"] = ground(found, lambda: found.cut(1))
        wait_for(found, 2, gone=1)
        found.mend(1)
        wait_for(found, 3)
        rows["two hosts, one of which is killed"] = ground(found, found[2].kill)
    print(f"{'one host':38} {one:6.1f} s")
    for name, (seconds, digest) in rows.items():
        print(f"{name:38} {seconds:6.1f} s  {one / seconds:4.2f} times as fast  equal: {digest == expected}")


if __name__ == "__main__":
    speed()
