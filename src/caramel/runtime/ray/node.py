"""Describe the node on which a worker runs: its id, name and installed versions."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from caramel.runtime.ray.file_transfer import CACHE

# Packages that results may depend on: other versions could give other bytes.
PACKAGES = (
    "diffusers",
    "numpy",
    "open_clip_torch",
    "pandas",
    "pillow",
    "pyarrow",
    "scikit-learn",
    "scipy",
    "torch",
    "torchvision",
    "transformers",
)


def list_versions() -> dict[str, str]:
    """Return the versions of Python and ``PACKAGES`` in this process; "none" if not installed."""
    installed = {"Python": platform.python_version()}
    for name in PACKAGES:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            installed[name] = "none"
    return installed


def format_version_differences(node: str, installed: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """Return how a node's versions differ from the driver's, and what to do; empty if they do not."""
    mismatches = [
        f"{name} {installed[name]} (not {ours[name]})" for name in ours if installed[name] != ours[name]
    ]
    if not mismatches:
        return ""
    return (
        f"Node {node} of Ray's cluster has other versions than the machine that drives: {', '.join(mismatches)}. Results would "
        f"depend on who made them. Install requirements.lock there with the same Python, and start Ray on it again."
    )


def get_node_id() -> str:
    """Return the id of this node, which is unique across sessions."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


def get_node_name(driver_id: str) -> str:
    """Return the name of this node for messages; empty on the driver's node.

    Args:
        driver_id: id of the driver's node.
    """
    import ray

    context = ray.get_runtime_context()
    return (
        ""
        if context.get_node_id() == driver_id
        else f"{socket.gethostname()} ({ray.util.get_node_ip_address()})"
    )


def be_at_home() -> None:
    """Make relative paths lie in the node's own folder, because the project is not here."""
    folder = CACHE.expanduser()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.chdir(folder)
