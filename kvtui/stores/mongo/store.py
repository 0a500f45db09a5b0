"""MongoDB, by TCP, TLS or unix socket: through pymongo, or on the wire.

``client=driver`` measures what an application with pymongo sees: one MongoClient with
one connection, straight to the server that was named. ``client=wire`` speaks OP_MSG
itself, where a server wants neither login nor TLS.

One operation sends: get → ``find`` by ``_id``; put → ``update`` with
a whole document and upsert; add → one ``update`` with ``$inc`` of every counter;
counts → ``find``; scan → ``find`` in ``_id`` order; delete → ``delete``. Reads go to
the primary with read concern ``local``, writes are acknowledged with ``w=1``.
"""

from __future__ import annotations

import importlib.metadata
import socket
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import psutil
import pymongo
from bson.errors import BSONError
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference
from pymongo.write_concern import WriteConcern

from kvtui.errors import OperationFailed, StoreError, StoreUnavailable
from kvtui.stores.mongo import connection, records
from kvtui.stores.mongo.errors import failed, unavailable
from kvtui.stores.store import ADD, SCAN, Settings, StoreInfo, Wire, WireStore

_LONGEST_KEY_BYTES: Final = 250

_ERRORS: Final = (PyMongoError, BSONError, OSError, ValueError, TypeError, KeyError)
"""What pymongo raises, also for bytes that are no answer, and our own ValueError for
a document that kvtui did not write."""


