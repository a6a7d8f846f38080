from collections.abc import Iterator

import pytest
from chat_server import ChatServer

from caramel.models.chat.endpoint import KEY


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv(KEY, raising=False)
    server = ChatServer()
    yield server
    server.close()
