"""A server of the S3 protocol on the loopback interface, which checks signatures and rights.

It is moto's, a process of its own that speaks the protocol over HTTP. It is ended by its number.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import requests
from tracking_servers import START, free_port

BUCKET = "data"
SETUP = 3  # requests that make a user; all others after the bucket's are checked
ALL = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'
READ = ALL.replace('"s3:*"', '["s3:Get*", "s3:List*"]')


@dataclass
class S3:
    """A server with one bucket, a user who may do all and one who may read."""

    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    writer: Mapping[str, str] = field(default_factory=dict)
    reader: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and make bucket and users."""
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        environment = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": str(2 * SETUP + 1)}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, env=environment, **quiet)  # type: ignore[call-overload]
        begun = time.monotonic()
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() - begun > START:
                raise RuntimeError("moto's server did not start")
            time.sleep(0.1)
        self.writer, self.reader = self._user("writer", ALL), self._user("reader", READ)
        self.client(None).create_bucket(Bucket=BUCKET)

    def _answers(self) -> bool:
        with suppress(requests.RequestException):
            return requests.get(f"{self.url}/moto-api/", timeout=5).ok
        return False

    def _user(self, name: str, policy: str) -> dict[str, str]:
        client = self._made("iam", None)
        client.create_user(UserName=name)
        client.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=policy)
        key = client.create_access_key(UserName=name)["AccessKey"]
        return {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}

    def client(self, user: Mapping[str, str] | None = None) -> Any:
        """Return boto3's client of a user."""
        return self._made("s3", self.writer if user is None else user)

    def _made(self, kind: str, user: Mapping[str, str] | None) -> Any:
        import boto3

        user = user or {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}
        return boto3.client(
            kind,
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=user["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=user["AWS_SECRET_ACCESS_KEY"],
        )

    def stop(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
