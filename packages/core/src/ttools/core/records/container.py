"""The file of a record: a zip archive of a JSON document, TTIR texts and NumPy byte arrays.

This module checks the limits and the integrity of the archive. Nothing is unpacked before its size
is known and allowed, and nothing in it is ever executed or unpickled.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.core.errors import UsageError

DOCUMENT = "record.json"
#: Limits for untrusted files: sizes in bytes, and the number of parts.
LARGEST_DOCUMENT = 64 << 20
LARGEST_TEXT = 64 << 20
LARGEST_RECORD = 8 << 30
MOST_PARTS = 20_000

_LARGEST_HEADER = 1 << 12
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
#: Exceptions that Python's zipfile module raises for broken archives.
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    KeyError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    UnicodeError,
    ValueError,
)


class Parts:
    """The parts of an open file.

    Args:
        name: File name for messages.
    """

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._archive, self._name = archive, name
        entries = archive.infolist()
        self._check(entries)
        self._entries = {entry.filename: entry for entry in entries}

    def _check(self, entries: list[zipfile.ZipInfo]) -> None:
        if len(entries) > MOST_PARTS:
            raise UsageError(
                f"{self._name}: the record has {len(entries):,} parts; at most {MOST_PARTS:,} are "
                "allowed"
            )
        for entry in entries:
            if entry.flag_bits & _ENCRYPTED or entry.compress_type not in _METHODS:
                part = printable(entry.filename)
                raise damaged(self._name, f"its part `{part}` has an unsupported encoding")
        total = sum(entry.file_size for entry in entries)
        if total > LARGEST_RECORD:
            raise UsageError(
                f"{self._name}: the unpacked record has {total:,} bytes; at most "
                f"{LARGEST_RECORD:,} are allowed"
            )

    def document(self) -> Any:
        """Return the JSON document.

        Raises:
            UsageError: The archive contains no JSON document.
        """
        if DOCUMENT not in self._entries:
            raise UsageError(
                f"{self._name}: not a record of launches, because it has no {DOCUMENT}"
            )
        text = self._read(DOCUMENT, LARGEST_DOCUMENT)
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise damaged(self._name, f"{DOCUMENT} is not JSON") from None

    def text(self, part: str) -> str:
        """Return a part that is text.

        Raises:
            UsageError: The part is missing, too large or damaged.
        """
        try:
            return self._read(part, LARGEST_TEXT).decode("utf-8")
        except UnicodeDecodeError:
            raise damaged(self._name, f"`{printable(part)}` is not text") from None

    def array(self, part: str, size: int) -> NDArray[np.uint8]:
        """Return a part that is an array of bytes.

        Args:
            size: The required number of bytes.

        Raises:
            UsageError: The part is missing or damaged, or has a different size.
        """
        data = self._read(part, size + _LARGEST_HEADER)
        stream = io.BytesIO(data)
        try:
            version = np.lib.format.read_magic(stream)
            if version != (1, 0):
                raise ValueError
            # The header is checked first, because loading allocates the size that it claims.
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        except Exception:  # noqa: BLE001 - NumPy evaluates the header, which may raise anything
            shape, dtype = None, None
        if shape != (size,) or dtype != np.uint8 or len(data) - stream.tell() != size:
            raise damaged(self._name, f"`{printable(part)}` is not an array of {size:,} bytes")
        return np.frombuffer(data, np.uint8, offset=stream.tell())

    def _read(self, part: str, limit: int) -> bytes:
        entry = self._entries.get(part)
        if entry is None:
            raise damaged(self._name, f"its part `{printable(part)}` is missing")
        if entry.file_size > limit:
            raise damaged(
                self._name,
                f"`{printable(part)}` has {entry.file_size:,} bytes; at most {limit:,} are allowed",
            )
        try:
            with self._archive.open(entry) as stream:
                # Read no more than the claimed size, even if the archive contains more.
                data = stream.read(entry.file_size + 1)
        except _BROKEN as error:
            reason = str(error) or type(error).__name__
            raise damaged(self._name, f"`{printable(part)}`: {printable(reason)}") from None
        if len(data) != entry.file_size:
            raise damaged(
                self._name, f"the length of `{printable(part)}` does not match its header"
            )
        return data


def damaged(name: str, what: str) -> UsageError:
    """Return the exception to raise for a damaged file."""
    return UsageError(f"{name}: the record is damaged: {what}; copy or record it again")


def printable(text: str, most: int = 200) -> str:
    """Make untrusted text safe for a terminal and limit its length."""
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:most])
    return clean + ("…" if len(text) > most else "")


@contextmanager
def opened(path: Path) -> Iterator[Parts]:
    """Open a file and yield its parts.

    Raises:
        UsageError: The file cannot be read, or is not an archive.
    """
    try:
        archive = zipfile.ZipFile(path)
    except FileNotFoundError:
        raise UsageError(f"there is no file `{path}`") from None
    except zipfile.BadZipFile:
        raise UsageError(f"{path}: not a record of launches, or only part of one") from None
    except _BROKEN as error:
        reason = getattr(error, "strerror", None) or printable(str(error))
        raise UsageError(f"cannot read {path}: {reason}") from None
    with archive:
        yield Parts(archive, str(path))


def write(
    path: Path,
    document: Mapping[str, Any],
    texts: Mapping[str, str],
    arrays: Mapping[str, NDArray[np.uint8]],
) -> None:
    """Write a file; if an error occurs, an existing file stays unchanged.

    Raises:
        UsageError: The operating system rejects the operation.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr(DOCUMENT, json.dumps(document, allow_nan=False))
            for name, text in texts.items():
                archive.writestr(name, text)
            for name, array in arrays.items():
                with archive.open(name, "w", force_zip64=True) as stream:
                    np.lib.format.write_array(stream, array, allow_pickle=False)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UsageError(f"cannot write `{path}`: {error.strerror}") from error
