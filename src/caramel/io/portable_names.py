"""Check file names that come from data: whether every system and program treats them as plain files."""

from __future__ import annotations

_DEVICES = frozenset(  # of Windows, with any suffix
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{port}{number}" for port in ("com", "lpt") for number in range(10)}
)


def is_portable_start(name: str) -> bool:
    """Return whether a file name is not empty, hidden, an option, a home folder or a Windows device."""
    device = name.partition(".")[0].rstrip(" ").lower() in _DEVICES
    return name != "" and not name.startswith(("-", ".", "~", " ")) and not device
