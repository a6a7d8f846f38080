"""Replies of servers, read within bounds: a server is not trusted."""

from __future__ import annotations

import time

import requests
from urllib3.exceptions import DecodeError, ProtocolError, ReadTimeoutError

CHUNK = 2**18  # bytes that are read at once


def read_body(response: requests.Response, seconds: float, largest: int) -> bytes:
    """Return the body of a response that was requested with ``stream=True``.

    Args:
        response: its headers were read.
        seconds: after which it must be complete, however slowly it comes.
        largest: bytes at most.

    Raises:
        ChunkedEncodingError: it broke off in its middle.
        RequestException: it is compressed, too long, or takes longer.
    """
    coding = response.headers.get("Content-Encoding", "identity")
    if coding.strip().lower() != "identity":  # a few bytes of it could become gigabytes
        raise requests.RequestException(
            f"the response is compressed ({coding}), though that was not asked for"
        )
    body, end = bytearray(), time.monotonic() + seconds
    try:
        while part := response.raw.read1(CHUNK, decode_content=False):
            body += part
            if len(body) > largest:
                raise requests.RequestException(f"the response has more than {largest:,} bytes")
            if time.monotonic() > end:
                raise requests.RequestException(
                    f"the response was not complete after {seconds:g} s: timed out"
                )
    except ProtocolError as error:
        raise requests.exceptions.ChunkedEncodingError(error) from error
    except ReadTimeoutError as error:
        raise requests.ReadTimeout(error) from error
    except DecodeError as error:
        raise requests.exceptions.ContentDecodingError(error) from error
    return bytes(body)
