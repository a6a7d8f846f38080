"""Read replies of servers within limits, because a server is not trusted."""

from __future__ import annotations

import time

import requests
from urllib3.exceptions import DecodeError, ProtocolError, ReadTimeoutError

CHUNK = 2**18  # bytes per read


def read_body(response: requests.Response, seconds: float, largest: int) -> bytes:
    """Return the body of a response that was requested with ``stream=True``.

    Args:
        response: a response whose headers were read.
        seconds: time limit for the complete body.
        largest: maximum number of bytes.

    Raises:
        ChunkedEncodingError: the body is truncated.
        RequestException: the body is compressed, too long, or takes too long.
    """
    coding = response.headers.get("Content-Encoding", "identity")
    if coding.strip().lower() != "identity":  # a few bytes of it could become gigabytes
        raise requests.RequestException(f"the response is compressed ({coding}), which was not requested")
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
