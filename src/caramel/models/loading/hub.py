"""Get files of the Hugging Face hub: from the local cache, or by download where that is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from caramel.errors import BackendError
from caramel.models.loading.state_dicts import get_first_line


def get_hub_file(repo: str, files: Sequence[str], *, fetch: bool) -> Path | None:
    """Return the first of the files that a repository of the hub contains, from the cache if it is there.

    Args:
        repo: OWNER/REPO.
        files: names, the preferred ones first.
        fetch: whether to download what is not cached; if False, None is returned for it.

    Raises:
        BackendError: it is not cached and HF_HUB_OFFLINE is set, it cannot be downloaded, or the repository
            has none.
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
                f"({constants.HF_HUB_CACHE}), and HF_HUB_OFFLINE=1 prevents the download. Set "
                f"HF_HUB_OFFLINE=0, or set HF_HOME to the folder of the cache."
            )
        for file in files if fetch else ():
            try:
                return Path(hf_hub_download(repo, file))
            except RemoteEntryNotFoundError:
                continue
    except (OSError, get_network_error(), HFValidationError) as error:
        raise BackendError(
            f"{repo!r} could not be downloaded from the Hugging Face hub: {get_first_line(error)}. Check the "
            f"name, the network and, for a gated repository, HF_TOKEN."
        ) from error
    if fetch:
        raise BackendError(f"{repo!r} on the Hugging Face hub contains none of {', '.join(files)}.")
    return None


def get_network_error() -> type[Exception]:
    """Return the error that the hub's client, whichever it is, raises if the network fails within a file."""
    from huggingface_hub import errors

    error_type: type[Exception] = errors.HTTPError  # type: ignore[attr-defined]
    return error_type


def is_offline() -> bool:
    """Return whether downloads are disabled."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)
