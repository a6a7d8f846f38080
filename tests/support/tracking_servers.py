"""Real servers on the loopback interface: PostgreSQL, MLflow, and a gate between a client and one of them.

Each is started as a process of its own and ended by its number. Used by tests and by ``bench/tracking_restart.py``.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import requests

START = 400.0  # seconds that a server may take to answer, on a busy machine
BUCKET = "runs"
USER, PASSWORD = "admin", "a password of tests"


def free_port() -> int:
    """Return a port on which nothing listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        return int(probe.getsockname()[1])


def postgres_binaries() -> Path | None:
    """Return the folder of PostgreSQL's programs; Debian has them out of the path."""
    found = [Path(path).resolve() for path in [shutil.which("postgres")] if path]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), reverse=True)
    return next((path.parent for path in found if (path.parent / "initdb").exists()), None)


@dataclass
class Postgres:
    """A PostgreSQL server with a database of its own in a folder for temporary files."""

    binaries: Path
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="caramel-postgres-")))
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        """Make the database."""
        # It refuses to run as root.
        self.user = "postgres" if os.geteuid() == 0 else None
        if self.user:
            shutil.chown(self.folder, self.user)
        self.folder.chmod(0o700)
        command = ["initdb", "-D", "data", "-U", "caramel", "--auth=trust", "-E", "UTF8", "--no-sync"]
        self._open(*command).wait()

    @property
    def uri(self) -> str:
        """What SQLAlchemy reaches it by."""
        return f"postgresql+psycopg2://caramel@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = ["-D", "data", "-p", str(self.port), "-h", "127.0.0.1", "-k", str(self.folder)]
        self.process = self._open("postgres", *options)
        ready = ["pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        _until(lambda: self._open(*ready).wait() == 0, self.process, "PostgreSQL")

    def stop(self, sign: signal.Signals = signal.SIGQUIT) -> None:
        """End it at once, as a crash would (``SIGQUIT``), or in order (``SIGINT``)."""
        assert self.process is not None
        os.kill(self.process.pid, sign)
        self.process.wait()

    def remove(self) -> None:
        """End it and remove its folder."""
        if self.process is not None and self.process.poll() is None:
            self.stop()
        shutil.rmtree(self.folder)

    def _open(self, program: str, *options: str) -> subprocess.Popen[bytes]:
        command = [str(self.binaries / program), *options]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(command, cwd=self.folder, user=self.user, group=self.user, extra_groups=[] if self.user else None, **quiet)  # type: ignore[arg-type]  # fmt: skip


@dataclass
class Server:
    """An MLflow server that asks for name and password and hands artifacts through."""

    folder: Path
    store: str  # URI of its database
    artifacts: str  # where it puts artifacts: a folder or an S3 URL
    port: int = field(default_factory=free_port)
    environment: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        users = self.folder / "auth.ini"
        users.write_text(
            f"[mlflow]\ndefault_permission = EDIT\ndatabase_uri = sqlite:///{self.folder}/auth.db\n"
            f"admin_username = {USER}\nadmin_password = {PASSWORD}\n"
            "auth_cache_ttl_seconds = 60\n",
            encoding="utf-8",
        )
        command = [sys.executable, "-m", "mlflow", "server", "--app-name", "basic-auth", "--workers", "1"]
        command += ["--backend-store-uri", self.store, "--artifacts-destination", self.artifacts]
        command += ["--serve-artifacts", "--host", "127.0.0.1", "--port", str(self.port)]
        environment = {
            **os.environ,
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_AUTH_CONFIG_PATH": str(users),
            "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_hex(),
            **self.environment,
        }
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        _until(self._answers, self.process, "MLflow")

    def _answers(self) -> bool:
        with suppress(requests.RequestException):
            return requests.get(f"{self.url}/health", timeout=5).ok
        return False

    def kill(self) -> None:
        """Kill it and its workers (``kill -9``)."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@dataclass
class Storage:
    """An S3 server (moto) with one bucket."""

    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """What MLflow's server needs to reach it; clients need nothing."""
        url = f"http://127.0.0.1:{self.port}"
        return {"MLFLOW_S3_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}

    def start(self) -> None:
        """Start it and make the bucket."""
        url = f"http://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def made() -> bool:
            with suppress(requests.RequestException):
                return requests.put(f"{url}/{BUCKET}", timeout=5).ok
            return False

        _until(made, self.process, "moto")

    def kill(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class Gate:
    """A port that hands what comes on to another port, until it is shut; then it refuses.

    ``broken`` is what the request had whose answer was broken off last (``break_off``).
    """

    def __init__(self, target: int) -> None:
        self.target, self.port, self.shut = target, free_port(), threading.Event()
        self.broken, self._wanted = b"", b""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._links: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                inside, _ = self._listener.accept()
                if self.shut.is_set():
                    inside.close()
                    continue
                outside = socket.create_connection(("127.0.0.1", self.target))
                self._links += [inside, outside]
                broken = threading.Event()
                asked, answered = (inside, outside, broken), (outside, inside, broken)
                threading.Thread(target=self._ask, args=asked, daemon=True).start()
                threading.Thread(target=self._answer, args=answered, daemon=True).start()

    def break_off(self, request: bytes) -> None:
        """Break off the answer to the next request that has this in its head, before its last byte."""
        self.broken, self._wanted = b"", request

    def _ask(self, client: socket.socket, server: socket.socket, broken: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if self._wanted and self._wanted in data:
                    self.broken, self._wanted = self._wanted, b""
                    broken.set()
                server.sendall(data)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _answer(self, server: socket.socket, client: socket.socket, broken: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if broken.is_set() and not data.endswith(b"\r\n\r\n"):  # which is the end of its head
                    client.sendall(data[:-1])
                    break
                client.sendall(data)
        for end in (client, server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Cut all connections and refuse new ones in the block."""
        self.shut.set()
        for link in self._links:
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
        try:
            yield
        finally:
            self.shut.clear()

    def close(self) -> None:
        """Listen no longer."""
        with self.closed():
            self._listener.close()


class Impostor(ThreadingHTTPServer):
    """What is no MLflow server, or one that answers wrongly: each request is answered by a function."""

    def __init__(self, answer: Callable[[BaseHTTPRequestHandler], None]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def handle_one_request(self) -> None:
                with suppress(OSError):  # the client went away
                    super().handle_one_request()

            def respond(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                answer(self)

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = respond

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.daemon_threads = True
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


def send_body(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    """Answer a request with a body and headers; ``_`` in their names stands for ``-``."""
    handler.send_response(status)
    for name, value in {"Content_Length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def impostor(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """Start such a server for the time of the block; give its URL."""
    server = Impostor(answer)
    try:
        yield server.url
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class Served:
    """An MLflow server behind a gate, with its database where PostgreSQL is installed; else ``why`` it is not."""

    server: Server
    gate: Gate
    postgres: Postgres | None
    why: str


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """Start the servers for the time of the block."""
    binaries = postgres_binaries()
    why = "" if binaries else "PostgreSQL is not installed"
    why = why if find_spec("psycopg2") else "psycopg2 is not installed"
    postgres = Postgres(binaries) if binaries and not why else None
    server = Server(
        folder, postgres.uri if postgres else f"sqlite:///{folder}/mlflow.db", str(folder / "artifacts")
    )
    gate = Gate(server.port)
    try:
        if postgres:
            postgres.start()
        server.start()
        yield Served(server, gate, postgres, why)
    finally:
        gate.close()
        server.kill()
        if postgres:
            postgres.remove()


def _until(done: Callable[[], bool], process: subprocess.Popen[bytes], name: str) -> None:
    """Wait until a server is ready."""
    start = time.monotonic()
    while not done():
        if process.poll() is not None or time.monotonic() - start > START:
            raise RuntimeError(f"{name} did not start")
        time.sleep(0.2)
