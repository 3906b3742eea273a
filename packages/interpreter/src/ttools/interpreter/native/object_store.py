"""A directory of compiled objects, with checksums, atomic writes and a size limit.

Objects are executed after they are read, so this module also checks that only the user can write
the directory and its files. Any number of processes may use one directory at the same time. If an
entry cannot be read or written, the kernel is compiled, and the run continues.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from ttools.core.configuration import cache_directory

#: If the directory has grown beyond this size, it is reduced to three quarters of this size.
LIMIT_BYTES = 512 * 1024 * 1024

_MAGIC = b"ttools-object-2\n"
_DIGEST = hashlib.sha256().digest_size
_SUFFIX = ".ttobj"
_OFF = ("off", "0", "false", "no")
#: A process measures the size of the directory each time it has written this number of entries.
_WRITES_BETWEEN_MEASURES = 64
#: A process also measures the size at its first write, unless another process has done so within
#: this time. Otherwise, each short process would list thousands of files.
_SECONDS_BETWEEN_MEASURES = 600.0
_MEASURED = "measured"
_ABANDONED_SECONDS = 3600.0


@dataclass(frozen=True)
class Entry:
    """A stored object.

    Attributes:
        metadata: Data that the writer stored with the object.
    """

    metadata: bytes
    object_code: bytes


class ObjectStore:
    """A directory that caches compiled code, one file per entry.

    Args:
        directory: Path of the directory, which is created if it does not exist.
        limit_bytes: Size above which the least recently used entries are removed.

    Attributes:
        refusal: The reason why the store is not used; None if it is used.
    """

    def __init__(self, directory: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self.directory = directory
        self.limit_bytes = limit_bytes
        self._writes = 0
        self.refusal = self._open()

    def _open(self) -> str | None:
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = self.directory.stat()
        except OSError as error:
            return f"{self.directory} cannot be used: {error.strerror or error}"
        return _distrust(self.directory, status)

    def read(self, key: str) -> Entry | None:
        """Return the entry of a key; None if it is missing, damaged or not owned by this user."""
        if self.refusal is not None:
            return None
        path = self._path(key)
        try:
            data = _read_own_file(path)
        except OSError:
            return None
        entry = _decode(data)
        if entry is None:
            self.discard(key)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # record the use, because the least recently used are removed first
        return entry

    def write(self, key: str, metadata: bytes, object_code: bytes) -> None:
        """Store an entry, replacing any existing entry for the key; ignore file-system errors."""
        if self.refusal is not None:
            return
        data = _encode(Entry(metadata, object_code))
        temporary = None
        try:
            # mkstemp creates a file that only this user can read, with a unique name.
            handle, temporary = tempfile.mkstemp(suffix=".tmp", dir=self.directory)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(temporary).replace(self._path(key))
        except OSError:
            if temporary is not None:
                _unlink(Path(temporary))
            return
        self._writes += 1
        if self._writes % _WRITES_BETWEEN_MEASURES == 0 or (
            self._writes == 1 and self._long_unmeasured()
        ):
            self.shrink()

    def discard(self, key: str) -> None:
        """Remove an entry that cannot be used."""
        _unlink(self._path(key))

    def size(self) -> tuple[int, int]:
        """Return the number of entries and their size in bytes."""
        files = self._files()
        return len(files), sum(size for _, size, _ in files)

    def clear(self) -> tuple[int, int]:
        """Remove all entries, and return their number and their total size in bytes."""
        files = self._files()
        for _, _, path in files:
            _unlink(Path(path))
        return len(files), sum(size for _, size, _ in files)

    def shrink(self) -> None:
        """Remove the least recently used entries, and temporary files of crashed writers."""
        now = time.time()
        with contextlib.suppress(OSError):
            (self.directory / _MEASURED).touch(mode=0o600)
        for temporary in self.directory.glob("*.tmp"):
            try:
                if now - temporary.stat().st_mtime > _ABANDONED_SECONDS:
                    _unlink(temporary)
            except OSError:
                continue
        files = self._files()
        total = sum(size for _, size, _ in files)
        if total <= self.limit_bytes:
            return
        for _, size, path in sorted(files):
            _unlink(Path(path))
            total -= size
            if total <= self.limit_bytes * 3 // 4:
                return

    def _long_unmeasured(self) -> bool:
        try:
            measured = (self.directory / _MEASURED).stat().st_mtime
        except OSError:
            return True
        return not 0 <= time.time() - measured < _SECONDS_BETWEEN_MEASURES

    def _files(self) -> list[tuple[float, int, str]]:
        """Return the time of last use, the size in bytes and the path of each entry."""
        files = []
        try:
            with os.scandir(self.directory) as entries:
                for entry in entries:
                    if entry.name.endswith(_SUFFIX):
                        status = entry.stat(follow_symlinks=False)
                        files.append((status.st_mtime, status.st_size, entry.path))
        except OSError:
            pass
        return files

    def _path(self, key: str) -> Path:
        return self.directory / f"{key}{_SUFFIX}"


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _distrust(path: Path, found: os.stat_result) -> str | None:
    """Return the reason not to run code from a file or directory; None if it is trusted."""
    if found.st_uid != os.getuid():
        return f"{path} belongs to another user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"{path} can be written by other users; run: chmod go-w {path}"
    return None


def _read_own_file(path: Path) -> bytes:
    """Read a regular file that this user owns, without following links.

    Raises:
        OSError: The file does not exist, is a link, or cannot be trusted.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or _distrust(path, status) is not None:
            raise PermissionError(f"{path} is not a private file of this user")
        return file.read()


def _encode(entry: Entry) -> bytes:
    body = msgspec.msgpack.encode(entry)
    return _MAGIC + hashlib.sha256(body).digest() + body


def _decode(data: bytes) -> Entry | None:
    """Return the entry in a file's bytes; None if the file is damaged."""
    start = len(_MAGIC) + _DIGEST
    body = data[start:]
    if data[: len(_MAGIC)] != _MAGIC or hashlib.sha256(body).digest() != data[len(_MAGIC) : start]:
        return None
    try:
        return msgspec.msgpack.decode(body, type=Entry)
    except msgspec.DecodeError:
        return None


@lru_cache(maxsize=8)
def _store(directory: Path) -> ObjectStore:
    return ObjectStore(directory)


def object_store() -> ObjectStore | None:
    """Return the store of this process; None with `TTOOLS_CACHE=off`."""
    if os.environ.get("TTOOLS_CACHE", "").strip().lower() in _OFF:
        return None
    return _store(cache_directory() / "objects")
