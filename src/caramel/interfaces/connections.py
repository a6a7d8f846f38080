"""Numbers of concurrent requests to a model behind a server."""

from __future__ import annotations

from typing import Final, Literal, Protocol, runtime_checkable

AUTO: Final = "auto"
MaxConnections = int | Literal["auto"]  # auto: as many as the server takes
AUTO_NEEDS_SERVER = (  # end of a message
    "max_connections 'auto': only a server, chat:MODEL@URL, shows how many requests it takes. For local:FOLDER the number "
    "is the batch size: set one, such as 16."
)


@runtime_checkable
class HasConnections(Protocol):
    """A model behind a server."""

    @property
    def connections(self) -> int:
        """Number of requests that may be in flight now."""
        ...
