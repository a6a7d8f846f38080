"""How fast a cluster without a shared disk is, and what a lost host costs: `python bench/cluster.py`.

Hosts are namespaces of this machine, each with a network address, a disk, a home and shared memory of its own, and one
processor for work (tests/support/hosts.py; needs root). The first drives and does no work. Printed are

    how much faster two hosts are than one, for twelve shards that take a processor ten to twenty seconds each: workers
        start in some five seconds, which counts;
    how much longer shorter shards take when a host is killed in their middle, and when one is cut off for good.

What stages make on such a cluster is compared by `make chaos-hosts`. Six minutes on two cores that have nothing else to do.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from hosts import PORT, Hosts, cluster, wait_for

LONG, SHORT = 20.0, 4.0  # seconds of a slow processor that a shard takes
SHARED = {"RAY_ADDRESS": f"10.83.0.1:{PORT}"}


def ground(found: Hosts, each: float, disturb: Callable[[], None] = lambda: None) -> tuple[float, str]:
    """Return seconds and hashes of the results of shards of ``each`` seconds, disturbed when work has begun."""
    found[0].run(["rm", "-rf", "work-ray"])
    process = found[0].start(["python", "-m", "host_work", "grind", str(each), "ray"], **SHARED)
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
        ground(found, SHORT)  # caramel is sent to the hosts once
        one, expected = ground(found, LONG)
    with cluster(3, cpus={0: 0}) as found:
        ground(found, SHORT)
        two, digests = ground(found, LONG)
        undisturbed, short = ground(found, SHORT)
        rows = {"is cut off": ground(found, SHORT, lambda: found.cut(1))}
        wait_for(found, 2, gone=1)
        found.mend(1)
        wait_for(found, 3)
        rows["is killed"] = ground(found, SHORT, found[2].kill)
    print(
        f"one host {one:.1f} s, two {two:.1f} s: {one / two:.2f} times as fast  equal: {digests == expected}"
    )
    print(f"short shards on two hosts {undisturbed:.1f} s")
    for what, (seconds, digests) in rows.items():
        print(f"one of which {what}: {seconds - undisturbed:.1f} s more  equal: {digests == short}")


if __name__ == "__main__":
    speed()
