"""Fetch the public files of a benchmark where their licence permits it: resumed after an interruption, checked by SHA-256.

Only files whose content is known are fetched. If a repository's authors change a file, its hash differs, and that is an
error: a figure that was computed from other captions cannot be compared with published ones.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import requests
from urllib3.exceptions import HTTPError

from caramel.errors import DataError, ResourceError, escape_unprintable
from caramel.io.files import compute_file_hash
from caramel.io.output_paths import check_folder, check_target
from caramel.runtime.http import CHUNK

SECONDS = 60  # without a byte
ATTEMPTS = 5  # per file; each continues where the last one ended
REFUSALS = range(400, 429)  # statuses that another attempt does not change; 429 asks to wait
PAUSE = 1.0  # seconds before the second attempt; doubles


class File(NamedTuple):
    """One file: its name in the benchmark's folder and at its source, its size in bytes and its hash."""

    name: str
    bytes: int
    sha256: str


class Download(NamedTuple):
    """Where the files of a benchmark are published, and what permits to copy them."""

    url: str  # without the name of a file
    licence: str
    files: tuple[File, ...]
    absent: str  # what the benchmark needs besides


_COCO = "images of COCO 2017, whose owners license each one by itself: cocodataset.org"
DOWNLOADS = {
    "sugarcrepe": Download(
        "https://raw.githubusercontent.com/RAIVNLab/sugar-crepe/HEAD/data",
        "MIT (LICENSE of the repository); captions of COCO: CC BY 4.0",
        (
            File("add_att.json", 158863, "012d88d729693d193760e6f3393b06a1cf874380a9db0062e937201199fe044d"),
            File("add_obj.json", 484593, "1b9d76b93139a937b8dc1ada92a4f05ecc821bb3c291d752428bafadd4bb0682"),
            File(
                "replace_att.json", 176843, "9fe55fd4c0a9ad1f85d486d9f6d0215b41f867eb025026e7f7b5ce44352545ee"
            ),
            File(
                "replace_obj.json", 361126, "9d299600639947e9d15281a9ded1382b376cf4ea088a8d08a1314bfe76e81898"
            ),
            File(
                "replace_rel.json", 312629, "356bcc2fc4c6aed3f4d9fd50acc58489bb1fe70c28791f9368d4cbf9ea39cdc9"
            ),
            File("swap_att.json", 154665, "7a7ce04e5c4c80412b48c6f0c1347fb1a2f5d54c0be6aa429b64d390e442f8d0"),
            File("swap_obj.json", 57569, "073cdb8e253d053614e80710834d9773b09dbc1dd0a412f6f9492262caa1dcad"),
        ),
        _COCO,
    ),
    "sugarcrepe_pp": Download(
        "https://raw.githubusercontent.com/Sri-Harsha/scpp/HEAD/data",
        "CC BY 4.0 (data), MIT (LICENSE of the repository); captions of COCO: CC BY 4.0",
        (
            File(
                "replace_att.json", 226275, "6826413592894754eeca02aeebbcbbc8b95a7456998abcc714e71c033ce6fe87"
            ),
            File(
                "replace_obj.json", 456601, "5c6dc499ec8f511a8aa4ec1b7b5eb0eca90317488abe36ec39573355e2d361ab"
            ),
            File(
                "replace_rel.json", 392738, "040fb95d3f0619bf515db60879e99709a87a5e9b4f524ec3403b127243480fd4"
            ),
            File("swap_att.json", 198206, "450d0fd9fcad3e6f44950dc634e7f901ab1c6d9c60a569ade5ae8ffb3d203ad8"),
            File("swap_obj.json", 74611, "5f33cae824de431a7ecd3c5de6301f689815f9497aa36d96b154bbaf117b201b"),
        ),
        _COCO,
    ),
    "cola": Download(
        "https://raw.githubusercontent.com/arijitray1993/COLA/1fa52fba9cff4e6ffb7bfcf3550838748347273b/data",
        "MIT (LICENSE of the repository)",
        (
            File(
                "COLA_multiobjects_matching_benchmark.json",
                56746,
                "e2846dcc958e3277813ca572bce53db96fd5dd65caaa57ccd20dc1ce51d73ec0",
            ),
        ),
        "images of Visual Genome: homes.cs.washington.edu/~ranjay/visualgenome",
    ),
}


