"""Arrays with a JSON header in one file. Plain data: reading it can run no code.

Layout: the eight bytes of `MAGIC`, the header's length as a little-endian 64-bit number, the header
(JSON), then the bytes of each array in the order of the header's list, little-endian, row by row.
The header's `sha256` covers all else in the header and all arrays.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ilbo.errors import UserError
from ilbo.storage.files import read_bytes, write_atomically
from ilbo.version import __version__

MAGIC = b"\x89ILBO\r\n\x1a"
FORMAT = 1
_TYPES = ("<f4", "<f8", "<i4", "<i8", "<u4", "<u8", "|u1", "|b1")


def write(
    path: str | Path, kind: str, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Writes a file of this kind; `content` is what the header says beside the arrays' shapes."""
    stored = {name: _little_endian(array) for name, array in arrays.items()}
    header = {
        "format": FORMAT,
        "kind": kind,
        "ilbo": __version__,
        **content,
        "arrays": [
            {"name": name, "type": array.dtype.str, "shape": list(array.shape)}
            for name, array in stored.items()
        ],
    }
    parts = [array.reshape(-1).view(np.uint8).data for array in stored.values()]
    encoded = _encode({**header, "sha256": _digest(header, parts)})
    encoded += b" " * (-len(encoded) % 16)  # aligns the arrays
    size = len(encoded).to_bytes(8, "little")
    write_atomically(Path(path), [MAGIC, size, encoded, *parts])


def read(path: str | Path, kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a file of this kind, or a `UserError`."""
    path = Path(path)
    data = read_bytes(path)
    if not data.startswith(MAGIC):
        raise UserError(f"{str(path)!r} is not a {kind} file of ilbo.")
    start = len(MAGIC) + 8
    end = start + int.from_bytes(data[len(MAGIC) : start], "little")
    if len(data) < start or end > len(data):
        _damaged(path, "it is cut short")
    try:
        header = json.loads(data[start:end])
    except (ValueError, RecursionError):
        _damaged(path, "its header cannot be read")
    if not isinstance(header, dict) or not isinstance(header.get("format"), int):
        _damaged(path, "its header cannot be read")
    if header["format"] > FORMAT:
        raise UserError(
            f"{str(path)!r} has format {header['format']}, but this version of ilbo "
            f"({__version__}) reads up to {FORMAT}: update ilbo."
        )
    arrays = _arrays(path, header.get("arrays"), memoryview(data)[end:])
    claimed = header.pop("sha256", None)
    try:
        actual = _digest(header, [memoryview(data)[end:]])
    except (ValueError, RecursionError):
        _damaged(path, "its header cannot be read")
    if claimed != actual:
        _damaged(path, "its checksum does not fit its content")
    if header.get("kind") != kind:
        raise UserError(f"{str(path)!r} is a {header.get('kind')} file of ilbo, not a {kind} file.")
    return header, arrays


def _arrays(path: Path, entries: Any, data: memoryview) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    at = 0
    for entry in entries if isinstance(entries, list) else _damaged(path, "it lists no arrays"):
        if not isinstance(entry, dict) or entry.get("type") not in _TYPES:
            _damaged(path, "its list of arrays cannot be read")
        name, shape = entry.get("name"), entry.get("shape")
        if (
            not isinstance(name, str)
            or not isinstance(shape, list)
            or len(shape) > 8
            or not all(type(size) is int and 0 <= size < 2**48 for size in shape)
        ):
            _damaged(path, "its list of arrays cannot be read")
        kind = np.dtype(entry["type"])
        size = math.prod(shape) * kind.itemsize
        if at + size > len(data):
            _damaged(path, "it is cut short")
        array = np.frombuffer(data[at : at + size], kind).reshape(shape)
        found[name] = array.astype(kind.newbyteorder("="), copy=False)
        at += size
    if at != len(data):
        _damaged(path, "it is longer than its header says")
    return found


def _little_endian(array: Any) -> np.ndarray:
    array = np.asarray(array)
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)
    if array.dtype.str not in _TYPES:
        raise TypeError(f"arrays of type {array.dtype} cannot be stored")
    return array


def _encode(header: dict[str, Any]) -> bytes:
    return json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _digest(header: dict[str, Any], parts: list[memoryview]) -> str:
    digest = hashlib.sha256(_encode(header))
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _damaged(path: Path, why: str) -> NoReturn:
    raise UserError(f"{str(path)!r} is damaged: {why}.")
