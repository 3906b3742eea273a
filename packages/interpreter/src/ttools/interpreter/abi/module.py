"""What the emitter hands to the rest of the interpreter: native code as text, and its interface.

Data only.  The emitter fills it, the object cache stores it, the launcher reads it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, get_args

from ttools.core.errors import UsageError
from ttools.core.location import SourceLocation

#: Bump when the layout of `NativeLaunch`, a callback or an emitted function changes: it is part of
#: the object cache's key.
ABI_VERSION = 6

#: How matrix products are computed: with the `input_precision` they are written with, which rounds
#: operands of f32 to tf32 by default as a GPU does; with the operands as they are; or rounded, and
#: summed as tensor cores sum.
DotMode = Literal["as-written", "exact", "tensor-core"]


def dot_from_environment() -> DotMode:
    """Return how matrix products are computed unless a run says otherwise: `TTOOLS_DOT`."""
    text = os.environ.get("TTOOLS_DOT") or "as-written"
    modes: tuple[DotMode, ...] = get_args(DotMode)
    for mode in modes:
        if text == mode:
            return mode
    raise UsageError(f"TTOOLS_DOT={text}: must be {', '.join(modes[:-1])} or {modes[-1]}")


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
class Instruments:
    """What native code observes of itself.

    Attributes:
        guards: every access is judged by the bounds of the memory it derives from; lanes outside
            are reported and suppressed.
        footprints: accesses to memory that the launch writes are logged by program.
        synchronised: atomics are logged in the order in which they take effect.
        compares: stores store nothing; lanes that would change memory are logged instead.
        rewrites: names of the rewrites of the IR, with their parameters, that an observer applies
            before anything is emitted (see `KernelLaunch.execute`).
        lines: the code does as without, and tells which line each instruction belongs to.
        explains: What guards report carries the values of variables, and each lane is reported
            where and as often as the program accesses it. Without, reports are counts.
        proved: Accesses that guards leave out because the launch shows them to be inside their
            memory, by their places among the accesses of the module, in ascending order.
    """

    guards: bool = False
    footprints: bool = False
    synchronised: bool = False
    compares: bool = False
    rewrites: tuple[str, ...] = ()
    lines: bool = False
    explains: bool = True
    proved: tuple[int, ...] = ()

    @property
    def any(self) -> bool:
        return self.guards or self.footprints or self.synchronised or bool(self.rewrites)

    @property
    def only_rewrites(self) -> bool:
        """Whether no access is observed."""
        return not (self.guards or self.logs)

    @property
    def logs(self) -> bool:
        return self.footprints or self.synchronised or self.compares


@dataclass(frozen=True, kw_only=True)
class EmitOptions:
    """How to emit.

    Attributes:
        schedule: `materialised` stores every tensor value (the oracle), `fused` the fast one.
        fp_fusion: allow a*b+c to contract into an fma, as the launch option `enable_fp_fusion`.
        debug: emit `device_assert`s and overflow checks (TRITON_DEBUG, `debug=True`).
        lanes: f32 lanes of a vector (16 for AVX-512, 8 for AVX2, 4 for NEON).
        dot: products of f32 tiles in the precision that is `as-written`, or `exact`.
        instruments: what the code observes of itself.
    """

    schedule: Literal["fused", "materialised"] = "fused"
    fp_fusion: bool = True
    debug: bool = False
    lanes: int = 16
    dot: DotMode = "as-written"
    instruments: Instruments = Instruments()


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
#: Type of the extra last parameter of kernels emitted with instruments: the address of a monitor,
#: see `emit.probe_layout`.
MONITOR = "!ttools.monitor"


class CallbackKind(IntEnum):
    """Why native code calls back, and what the payload points to.

    PRINT: an array of pointers, one per operand, to row-major data in memory representation.
    ASSERT: the i64 index of the first failing lane. SPIN: nothing, the payload itself is the
    number of iterations the waiting loop has taken. BAD_ADDRESS: the i64 address. EVENT: a probe's
    payload, see `ProbeSite`. DRAIN: a thread's probe, whose log is full. WATCH: the addresses of
    the value and, if it has one, its mask; an i64 count of iterations; the iterations. ENDLESS
    and LOOP never call: they are loops that may not end, or not soon, and look at the abort flag
    themselves. SYNCHRONISE: four i64, see `abi.rereads`. FIND: an i64 address, the i64 bytes of the
    access, and room for begin and end of the memory there; the answer is 0 if there is some.
    """

    PRINT = 1
    ASSERT = 2
    SPIN = 3
    BAD_ADDRESS = 4
    EVENT = 5
    DRAIN = 6
    WATCH = 7
    ENDLESS = 8
    LOOP = 9
    SYNCHRONISE = 10
    FIND = 11


@dataclass(frozen=True)
class Site:
    """One place in the kernel that may call back.

    Attributes:
        kind: see `CallbackKind`.
        text: prefix of a print, message of an assert, what an access does, what is recorded of a
            watched variable, of a spin that ends by itself that it does.
        operands: for a print or a watch, per operand (element type as MLIR text, shape, hex?,
            signed?); for an assert, its condition.
    """

    kind: int
    location: SourceLocation | None
    text: str = ""
    operands: tuple[tuple[str, tuple[int, ...], bool, bool], ...] = ()


@dataclass(frozen=True)
class Shown:
    """A value that a probe's event carries for its report.

    Attributes:
        name: the Python variable; `%3` for the kernel's parameter 3.
        element: MLIR text of its element type.
        offset: bytes into the payload.
        width: how many lanes of it are there, 1 if all lanes share it.
        unsigned: whether the kernel reads its bits as a number without a sign.
    """

    name: str
    element: str
    offset: int
    width: int
    unsigned: bool = False


@dataclass(frozen=True)
class ProbeSite:
    """One place where native code observes itself; an operation may have several.

    An event's payload starts with four i64, the bits of lanes that failed one test each (see
    `probe_layout.CLASSES`), then the bits of the active lanes, then an i64 address per lane; then
    follow the base coordinate along each axis and the iteration of each enclosing loop, as i64.

    Attributes:
        kind: `load`, `store`, `atomic`, or `check`.
        operation: number of the operation in its function, so that probes of one can be united.
        size: bytes of an element; 0 for a check.
        shape: of the tile, `()` for a scalar.
        order: axes from the slowest to the fastest in memory; row-major if empty.
        lanes: per axis, the lanes' offsets from the base coordinate; the width if there is none.
        parameter: index of the pointer parameter that the address derives from, -1 if unknown.
        choices: the parameters of which it is one, where it is one of several; empty if unknown.
        leader: number of the first site of this evaluation of the operation; unrolled code has
            several for different lanes, which count together.
        flags: bits of `probe_layout.ACQUIRES` and the following.
        masked: whether the access has a mask.
        loops: how many iterations the payload has.
        shown: what else it has.
        payload: its bytes.
        attributes: of a check: `check`, `kind`, `message`, `argument`.
    """

    kind: str
    operation: int
    location: SourceLocation | None
    size: int
    shape: tuple[int, ...]
    lanes: tuple[tuple[int, ...], ...]
    width: int
    parameter: int
    leader: int = 0
    order: tuple[int, ...] = ()
    flags: int = 0
    masked: bool = False
    loops: int = 0
    shown: tuple[Shown, ...] = ()
    payload: int = 0
    attributes: tuple[tuple[str, str], ...] = ()
    choices: tuple[int, ...] = ()

    @property
    def walk(self) -> tuple[int, ...]:
        """The axes in the order in which positions count them."""
        return self.order or tuple(range(len(self.shape)))

    def positions(self) -> tuple[int, ...]:
        """Distance of each lane from the base coordinates in the walk of the tile.

        The walk follows memory, so that neighbours in memory are neighbours in it; for most tiles
        it is row-major.
        """
        found = [0] * self.width
        stride = 1
        for axis in reversed(self.walk):
            lanes = self.lanes[axis]
            found = [n + lane * stride for n, lane in zip(found, lanes, strict=True)]
            stride *= self.shape[axis]
        return tuple(found)

    def lane_at(self, position: int) -> int:
        """The row-major lane at a position of the walk, which begins again after the last one."""
        index = [0] * len(self.shape)
        for axis in reversed(self.walk):
            position, index[axis] = divmod(position, self.shape[axis])
        lane = 0
        for extent, coordinate in zip(self.shape, index, strict=True):
            lane = lane * extent + coordinate
        return lane


@dataclass(frozen=True)
class EmittedModule:
    """Native code as LLVM IR text and what is needed to run it.

    Attributes:
        llvm_ir: a module that defines `void @ttools_run(ptr launch, ptr arena)`.
        arena_bytes: scratch memory each thread must pass, 64-byte aligned.
        parameters: MLIR text of each parameter's type, in the order of the 8-byte slots.
        sites: indexed by the callback's site number.
        spins: some loop waits on memory that another program writes.
        probes: where the code observes itself.
        probe_offset: where in the arena a thread's probe lies, see `emit.probe_layout`.
        locations: what the lines of the code's debug information stand for: line n is the nth.
    """

    name: str
    llvm_ir: str
    arena_bytes: int
    parameters: tuple[str, ...]
    sites: tuple[Site, ...] = field(default=())
    spins: bool = False
    probes: tuple[ProbeSite, ...] = ()
    probe_offset: int = 0
    locations: tuple[SourceLocation, ...] = ()
