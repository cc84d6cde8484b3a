"""A disk that fails: killed, or full, at any operation that changes a file."""

import builtins
import errno
import io
import os
import signal
import threading


class Killed(BaseException):
    """What a process that is killed does from then on: nothing."""


class Disk:
    """Lets so many operations that change files pass; the next one fails half done.

    Killed, all that follow fail as well (by `Killed`, or by an end of the process where it `ends`);
    full, each write does and the rest goes on. Full, it may count `by_bytes`.
    """

    def __init__(self, replace, passing, full=False, ends=False, by_bytes=False):
        """`replace(object, name, value)` sets an attribute, as `monkeypatch.setattr` does."""
        self.left, self.full, self.ends, self.by_bytes = passing, full, ends, by_bytes
        self.passed = 0
        self.lock = threading.Lock()
        self.open = builtins.open
        replace(builtins, "open", self._open)
        replace(io, "open", self._open)
        for name in ("replace", "unlink", "mkdir", "rmdir", "fsync"):
            replace(os, name, self._checked(getattr(os, name)))

    def _pass(self, size=0):
        """Takes an operation, a write of so many bytes if any, off what is left."""
        if self.full and not size:
            return
        with self.lock:
            self.passed += 1
            self.left -= size if self.by_bytes else 1
            if self.left >= 0:
                return
        raise OSError(errno.ENOSPC, "No space left on device") if self.full else Killed

    def _die(self):
        if self.ends:
            os.kill(os.getpid(), signal.SIGKILL)

    def _checked(self, function):
        def checked(*arguments, **options):
            try:
                self._pass()
            except Killed:
                self._die()
                raise
            return function(*arguments, **options)

        return checked

    def _open(self, path, mode="r", *arguments, **options):
        file = self.open(path, mode, *arguments, **options)
        if mode[0] not in "wax":
            return file
        plain = file.write

        def write(data):
            try:
                self._pass(max(1, len(data)))
            except BaseException:
                plain(data[: len(data) // 2])
                file.flush()
                self._die()
                raise
            return plain(data)

        try:
            file.write = write
        except AttributeError:  # of a binary file, which is a class of C
            return Written(file, write)
        return file


class Written:
    """A binary file whose writes are checked."""

    def __init__(self, file, write):
        self._file, self.write = file, write

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()
