"""llama.cpp's own server with OpenAI's API, on a GGUF file, in a process of its own on the loopback interface."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

SLOTS = 20  # one for each prompt: its prefix stays in the cache from request to request
CODE = """
import sys, threading, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port, params.cpuparams.n_threads = sys.argv[1], int(sys.argv[2]), 1
params.hostnames = ["127.0.0.1"]
params.n_parallel, params.n_ctx, params.n_gpu_layers = int(sys.argv[3]), 1024 * int(sys.argv[3]), 0
server = xllamacpp.Server(params)
sys.stdin.read()  # until the parent ends
"""


@contextmanager
def serve_gguf(path: Path, log: Path, slots: int = SLOTS) -> Iterator[str]:
    """Yield the address of a running server; its output goes to ``log``.

    Raises:
        RuntimeError: the server ended, or does not answer within two minutes.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", CODE, str(path), str(port), str(slots)]
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=out)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(server, address, log)
        yield f"{address}/v1"
    finally:
        assert server.stdin is not None
        server.stdin.close()
        try:
            server.wait(timeout=20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if server.poll() is not None:
            break
        try:
            if requests.get(f"{address}/health", timeout=2).ok:
                return
        except requests.RequestException:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"llama.cpp's server does not answer: {log.read_text(errors='replace')[-1000:]}")
