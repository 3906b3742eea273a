"""What the emitter hands to the rest of the interpreter: native code as text, and its interface.

Data only.  The emitter fills it, the object cache stores it, the launcher reads it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal

from ttools.core.location import SourceLocation

#: Bump when the layout of `Launch`, a callback or an emitted function changes: it is part of the
#: object cache's key.
ABI_VERSION = 2


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the launcher knows of a launch before any code is compiled for it.

    Attributes:
        readonly: indices of pointer parameters whose storage this launch never writes, through
            any parameter; only loads derived from these may be fused or recomputed.
        translated: addresses that the kernel reads from memory or makes from integers are looked
            up in the launch's table of translations, because they are another device's.
    """

    readonly: frozenset[int] = frozenset()
    translated: bool = False


@dataclass(frozen=True, kw_only=True)
class EmitOptions:
    """How to emit.

    Attributes:
        schedule: `materialised` stores every tensor value (the oracle), `fused` the fast one.
        fp_fusion: allow a*b+c to contract into an fma, as the launch option `enable_fp_fusion`.
        debug: emit `device_assert`s and overflow checks (TRITON_DEBUG, `debug=True`).
        lanes: f32 lanes of a vector (16 for AVX-512, 8 for AVX2, 4 for NEON).
    """

    schedule: Literal["fused", "materialised"] = "fused"
    fp_fusion: bool = True
    debug: bool = False
    lanes: int = 16


@dataclass(frozen=True)
class MemoryEffects:
    """Which pointer parameters a kernel may write through.

    Attributes:
        written: parameter indices that a store or an atomic may derive from.
        synchronises: the kernel has atomics, volatile accesses or barriers.
        unknown_writes: some store goes through a pointer loaded from memory or made from an
            integer: nothing may be assumed read-only.
        indirect: the kernel takes pointers from memory or makes them from integers.
    """

    written: frozenset[int]
    synchronises: bool
    unknown_writes: bool
    indirect: bool = False


#: Type of the extra last parameter of kernels emitted with `Facts.translated`: the address of a
#: table, an i64 count followed by that many rows of i64 (first address, end address, offset).
TRANSLATIONS = "!ttools.translations"


class CallbackKind(IntEnum):
    """Why native code calls back, and what the payload points to.

    PRINT: an array of pointers, one per operand, to row-major data in memory representation.
    ASSERT: the i64 index of the first failing lane. SPIN: nothing, the payload itself is the
    number of turns the waiting loop has taken. BAD_ADDRESS: the i64 address.
    """

    PRINT = 1
    ASSERT = 2
    SPIN = 3
    BAD_ADDRESS = 4


@dataclass(frozen=True)
class Site:
    """One place in the kernel that may call back.

    Attributes:
        kind: see `CallbackKind`.
        text: prefix of a print, message of an assert, what an access does, empty for a spin.
        operands: for a print, per operand (element type as MLIR text, shape, hex?, signed?); for
            an assert, its condition.
    """

    kind: int
    location: SourceLocation | None
    text: str = ""
    operands: tuple[tuple[str, tuple[int, ...], bool, bool], ...] = ()


@dataclass(frozen=True)
class EmittedModule:
    """Native code as LLVM IR text and what is needed to run it.

    Attributes:
        name: the kernel's name.
        llvm_ir: a module that defines `void @ttools_run(ptr launch, ptr arena)`.
        arena_bytes: scratch memory each thread must pass, 64-byte aligned.
        parameters: MLIR text of each parameter's type, in the order of the 8-byte slots.
        sites: indexed by the callback's site number.
        spins: some loop waits on memory that another program writes.
    """

    name: str
    llvm_ir: str
    arena_bytes: int
    parameters: tuple[str, ...]
    sites: tuple[Site, ...] = field(default=())
    spins: bool = False
