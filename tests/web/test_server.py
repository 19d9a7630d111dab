"""The socket that the application listens on."""

from __future__ import annotations

import asyncio
import socket

import pytest

from ocular.errors import ConfigError
from ocular.web.server import listen


def test_answers_are_sent_at_once() -> None:
    """Without TCP_NODELAY an answer on a kept connection waits for the acknowledgement of the one before."""

    async def accepted_option() -> int:
        options: asyncio.Queue[int] = asyncio.Queue()

        async def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = writer.get_extra_info("socket")
            await options.put(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listening = listen("127.0.0.1", 0)
        server = await asyncio.start_server(accept, sock=listening)
        async with server:
            _, writer = await asyncio.open_connection(*listening.getsockname())
            found = await options.get()
            writer.close()
            return found

    assert asyncio.run(accepted_option()) != 0


def test_a_port_in_use_is_refused_in_one_line() -> None:
    with listen("127.0.0.1", 0) as listening, pytest.raises(ConfigError, match="give another --port or --host"):
        listen("127.0.0.1", listening.getsockname()[1])


def test_an_address_of_the_newer_kind() -> None:
    with listen("::1", 0) as listening:
        assert listening.family == socket.AF_INET6
