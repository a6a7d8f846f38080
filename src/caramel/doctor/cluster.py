"""Check each node of the cluster at RAY_ADDRESS (``caramel doctor --cluster``)."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from caramel.doctor.findings import FAIL, GIB, OK, WARN, Finding
from caramel.errors import CaramelError, count_of
from caramel.runtime.ray.cluster import SOURCES, get_cluster_address, open_ray_session
from caramel.runtime.ray.file_transfer import CACHE
from caramel.runtime.ray.node import format_version_differences, list_versions

ANSWER = 90.0  # seconds allowed for a node's answer, including the transfer of caramel
CLOCK = 2.0  # allowed clock error in seconds


@dataclass(frozen=True)
class NodeFacts:
    """Facts that a node reports about itself."""

    versions: dict[str, str]
    sources: str  # hash of caramel's sources
    free: int  # bytes on the volume of ``CACHE``
    clock: float  # seconds since 1970


def examine_cluster() -> Iterator[Finding]:
    """Yield a finding on the cluster, and one on each of its nodes."""
    if not get_cluster_address():
        yield Finding(
            FAIL, "cluster", "RAY_ADDRESS names no cluster", "export RAY_ADDRESS=HOST:PORT of its head"
        )
        return
    try:
        with open_ray_session():
            yield from _iter_node_findings()
    except CaramelError as error:
        yield Finding(FAIL, "cluster", str(error))


def _iter_node_findings() -> Iterator[Finding]:
    import ray

    alive = [node for node in ray.nodes() if node["Alive"]]
    names = {node["NodeManagerHostname"] for node in alive}
    gone = {node["NodeManagerHostname"] for node in ray.nodes()} - names  # without nodes that came back
    has = ray.cluster_resources()
    text = f"{count_of(len(alive), 'node')}, {has.get('CPU', 0):g} processors, {has.get('GPU', 0):g} GPUs"
    lost = f"; gone: {', '.join(sorted(gone))}" if gone else ""
    yield Finding(
        WARN if gone else OK,
        "cluster",
        text + lost,
        "run `caramel cluster worker HOST:PORT` there" if gone else "",
    )
    ours = collect_facts()
    for node in sorted(alive, key=lambda node: str(node["NodeManagerAddress"])):
        yield _examine_node(node, ours)


def _examine_node(node: dict[str, Any], ours: NodeFacts) -> Finding:
    """Return the finding on one node."""
    import ray
    from ray.exceptions import GetTimeoutError, RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
    strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    remote_facts = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=strategy)(collect_facts)
    try:
        ray.get(
            remote_facts.remote(), timeout=ANSWER
        )  # start and imports are done before the clock is compared
        sent = time.time()
        node_facts: NodeFacts = ray.get(remote_facts.remote(), timeout=ANSWER)
        came = time.time()
    except GetTimeoutError:
        return Finding(
            FAIL, "node", f"{name} does not answer within {ANSWER:g} s", "check whether it is busy or cut off"
        )
    except RayError as error:
        message = str(error).strip().splitlines()[-1]
        return Finding(FAIL, "node", f"{name}: {message}", "install requirements.lock there")
    if message := format_version_differences(name, node_facts.versions, ours.versions):
        return Finding(FAIL, "node", message)
    if node_facts.sources != ours.sources:
        return Finding(
            FAIL, "node", f"{name} has different caramel sources from this machine", "restart Ray there"
        )
    late = max(node_facts.clock - came, sent - node_facts.clock, 0.0)
    resources = node["Resources"]
    text = (
        f"{name}: {resources.get('CPU', 0):g} processors, {_format_gpus(resources)}, "
        f"{resources.get('memory', 0) / GIB:.0f} GiB memory, {resources.get('object_store_memory', 0) / GIB:.1f} GiB for "
        f"objects that tasks exchange, {node_facts.free / GIB:.0f} GiB free in {CACHE}"
    )
    if late > CLOCK:
        return Finding(
            WARN,
            "node",
            f"{text}; its clock is off by {late:.0f} s",
            "set it, for example by NTP: S3 refuses wrong clocks",
        )
    if node_facts.free < 2 * GIB:
        return Finding(FAIL, "node", text, "free space there")
    return Finding(OK, "node", text)


def _format_gpus(resources: dict[str, float]) -> str:
    """Return the GPUs that Ray reports for a node."""
    models = [name.partition(":")[2] for name in resources if name.startswith("accelerator_type:")]
    count = resources.get("GPU", 0)
    return f"{count:g} GPUs {' '.join(models)}".rstrip() if count else "no GPU"


def collect_facts() -> NodeFacts:
    """Return the facts about the node of this process."""
    folder = CACHE.expanduser()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    digest = hashlib.sha256()
    for path in sorted(SOURCES.rglob("*.py")):
        digest.update(str(path.relative_to(SOURCES)).encode() + b"\0" + path.read_bytes())
    return NodeFacts(list_versions(), digest.hexdigest(), shutil.disk_usage(folder).free, time.time())
