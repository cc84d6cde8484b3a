"""Files that only this user can have written, each with a checksum.

What they hold is machine code in the end: whoever can write one can run code as the user, and a
flipped bit crashes the process or changes a result unseen. So a file is read only if it belongs to
the user, nobody else can write it, and its checksum is right; any other is as good as none.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from pathlib import Path

DIGEST = hashlib.sha256().digest_size


class PrivateFiles:
    """Bytes by name, in a folder of the user's own."""

    def __init__(self, folder: Path):
        """Makes the folder where there is none; OSError where it is not, or cannot be, private."""
        for path in reversed([folder, *folder.parents]):
            if not path.is_dir():
                path.mkdir(mode=0o700, exist_ok=True)  # another process may be quicker
        found = folder.stat()
        if not _is_own(found):
            raise PermissionError(f"{str(folder)!r} belongs to another user.")
        if stat.S_IMODE(found.st_mode) != 0o700:
            folder.chmod(0o700)  # what others may have put there is refused file by file
        self.folder = folder

    def get(self, name: str) -> bytes | None:
        """None where there is no such file, or none that can be trusted."""
        try:
            # Neither a link is followed nor a pipe waited for.
            flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
            flags |= getattr(os, "O_BINARY", 0)
            with open(os.open(self.folder / name, os.O_RDONLY | flags), "rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode) or not _is_own(found) or _is_open(found):
                    return None
                content = file.read()
        except OSError:
            return None
        digest, value = content[:DIGEST], content[DIGEST:]
        return value if digest == _digest(name, value) else None

    def put(self, name: str, value: bytes) -> None:
        """Writes the file, or replaces it as a whole; OSError where that fails."""
        handle, temporary = tempfile.mkstemp(dir=self.folder)  # of mode 0600
        try:
            with open(handle, "wb") as file:
                file.write(_digest(name, value))
                file.write(value)
            os.replace(temporary, self.folder / name)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


def _digest(name: str, value: bytes) -> bytes:
    """Of the name too: a file under another's name is not that other."""
    digest = hashlib.sha256(name.encode() + b"\0")
    digest.update(value)
    return digest.digest()


def _is_own(found: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or found.st_uid == os.geteuid()


def _is_open(found: os.stat_result) -> bool:
    """Whether others can write; where there is no such mode, the user's profile keeps them out."""
    return os.name == "posix" and bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
