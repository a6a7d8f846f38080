"""Send a finished release to the Hugging Face hub, by the hub's own client.

A release becomes one commit. The commit adds the files that ``SHA256SUMS`` names and removes all others, so that no
shard of an earlier version stays among the new ones. Its parent is the state that was looked at: if somebody else
commits in between, the hub refuses it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from caramel.errors import ConfigError, DataError, ResourceError, escape_unprintable, format_items
from caramel.io.files import compute_file_hash
from caramel.io.regular_files import read_plain_text
from caramel.io.validators import is_plain_path
from caramel.models.loading.hub import get_network_error, is_offline
from caramel.release.publishing.build import SUMS

FORMS = {"dataset": "hf://datasets/OWNER/NAME", "model": "hf://OWNER/NAME"}
KEPT = ".gitattributes"  # the hub's own file, which says what it stores outside of git
SHOWN = 300  # characters of a server's message


class HubRepository(NamedTuple):
    """A repository of the hub."""

    repo_type: str  # "dataset" or "model"
    repo_id: str  # OWNER/NAME

    @property
    def url(self) -> str:
        """Return the address of its page on the hub that ``HF_ENDPOINT`` names."""
        from huggingface_hub import constants

        return f"{constants.ENDPOINT}/{'datasets/' if self.repo_type == 'dataset' else ''}{self.repo_id}"


def parse_hub_address(address: str, repo_type: str) -> HubRepository:
    """Return the repository of an address such as ``hf://datasets/OWNER/NAME`` (a data set) or ``hf://OWNER/NAME``.

    Raises:
        ConfigError: the address has another form, or the hub allows no such name.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    form = FORMS[repo_type]
    match = re.fullmatch(re.escape(form).replace("OWNER/NAME", r"([^/\s]+/[^/\s]+)"), address)
    if match is None:
        raise ConfigError(f"--push {address!r} is not the address of a {repo_type}: give {form}.")
    try:
        validate_repo_id(match[1])
    except HFValidationError as error:
        raise ConfigError(
            f"--push {address!r}: the hub allows no such name: {str(error).splitlines()[0]}"
        ) from error
    return HubRepository(repo_type, match[1])


def list_release_files(folder: Path) -> dict[str, int]:
    """Return path -> bytes of the files of a release, after a check of each against ``SHA256SUMS``.

    Raises:
        DataError: the folder holds no finished release, or a file is missing or has changed.
    """
    try:
        lines = read_plain_text(folder / SUMS).splitlines()
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(
            f"{str(folder)!r} holds no finished release: {SUMS} is missing. Give a new folder with --out."
        ) from None
    digests = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    changed = [
        name
        for name, digest in digests.items()
        if not is_plain_path(name)
        or not (folder / name).is_file()
        or compute_file_hash(folder / name) != digest
    ]
    if changed:
        raise DataError(
            f"{len(changed)} files of the release in {str(folder)!r} are missing or differ from {SUMS}:\n"
            f"{format_items(changed)}\nNothing was sent. Build the release again in a new folder."
        )
    return {name: (folder / name).stat().st_size for name in (*digests, SUMS)}


def push_release(folder: Path, repository: HubRepository, message: str) -> str:
    """Send a release as one commit and return the commit's address.

    A repository that does not exist is created as a private one. Files that the hub already has are not sent again.

    Raises:
        ConfigError: downloads and uploads are disabled, or there is no token.
        DataError: as in ``list_release_files``.
        ResourceError: the hub cannot be reached, or refuses the commit.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, get_token

    files = list_release_files(folder)
    if is_offline():
        raise ConfigError(
            "HF_HUB_OFFLINE is set, so nothing is sent. Set HF_HUB_OFFLINE=0 and repeat the command."
        )
    if not (token := get_token()):
        raise ConfigError("The hub needs a token that may write: set HF_TOKEN, or run `hf auth login`.")
    api = HfApi(token=token)
    repo_type, repo_id = repository
    try:
        api.create_repo(repo_id, repo_type=repo_type, private=True, exist_ok=True)
        parent = api.repo_info(repo_id, repo_type=repo_type).sha
        outdated = {*api.list_repo_files(repo_id, repo_type=repo_type, revision=parent)} - {*files, KEPT}
        commit = api.create_commit(
            repo_id,
            [
                *(CommitOperationAdd(name, folder / name) for name in files),
                *(CommitOperationDelete(name) for name in sorted(outdated)),
            ],
            repo_type=repo_type,
            commit_message=message,
            parent_commit=parent,
        )
    except (OSError, get_network_error(), ValueError) as error:
        reason = " ".join(str(error).replace(token, "$HF_TOKEN").split())[:SHOWN]
        raise ResourceError(
            f"The release was not sent to {repository.url}: {escape_unprintable(reason)}\n"
            f"Check the name, the network and the token's right to write. The release is kept in {str(folder)!r}: the same "
            f"command sends it."
        ) from None
    return str(commit.commit_url)
