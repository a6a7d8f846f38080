"""Names of files that come from data: which of them every system and program takes for a plain file."""

from __future__ import annotations

_DEVICES = frozenset(  # of Windows, whatever suffix follows
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{port}{number}" for port in ("com", "lpt") for number in range(10)}
)


def is_portable_start(name: str) -> bool:
    """Return whether a file's name starts as one: it is not empty, hidden, an option, a home or a device of Windows."""
    device = name.partition(".")[0].rstrip(" ").lower() in _DEVICES
    return name != "" and not name.startswith(("-", ".", "~", " ")) and not device
