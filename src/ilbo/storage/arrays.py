"""Arrays with a JSON header in one file. Plain data: reading it can run no code.

Layout: the eight bytes of `MAGIC`, the header's length as a little-endian 64-bit number, the header
(JSON), then the bytes of each array in the order of the header's list, little-endian, row by row.
The header's `sha256` covers all else in the header and all bytes after it.

In a compressed file (format 2) an array's entry says how many bytes it takes in the file (`bytes`):
those of its numbers' first bytes, then of all second ones, and so on, deflated together; or that it
is equal to an earlier array (`same`), in which case it takes none.
"""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ilbo.errors import UserError
from ilbo.storage.files import read_bytes, write_atomically
from ilbo.version import __version__

MAGIC = b"\x89ILBO\r\n\x1a"
FORMAT = 2
"""The newest format that is read; a file is written in the oldest that can hold it."""
_TYPES = ("<f4", "<f8", "<i4", "<i8", "<u4", "<u8", "|u1", "|b1")


def write(
    path: str | Path,
    kind: str,
    content: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    compress: bool = False,
) -> None:
    """Writes a file of this kind; `content` is what the header says beside the arrays' shapes."""
    entries: list[dict[str, Any]] = []
    parts: list[memoryview] = []
    first: dict[bytes, str] = {}
    for name, given in arrays.items():
        array = _little_endian(given)
        data = array.reshape(-1).view(np.uint8)
        entry: dict[str, Any] = {"name": name, "type": array.dtype.str, "shape": list(array.shape)}
        if compress:
            earlier = first.setdefault(hashlib.sha256(data.data).digest(), name)
            packed = b"" if earlier != name else _deflate(data, array.dtype.itemsize)
            entry |= {"bytes": len(packed)} if earlier == name else {"same": earlier}
            parts.append(memoryview(packed))
        else:
            parts.append(data.data)
        entries.append(entry)
    header = {
        "format": 2 if compress else 1,
        "kind": kind,
        "ilbo": __version__,
        **content,
        "arrays": entries,
    }
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
            or math.prod(max(size, 1) for size in shape) >= 2**48  # NumPy counts them so too
        ):
            _damaged(path, "its list of arrays cannot be read")
        kind = np.dtype(entry["type"])
        whole = math.prod(shape) * kind.itemsize
        size = entry.get("bytes", 0 if "same" in entry else whole)
        if type(size) is not int or size < 0 or at + size > len(data):
            _damaged(path, "it is cut short")
        content: Any = data[at : at + size]
        at += size
        if "same" in entry:
            array = found.get(str(entry["same"]))
            if array is None or array.nbytes != whole:
                _damaged(path, "its list of arrays cannot be read")
            content = array.tobytes()
        elif "bytes" in entry:
            content = _inflate(path, content, whole, kind.itemsize)
        array = np.frombuffer(content, kind).reshape(shape)
        found[name] = array.astype(kind.newbyteorder("="), copy=False)
    if at != len(data):
        _damaged(path, "it is longer than its header says")
    return found


def _deflate(data: np.ndarray, width: int) -> bytes:
    """Bytes of numbers of a width, deflated; bytes of equal rank together, as they are alike."""
    return zlib.compress(data.reshape(-1, width).T.tobytes(), 1)


def _inflate(path: Path, data: memoryview, size: int, width: int) -> bytes:
    """So many bytes again, and never more, whatever the file says."""
    try:
        inflater = zlib.decompressobj()
        content = inflater.decompress(data, size) if size else b""
    except zlib.error:
        _damaged(path, "its content cannot be decompressed")
    if len(content) != size:
        _damaged(path, "it is cut short")
    return np.frombuffer(content, np.uint8).reshape(width, -1).T.tobytes()


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
