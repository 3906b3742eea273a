"""Repairs the lines that LLVM gives to inline assembly in PTX.

Triton's accesses to global memory are inline assembly of several lines. For each of these LLVM
writes a `.loc` of its own and counts the source line up, so an access seems to come from a line
further down. Only the first is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_BEGIN, _END = re.compile(r"\s*// begin inline asm"), re.compile(r"\s*// end inline asm")
_LOC = re.compile(r"\s*\.loc\s")


def repaired(ptx: str) -> str:
    """PTX that differs in its `.loc` lines only."""
    return "".join(_kept(ptx))


def _kept(ptx: str) -> Iterator[str]:
    within, seen = False, False
    for line in ptx.splitlines(keepends=True):
        if _BEGIN.match(line):
            within, seen = True, False
        elif _END.match(line):
            within = False
        elif within and _LOC.match(line):
            if seen:
                continue
            seen = True
        yield line


def same_code(one: str, other: str) -> bool:
    """Whether two disassemblies hold the same instructions, whatever lines they come from."""
    return _instructions(one) == _instructions(other)


def _instructions(listing: str) -> list[str]:
    return re.findall(r"^\s+/\*[0-9a-f]+\*/.*$", listing, re.MULTILINE)