class FetchedFile(NamedTuple):
    """A file in the folder, and whether it was fetched now."""

    path: Path
    is_new: bool


def find_download(name: str) -> Download:
    """Return where the files of a benchmark can be fetched.

    Raises:
        DataError: caramel does not fetch this benchmark.
    """
    if name not in DOWNLOADS:
        raise DataError(
            f"caramel does not fetch {name!r}: its licence does not permit copies, needs your consent, or its files are not "
            f"known by hash. `caramel benchmarks {name}` says where it is published. Fetched are: {', '.join(DOWNLOADS)}."
        )
    return DOWNLOADS[name]


def fetch_file(file: File, url: str, folder: Path, *, pause: float = PAUSE) -> FetchedFile:
    """Fetch one file into a folder, unless it is there.

    An interrupted download continues, in this call or the next one, where it ended (HTTP's ``Range``), if the server
    supports it.

    Args:
        file: the file.
        url: of its folder.
        folder: where to put it.
        pause: seconds before the second attempt; doubles for each further one.

    Raises:
        ConfigError: the folder or the file is a link.
        DataError: another file of that name is there, or the server has another content.
        ResourceError: the server cannot be reached, or ends the connection each time.
    """
    path, part = folder / file.name, folder / f".{file.name}.part"
    check_folder(folder)
    check_target(path)
    check_target(part)
    if path.exists():
        if compute_file_hash(path) != file.sha256:
            raise DataError(
                f"{str(path)!r} has other content than the published file. Move it away; nothing is overwritten."
            )
        return FetchedFile(path, False)
    folder.mkdir(parents=True, exist_ok=True)
    problem = ""
    for attempt in range(ATTEMPTS):
        time.sleep(pause * 2 ** (attempt - 1) if attempt else 0)
        try:
            _append_download(file, f"{url}/{file.name}", part)
        except (requests.RequestException, HTTPError) as error:
            problem = str(error)
            reply = error.response if isinstance(error, requests.RequestException) else None
            if reply is not None and reply.status_code in REFUSALS:
                break
            continue
        if part.stat().st_size >= file.bytes:
            return FetchedFile(_accept_file(file, url, part, path), True)
        problem = f"the connection ended after {part.stat().st_size:,} of {file.bytes:,} bytes"
    raise ResourceError(
        f"{url}/{file.name} could not be fetched: {escape_unprintable(problem)[:300]}\nThe same command continues."
    )


def _append_download(file: File, url: str, part: Path) -> None:
    """Append to a partial file what it lacks.

    Raises:
        RequestException: the server cannot be reached, or refuses.
        HTTPError: of urllib3: the connection ended early.
    """
    have = part.stat().st_size if part.exists() else 0
    if have >= file.bytes:  # killed before it got its name
        return
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
    with requests.get(url, headers=headers, auth=_send_no_login, stream=True, timeout=SECONDS) as response:
        if response.status_code == requests.codes.requested_range_not_satisfiable:
            part.unlink()  # of another, longer content
        response.raise_for_status()
        begin = response.headers.get("Content-Range", "")
        resumed = response.status_code == requests.codes.partial and begin.startswith(f"bytes {have}-")
        with part.open("ab" if resumed else "wb") as stream:
            while stream.tell() <= file.bytes and (chunk := response.raw.read1(CHUNK, decode_content=False)):
                stream.write(chunk)  # one byte too many is another content, however long


def _send_no_login(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Return the request unchanged; as an ``auth``, it prevents the use of entries of .netrc."""
    return request


def _accept_file(file: File, url: str, part: Path, path: Path) -> Path:
    """Give a complete file its name.

    Raises:
        DataError: its content is not the known one; it is removed.
    """
    if (digest := compute_file_hash(part)) != file.sha256:
        part.unlink()
        raise DataError(
            f"{url}/{file.name} has another content than when caramel was checked against it: SHA-256 {digest}, not "
            f"{file.sha256}. It was removed. The authors may have changed it: figures may differ from published ones."
        )
    os.replace(part, path)
    return path


def fetch_benchmark(name: str, folder: Path, report: Callable[[FetchedFile], object]) -> Download:
    """Fetch the files of a benchmark into ``folder/NAME`` and return their source; errors as in ``fetch_file``.

    ``report`` is called after each file.
    """
    download = find_download(name)
    check_folder(folder)
    for file in download.files:
        report(fetch_file(file, download.url, folder / name))
    return download
