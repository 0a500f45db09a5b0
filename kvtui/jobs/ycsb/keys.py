"""Key names as YCSB makes them: ``user`` and a number, hashed or the record's own."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvtui.stores.operations import prefix

Records = NDArray[np.int64]
Names = NDArray[np.bytes_]

_OFFSET_BASIS: Final = 0xCBF29CE484222325
_PRIME: Final = 1099511628211
_DIGITS: Final = 20
_OCTETS: Final = 6
"""Of a record's number, those that may differ from zero."""
_POWERS: Final = np.array([0, *(10**n for n in range(1, 20))], np.uint64)
"""As many of them as a number reaches, so many digits it has."""
_FOURS: Final = np.array([b"%04d" % number for number in range(10_000)], "S4")


def fnv(values: Any, octets: int = 8) -> NDArray[np.uint64]:
    """YCSB's ``fnvhash64`` before its sign is dropped: FNV-1a of 64 bits over the
    eight octets of each value, the lowest first.

    ``octets`` says how many may differ from zero; the others only multiply.
    """
    rest = np.array(values, np.uint64)
    hashed = np.full(rest.shape, _OFFSET_BASIS, np.uint64)
    octet = np.empty_like(rest)
    prime, low, eight = np.uint64(_PRIME), np.uint64(0xFF), np.uint64(8)
    for _ in range(octets):
        np.bitwise_and(rest, low, out=octet)
        np.bitwise_xor(hashed, octet, out=hashed)
        np.multiply(hashed, prime, out=hashed)
        np.right_shift(rest, eight, out=rest)
    if octets < 8:
        hashed *= np.uint64(pow(_PRIME, 8 - octets, 2**64))
    return hashed


def unsigned(hashed: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The absolute value of each as a signed number: what YCSB goes on with."""
    return np.abs(hashed.view(np.int64)).view(np.uint64)


class Keys:
    """Names of records under a namespace."""

    def __init__(
        self, namespace: str, *, hashed: bool = True, zero_padding: int = 1
    ) -> None:
        self.start = prefix(namespace) + b"user"
        self._hashed = hashed
        self._padding = zero_padding
        self._length = len(self.start) + max(_DIGITS, zero_padding)

    def names(self, records: Records) -> Names:
        """The keys of records, as an array of bytes."""
        numbers = records.astype(np.uint64)
        if self._hashed:
            numbers = unsigned(fnv(numbers, octets=_OCTETS))
        digits = _decimal(numbers)
        lengths = np.searchsorted(_POWERS, numbers, "right")
        np.maximum(lengths, self._padding, out=lengths)
        out = np.zeros((len(numbers), self._length), np.uint8)
        begin = len(self.start)
        out[:, :begin] = np.frombuffer(self.start, np.uint8)
        for length in np.flatnonzero(np.bincount(lengths)).tolist():
            zeros = max(0, length - _DIGITS)
            kind = f"V{length - zeros}"
            into = np.ndarray(
                (len(numbers),), kind, out, begin + zeros, (self._length,)
            )
            own = np.ndarray(
                (len(numbers),), kind, digits, max(0, _DIGITS - length), (_DIGITS,)
            )
            rows = np.flatnonzero(lengths == length)
            into[rows] = own[rows]
            if zeros:
                out[:, begin : begin + zeros] = ord("0")
        return out.view(f"S{self._length}").ravel()


def _decimal(numbers: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """The digits of each, with leading zeros: ``(n, 20)`` characters."""
    out = np.empty((len(numbers), _DIGITS // 4), "S4")
    rest, base = numbers, np.uint64(10_000)
    for column in range(_DIGITS // 4 - 1, -1, -1):
        more = rest // base
        out[:, column] = _FOURS[(rest - more * base).astype(np.int64)]
        rest = more
    return out.view(np.uint8).reshape(len(numbers), _DIGITS)
