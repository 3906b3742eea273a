"""Accesses to global memory and matrix instructions in the compiled code.

They are read from PTX and AMD assembly: the access width that the compiler chose for a source line,
and the matrix unit that a dot product uses.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from ttools.core.compilation.annotation import StageLine, annotate
from ttools.core.compilation.stages import Compilation
from ttools.core.location import SourceLocation

#: The widest possible access of one thread, in bits.
WIDEST = 128


@dataclass(frozen=True, kw_only=True)
class GlobalAccess:
    """Global memory instructions of one kind and width that come from the same source line.

    Attributes:
        kind: `load`, `store`, `atomic`, `async copy` (to shared memory), `bulk copy` (by the TMA).
        bits: Bits per thread and instruction; 0 for a bulk copy, which one thread issues for the
            block.
    """

    kind: str
    bits: int
    location: SourceLocation | None
    count: int


@dataclass(frozen=True, kw_only=True)
class MatrixInstructions:
    """Matrix instructions of one kind that come from the same source line.

    Attributes:
        name: Instruction name, such as `mma.sync.m16n8k16`, `wgmma`, `tcgen05.mma` or
            `v_mfma_f32_32x32x8_f16`.
    """

    name: str
    location: SourceLocation | None
    count: int


def global_accesses(compilation: Compilation) -> list[GlobalAccess]:
    """Return the accesses to global memory by source line, in the order of the lines."""
    read = _ptx_access if compilation.target.backend == "cuda" else _amd_access
    counts: Counter[tuple[SourceLocation | None, str, int]] = Counter()
    for line in _assembly(compilation):
        access = read(line.text)
        if access is not None:
            kind, bits = access
            counts[line.source, kind, bits] += 1
    rows = [
        GlobalAccess(kind=kind, bits=bits, location=location, count=count)
        for (location, kind, bits), count in counts.items()
    ]
    return sorted(rows, key=lambda row: (_order(row.location), row.kind, row.bits))


def matrix_instructions(compilation: Compilation) -> list[MatrixInstructions]:
    """Return the matrix instructions by source line, in the order of the lines."""
    counts: Counter[tuple[SourceLocation | None, str]] = Counter()
    for line in _assembly(compilation):
        name = _MATRIX.search(line.text)
        if name:
            counts[line.source, _short(name[0])] += 1
    rows = [
        MatrixInstructions(name=name, location=location, count=count)
        for (location, name), count in counts.items()
    ]
    return sorted(rows, key=lambda row: (_order(row.location), row.name))


def dots_without_matrix_units(compilation: Compilation) -> list[SourceLocation | None]:
    """Return the locations of dot products that are computed without matrix units."""
    lines = annotate("ttgir", compilation.texts["ttgir"])
    return [line.location for line in lines if _PLAIN_DOT.search(line.text)]


def _assembly(compilation: Compilation) -> list[StageLine]:
    stage = "ptx" if compilation.target.backend == "cuda" else "amdgcn"
    return annotate(stage, compilation.texts[stage])


def _order(location: SourceLocation | None) -> tuple[str, int]:
    return (location.file, location.line) if location else ("", 0)


# ---- PTX

_PTX_GLOBAL = re.compile(r"\b(ld|st|atom|red)\.((?:[\w:]+\.)*)global((?:[.:]+\w+)*)")
_PTX_ASYNC = re.compile(r"\bcp\.async\.c[ag]\.shared\.global[^,]*,[^,]*, (0x[0-9a-fA-F]+|\d+)")
_PTX_BULK = re.compile(r"\bcp\.(?:reduce\.)?async\.bulk\.(?:tensor|shared|global)")
_KINDS = {"ld": "load", "st": "store", "atom": "atomic", "red": "atomic"}


def _ptx_access(text: str) -> tuple[str, int] | None:
    """Return the kind and the width in bits of an access; None for other instructions."""
    if match := _PTX_ASYNC.search(text):
        return "async copy", 8 * int(match[1], 0)
    if _PTX_BULK.search(text):
        return "bulk copy", 0
    match = _PTX_GLOBAL.search(text)
    if not match:
        return None
    words = match[3].split(".")
    lanes = next((int(word[1:]) for word in words if re.fullmatch(r"v\d", word)), 1)
    sizes = (re.fullmatch(r"[bfsu](\d+)(?:x\d)?|bf16(?:x2)?", word) for word in words)
    size = next((match for match in sizes if match), None)
    if size is None:
        return None
    return _KINDS[match[1]], lanes * (int(size[1] or 16) * (2 if size[0].endswith("x2") else 1))


# ---- AMD's assembly

_AMD_GLOBAL = re.compile(r"\b(?:global|buffer|flat)_(load|store|atomic)_(\w+)")
_AMD_BITS = dict.fromkeys(("ubyte", "sbyte", "byte"), 8)
_AMD_BITS |= dict.fromkeys(("ushort", "sshort", "short"), 16)
_AMD_BITS |= {"dword": 32, "dwordx2": 64, "dwordx3": 96, "dwordx4": 128}


def _amd_access(text: str) -> tuple[str, int] | None:
    access = _AMD_GLOBAL.search(text)
    if not access:
        return None
    for word in re.split(r"_(?!d16)", access[2]):
        if word in _AMD_BITS:
            return access[1], _AMD_BITS[word]
        if bits := re.fullmatch(r"[bfiu](\d+)", word):
            return access[1], int(bits[1])
    return access[1], 64 if "x2" in access[2] else 32


# ---- matrix units

_MATRIX = re.compile(
    r"\b(?:mma\.sync[\w.]*|wgmma\.mma_async[\w.]*|tcgen05\.mma[\w.:]*|v_(?:mfma|smfmac|wmma)_\w+)"
)
_PLAIN_DOT = re.compile(r"\btt\.dot\b.*-> tensor<[^>]*#blocked")


def _short(name: str) -> str:
    """Remove the parts of an instruction name that do not affect speed."""
    if name.startswith("v_"):
        return name
    words = [w for w in name.split(".") if w not in ("sync", "aligned", "row", "col")]
    return ".".join(words)
