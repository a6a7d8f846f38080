"""Hosts that share no disk, one of which dies and one of which is cut off, give what one process gives."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from host_work import TRIALS
from hosts import LIMIT, PORT, Host, Hosts, cluster, join, missing, wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(missing()), reason=f"no hosts on this machine: {missing()}"),
]
SHARED = {"RAY_ADDRESS": f"10.83.0.1:{PORT}"}


@pytest.fixture(scope="module")
def machines() -> Iterator[Hosts]:
    """Three hosts; the first drives and does no work itself."""
    with cluster(3, cpus={0: 0}) as found:
        yield found


def work(kind: str, seconds: float, executor: str = "ray") -> list[str]:
    return ["python", "-m", "host_work", kind, str(seconds), executor]


def did(host: Host) -> list[str]:
    """Return what a host did since the last time."""
    return host.run(["sh", "-c", "touch did; cat did; rm did"]).splitlines()


def last(said: str) -> list:
    return json.loads(said.strip().splitlines()[-1])


def test_shards_on_hosts_have_the_bytes_of_one_process_although_one_dies_and_one_is_cut_off(
    machines: Hosts,
) -> None:
    alone = last(machines[0].run(work("shards", 0, "inline")))
    did(machines[0])
    process = machines[0].start(work("shards", 1.5), **SHARED)
    while not (first := did(machines[1])) or not did(machines[2]):
        assert process.poll() is None, process.stdout and process.stdout.read()
        time.sleep(0.2)
    machines.cut(1)
    time.sleep(3)
    machines.mend(1)  # what it did meanwhile comes late, or not at all
    machines[2].kill()
    said, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, said
    assert last(said) == alone
    assert first
    assert not did(machines[0]), "the driver's host has no processor for work"
    machines.add(2)
    join(machines[2])
    wait_for(machines, 3, gone=1)


def test_blind_scores_in_shards_are_the_same_on_hosts(machines: Hosts) -> None:
    alone = last(machines[0].run(work("scores", 0, "inline")))
    assert last(machines[0].run(work("scores", 0), **SHARED)) == alone
    assert len(alone) == 4


def test_each_node_is_looked_at_and_one_with_other_versions_is_named_before_it_does_any_work(
    machines: Hosts,
) -> None:
    said = machines[0].run(["caramel", "doctor", "--cluster"], **SHARED).splitlines()
    assert [line.split()[:2] for line in said[-3:]] == [["ok", "node"]] * 3
    assert "host1 (10.83.0.2): 1 processors, no GPU" in said[-2]
    host = machines.add(3)
    older = host.place / "older"
    info = "diffusers-0.1.dist-info/METADATA"
    host.run(
        [
            "sh",
            "-c",
            f"mkdir -p {older}/diffusers-0.1.dist-info; printf 'Name: diffusers\nVersion: 0.1\n' > {older}/{info}",
        ]
    )
    join(host, PYTHONPATH=f"{older}:{host.environment()['PYTHONPATH']}")
    wait_for(machines, 4)
    process = machines[0].start(["caramel", "doctor", "--cluster"], **SHARED)
    said, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 1
    assert "FAIL  node       Node host3 (10.83.0.4) of Ray's cluster has other versions" in said
    assert "diffusers 0.1 (not " in said
    process = machines[0].start(work("shards", 1.0), **SHARED)
    said, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 1
    assert "Error: Node host3 (10.83.0.4) of Ray's cluster has other versions" in said
    host.kill()


def test_trials_on_hosts_leave_the_same_files_with_the_driver_and_go_on_where_a_host_died(
    machines: Hosts,
) -> None:
    alone = last(machines[0].run(work("trials", 0, "inline")))
    did(machines[1]), did(machines[2])  # of the tests before
    process = machines[0].start(work("trials", 3), **SHARED)
    while not did(machines[2]):
        assert process.poll() is None, process.stdout and process.stdout.read()
        time.sleep(0.2)
    time.sleep(11)  # what a trial keeps is sent to the driver every ten seconds
    machines[2].kill()
    said, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, said
    assert last(said) == alone
    assert len(alone[0]) == TRIALS
    assert any(not line.endswith("from 0") for line in did(machines[1])), "begun anew"
