"""Files that are whole or not there: atomic writes, and errors that name the file."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from ilbo.errors import UserError


class WriteError(UserError):
    """A file could not be written; the previous content is kept."""


def write_atomically(path: Path, chunks: Iterable[bytes | memoryview]) -> None:
    """Writes a file so that a crash at any moment leaves the old or the new one, whole."""
    temporary = path.with_name(f".ilbo-{secrets.token_hex(8)}.tmp")
    try:
        # "x": neither through a link nor into a file that someone else has put there.
        file = open(temporary, "xb")  # noqa: SIM115
        try:
            with file:
                for chunk in chunks:
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
            _sync_folder(path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise cannot_write(path, error) from error


def is_temporary(path: Path) -> bool:
    """Whether `write_atomically` has named it."""
    return re.fullmatch(r"\.ilbo-[0-9a-f]{16}\.tmp", path.name) is not None


def remove_temporaries(folder: Path) -> None:
    """Removes what writes that were killed have left."""
    for path in filter(is_temporary, folder.glob(".ilbo-*.tmp")):
        with contextlib.suppress(OSError):
            path.unlink()


def write_text(path: Path, text: str) -> None:
    write_atomically(path, [text.encode()])


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_bytes(path: Path) -> bytes:
    """All of a plain file; a device or a pipe may never end."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise UserError(f"{str(path)!r} is not a plain file.")
    try:
        return path.read_bytes()
    except OSError as error:
        raise cannot_read(path, error) from None


def read_text(path: Path) -> str:
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError:
        raise UserError(f"{str(path)!r} is not a text file.") from None


def read_json(path: Path) -> Any:
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError):
        raise UserError(f"{str(path)!r} is damaged: it does not hold JSON.") from None


def cannot_read(path: Path, error: OSError) -> UserError:
    if isinstance(error, FileNotFoundError):
        return UserError(f"There is no file {str(path)!r}.")
    return UserError(f"Cannot read {str(path)!r}: {reason(error)}.")


def cannot_write(path: Path, error: OSError) -> WriteError:
    return WriteError(f"Cannot write {str(path)!r}: {reason(error)}.")


def reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def lock(folder: Path, name: str, taken: str) -> IO[str]:
    """Makes a folder, if need be, and takes it, until the file returned is closed.

    A `UserError` that says `taken` where another process has it; where there are no locks, does
    without.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / name, "a")  # noqa: SIM115
    except OSError as error:
        raise cannot_write(folder, error) from error
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise UserError(taken) from None
    except (ImportError, OSError):
        pass
    return file


def _sync_folder(folder: Path) -> None:
    """Makes a rename durable; systems that cannot open folders do without."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
