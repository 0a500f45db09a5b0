"""Clients that yield bursts, for a loop that asks one operation at a time."""

from __future__ import annotations

from typing import Any

from kvtui.errors import OperationFailed
from kvtui.stores.operations import Burst, Client, Get, Operation, Put, Replies


def one_by_one(client: Client) -> Client:
    """The same client, each operation of its bursts by itself."""
    try:
        operation = next(client)
        while True:
            reply: Any
            if type(operation) is not Burst:
                try:
                    reply = yield operation
                except OperationFailed as error:
                    operation = client.throw(error)
                    continue
            else:
                replies: list[Any] = []
                failed = False
                for key, value in operation.pairs:
                    try:
                        replies.append((yield _single(key, value)))
                    except OperationFailed as error:
                        replies.append(error)
                        failed = True
                reply = Replies(replies) if failed else replies
            operation = client.send(reply)
    except StopIteration as ended:
        figures: dict[str, int] | None = ended.value
        return figures
    finally:
        client.close()


def _single(key: bytes, value: bytes | None) -> Operation:
    return Get(key) if value is None else Put(key, value)