class MongoStore(WireStore):
    """One connection to a MongoDB server.

    Settings: ``host`` and ``port``, or ``path`` of a unix socket; ``schema``, the
    database (kvtui); ``username``, ``password_env`` or ``password_file``, ``tls``,
    ``timeout_s`` for connecting (3 at most) and for every reply (10).
    """

    kind: ClassVar[str] = "mongo"
    capabilities: ClassVar[frozenset[str]] = frozenset({ADD, SCAN})

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._where = connection.where(settings)
        self._client: Any = None
        self._collection: Any = None
        self._hello: Mapping[str, Any] = {}
        self._limit_bytes = records.DOCUMENT_LIMIT_BYTES

    def open(self) -> None:
        """Connect and log in; a first find proves that the server answers."""
        self.close()
        client = None
        try:
            client = connection.client(self.settings)
            collection = client[connection.schema(self.settings)].get_collection(
                records.COLLECTION,
                read_preference=ReadPreference.PRIMARY,
                read_concern=ReadConcern("local"),
                write_concern=WriteConcern(w=1),
            )
            with pymongo.timeout(connection.connect_timeout_s(self.settings)):
                hello = client.admin.command("hello")
                connection.check_primary(self._where, hello)
                # Any client may say hello; only one that is let in may find.
                collection.find_one({"_id": ""}, {"_id": 1})
        except StoreUnavailable:
            connection.close(client)
            raise
        except (*_ERRORS, OverflowError) as error:
            connection.close(client)
            raise unavailable(self._where, error) from None
        self._client, self._collection, self._hello = client, collection, hello
        self._limit_bytes = int(hello.get("maxBsonObjectSize", self._limit_bytes))

    def close(self) -> None:
        """Disconnect."""
        client, self._client, self._collection = self._client, None, None
        connection.close(client)

    def get(self, key: bytes) -> bytes | None:
        """A find by ``_id``."""
        try:
            found = self._records().find_one(
                {"_id": records.record_id(key)}, records.VALUE
            )
            return None if found is None else records.value_of(found)
        except _ERRORS as error:
            raise self._failed(error) from None

    def put(self, key: bytes, value: bytes) -> None:
        """The whole document, acknowledged; the same one again is a success."""
        records.check_size(self._where, key, value, self._limit_bytes)
        name = records.record_id(key)
        try:
            result = self._records().replace_one(
                {"_id": name}, {"_id": name, "v": value}, upsert=True
            )
            self._check_written(result)
        except _ERRORS as error:
            raise self._failed(error) from None

    def delete(self, key: bytes) -> bool:
        """A delete by ``_id``."""
        try:
            result = self._records().delete_one({"_id": records.record_id(key)})
            return bool(result.deleted_count)
        except _ERRORS as error:
            raise self._failed(error) from None

    def add(self, key: bytes, counts: tuple[tuple[bytes, int], ...]) -> None:
        """One ``$inc`` of all the counters."""
        try:
            result = self._records().update_one(
                {"_id": records.record_id(key)}, records.increments(counts), upsert=True
            )
            self._check_written(result)
        except (*_ERRORS, OverflowError) as error:
            raise self._failed(error) from None

    def counts(self, key: bytes) -> dict[bytes, int] | None:
        """A find by ``_id``."""
        try:
            found = self._records().find_one(
                {"_id": records.record_id(key)}, records.COUNTERS
            )
            return None if found is None else records.counters_of(found)
        except _ERRORS as error:
            raise self._failed(error) from None

    def scan(self, key: bytes, count: int) -> list[tuple[bytes, bytes]]:
        """A find in ``_id`` order; documents that hold counters are passed over."""
        if count <= 0:
            return []
        try:
            found = self._records().find(records.from_here(key), {"v": 1})
            return [records.pair_of(each) for each in found.sort("_id").limit(count)]
        except _ERRORS as error:
            raise self._failed(error) from None

    def wire(self) -> tuple[socket.socket, Wire]:
        """A socket of our own: no login, no TLS."""
        return connection.wire(self.settings)

    def info(self) -> StoreInfo:
        """From hello, buildInfo, serverStatus and the live socket."""
        try:
            self._records()
            built = self._client.admin.command("buildInfo")
            status = self._allowed("serverStatus")
            address, local = self._address()
        except _ERRORS as error:
            raise self._failed(error) from None
        engine = status.get("storageEngine", {})
        cache = status.get("wiredTiger", {}).get("cache", {})
        cache_bytes = cache.get("maximum bytes configured")
        process_id = status.get("pid") if local else None
        return StoreInfo(
            _version(built),
            address,
            _durability(engine),
            self._label(),
            memory_limit=f"cache {cache_bytes} bytes" if cache_bytes else "",
            item_limit_bytes=records.value_limit_bytes(
                self._limit_bytes, _LONGEST_KEY_BYTES
            ),
            process_id=None if process_id is None else int(process_id),
            details={
                "storage_engine": str(engine.get("name", "")),
                "read": "primary, read concern local",
                "write": "write concern w=1",
                "deployment": _deployment(self._hello),
                "max_connections": _most_connections(status),
            },
        )

    def _label(self) -> str:
        version = importlib.metadata.version("pymongo")
        if self.settings.get("client", "wire") == "driver":
            return f"driver, pymongo {version}"
        return f"wire, bson of pymongo {version}"

    def _allowed(self, command: str) -> Mapping[str, Any]:
        """The command's answer; empty where this login may not ask that."""
        try:
            answer: Mapping[str, Any] = self._client.admin.command(command)
        except pymongo.errors.OperationFailure:
            return {}
        return answer

    def _address(self) -> tuple[str, bool]:
        """Where the live socket leads, and whether that is this machine.

        The server says which port of ours it sees; the kernel, where that leads.
        """
        if self.settings.get("path"):
            return self._where, True
        seen = str(self._allowed("whatsmyuri").get("you", ""))
        port = seen.rpartition(":")[2]
        for each in psutil.Process().net_connections("tcp"):
            if each.raddr and port == str(each.laddr.port):
                host = str(each.raddr.ip)
                shown = f"[{host}]" if ":" in host else host
                local = host in ("127.0.0.1", "::1", "::ffff:127.0.0.1")
                return f"{shown}:{each.raddr.port}", local
        return self._where, False

    def count(self, namespace: str) -> int:
        """How many records kvtui has, of either form."""
        try:
            found: int = self._records().count_documents(records.ours(namespace))
        except _ERRORS as error:
            raise self._failed(error) from None
        return found

    def wipe(self, namespace: str) -> int:
        """Delete exactly the namespace's range; never a drop. The collection stays,
        empty: between looking and dropping, another run might have written."""
        try:
            result = self._records().delete_many(records.ours(namespace))
            return int(result.deleted_count)
        except _ERRORS as error:
            raise self._failed(error) from None

    def _records(self) -> Any:
        if self._collection is None:
            raise OperationFailed(
                "disconnected", f"mongo at {self._where} is not connected", broken=True
            )
        return self._collection

    def _check_written(self, result: Any) -> None:
        if result.matched_count != 1 and result.upserted_id is None:
            raise OperationFailed(
                "server-error",
                f"mongo at {self._where}: acknowledged a write and wrote nothing",
            )

    def _failed(self, error: Exception) -> StoreError:
        return failed(self._where, error)


def _version(built: Mapping[str, Any]) -> str:
    """What it is; a stand-in is called by its own name."""
    speaks = f"MongoDB {built.get('version', '?')}"
    stand_in = built.get("secantusVersion")
    return f"SecantusDB {stand_in} (speaks {speaks})" if stand_in else speaks


def _durability(engine: Mapping[str, Any]) -> str:
    name = engine.get("name", "")
    if engine.get("persistent") is False:
        return f"memory (storage engine {name})"
    return "OS cache (w=1: acknowledged before the journal is flushed)"


def _most_connections(status: Mapping[str, Any]) -> str:
    """The limit, as those that are open and those that would still be let in; empty
    where the server does not tell, or is a stand-in, which has none and says 0."""
    if "secantus" in status:
        return ""
    try:
        told = status["connections"]
        return str(int(told["current"]) + int(told["available"]))
    except (KeyError, TypeError, ValueError):
        return ""


def _deployment(hello: Mapping[str, Any]) -> str:
    if hello.get("msg") == "isdbgrid":
        return "sharded cluster, through mongos"
    if hello.get("setName"):
        return f"replica set {hello['setName']}, its primary"
    return "standalone"
