"""Decodes strings of MLIR, LLVM IR and PTX, whose printers escape every non-ASCII byte."""

from __future__ import annotations

import re

_HEXADECIMAL = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_OCTAL = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_NAMED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}


def unescape(text: str) -> str:
    r"""Decode the content of a quoted string of MLIR or LLVM IR.

    Resolves `\0A`, `\C3\B6`, `\n`, `\t`, `\"` and `\\`. Bytes that are not UTF-8 become surrogates,
    as in file names.
    """
    return _decoded(text, _HEXADECIMAL, 16)


def unescape_assembly(text: str) -> str:
    r"""Decode the content of a quoted string of PTX or SASS: `\303\266`, `\"`."""
    return _decoded(text, _OCTAL, 8)


def _decoded(text: str, pattern: re.Pattern[bytes], base: int) -> str:
    if "\\" not in text:
        return text

    def byte(match: re.Match[bytes]) -> bytes:
        code = match[1]
        if len(code) > 1 or (base == 8 and code.isdigit()):
            return bytes([int(code, base) & 0xFF])
        return _NAMED.get(code, code)

    encoded = text.encode(errors="surrogateescape")
    return pattern.sub(byte, encoded).decode(errors="surrogateescape")
