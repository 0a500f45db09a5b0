"""Clients that yield bursts, for a loop that asks one operation at a time."""

from __future__ import annotations

from typing import Any

from kvtui.errors import OperationFailed
from kvtui.stores.operations import Burst, Client


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
                reply = []
                for each in operation.operations:
                    try:
                        reply.append((yield each))
                    except OperationFailed as error:
                        reply.append(error)
            operation = client.send(reply)
    except StopIteration as ended:
        figures: dict[str, int] | None = ended.value
        return figures
    finally:
        client.close()
