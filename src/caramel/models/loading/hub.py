"""Files of the Hugging Face hub: from the local cache, or fetched where that is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from caramel.errors import BackendError
from caramel.models.loading.state_dicts import get_first_line


def get_hub_file(repo: str, files: Sequence[str], *, fetch: bool) -> Path | None:
    """Return the first of the files that a repository of the hub holds, from the cache where it is there.

    Args:
        repo: OWNER/REPO.
        files: names, the preferred ones first.
        fetch: fetch what is not cached; False: return None for it.

    Raises:
        BackendError: it is not cached and HF_HUB_OFFLINE is set, it cannot be fetched, or none is there.
    """
    from huggingface_hub import constants, hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError, RemoteEntryNotFoundError

    try:
        cached = [try_to_load_from_cache(repo, file) for file in files]
        cached_path = next((path for path in cached if isinstance(path, str)), None)
        if cached_path is not None:
            return Path(cached_path)
        if constants.HF_HUB_OFFLINE:
            raise BackendError(
                f"{repo!r} on the Hugging Face hub: none of {', '.join(files)} is in the local cache "
                f"({constants.HF_HUB_CACHE}), and HF_HUB_OFFLINE=1 forbids to fetch it. Set HF_HUB_OFFLINE=0, or "
                f"set HF_HOME to where the cache lies."
            )
        for file in files if fetch else ():
            try:
                return Path(hf_hub_download(repo, file))
            except RemoteEntryNotFoundError:
                continue
    except (OSError, get_network_error(), HFValidationError) as error:
        raise BackendError(
            f"{repo!r} could not be fetched from the Hugging Face hub: {get_first_line(error)}. Check the name, the network "
            f"and, where it is gated, HF_TOKEN."
        ) from error
    if fetch:
        raise BackendError(f"{repo!r} on the Hugging Face hub holds none of {', '.join(files)}.")
    return None


def get_network_error() -> type[Exception]:
    """Return what the hub's client, whichever it is, raises where the network fails within a file."""
    from huggingface_hub import errors

    error_type: type[Exception] = errors.HTTPError  # type: ignore[attr-defined]
    return error_type


def is_offline() -> bool:
    """Return whether nothing may be fetched."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)
