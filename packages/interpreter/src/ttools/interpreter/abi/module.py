"""Data classes for an emitted module: LLVM IR as text, and the interface of its code.

The emitter creates them, the object cache stores them, and the launcher reads them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, get_args

from ttools.core.errors import UsageError
from ttools.core.location import SourceLocation

#: Part of the key of the object cache. Increment it when the layout of `NativeLaunch`, the payload
#: of a callback, or the signature of an emitted function changes.
ABI_VERSION = 6

#: How matrix products are computed. `as-written` uses the `input_precision` of each product, which
#: by default rounds f32 operands to tf32, as a GPU does. `exact` does not round operands.
#: `tensor-core` rounds operands and accumulates as tensor cores do.
DotMode = Literal["as-written", "exact", "tensor-core"]


def dot_from_environment() -> DotMode:
    """Return the default mode of matrix products, from the environment variable `TTOOLS_DOT`."""
    text = os.environ.get("TTOOLS_DOT") or "as-written"
    modes: tuple[DotMode, ...] = get_args(DotMode)
    for mode in modes:
        if text == mode:
            return mode
    raise UsageError(f"TTOOLS_DOT={text}: must be {', '.join(modes[:-1])} or {modes[-1]}")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts about a launch that the code compiled for it relies on.

    Attributes:
        readonly: Indices of the pointer parameters whose storage this launch does not write through
            any parameter. Only loads through these parameters may be fused or executed again.
        translated: If True, addresses that the kernel loads from memory or computes from integers
            are device addresses. The code translates them to host addresses with a table that each
            launch passes, see `TRANSLATIONS`.
    """

    readonly: frozenset[int] = frozenset()
    translated: bool = False


@dataclass(frozen=True, kw_only=True)
class Instruments:
    """The instrumentation that native code is compiled with.

    Attributes:
        guards: Check every access against the bounds of its memory; lanes outside are reported and
            skipped.
        footprints: Log accesses to memory that the launch writes, with the program that makes each
            of them.
        synchronised: Log atomic operations in the order in which they take effect.
        compares: Do not execute stores; log the lanes whose stores would change memory instead.
        rewrites: Names and parameters of the IR rewrites that an observer applies before code is
            emitted (see `KernelLaunch.execute`).
        lines: Emit line tables. The behaviour of the code does not change.
        explains: Make guards report each failing lane of an access, with the values of the
            variables from which its address was computed. If False, guards only count.
        proved: Indices, among the module's accesses and in ascending order, of those that need no
            guard because they are proved to be in bounds for this launch.
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
        """True if accesses are neither guarded nor logged."""
        return not (self.guards or self.logs)

    @property
    def logs(self) -> bool:
        return self.footprints or self.synchronised or self.compares


@dataclass(frozen=True, kw_only=True)
class EmitOptions:
    """Options of code generation.

    Attributes:
        schedule: `fused` keeps tensor values in registers where it can; `materialised` stores every
            tensor value in memory and serves as the oracle of differential tests.
        fp_fusion: If True, a*b+c may be contracted to a fused multiply-add, as with Triton's launch
            option `enable_fp_fusion`.
        debug: If True, `device_assert` and overflow checks are emitted, as with `TRITON_DEBUG=1`
            and with the launch option `debug=True`.
        lanes: The number of f32 lanes of a vector (16 for AVX-512, 8 for AVX2, 4 for NEON).
        dot: How matrix products are computed, see `DotMode`.
        instruments: The instrumentation to emit.
    """

    schedule: Literal["fused", "materialised"] = "fused"
    fp_fusion: bool = True
    debug: bool = False
    lanes: int = 16
    dot: DotMode = "as-written"
    instruments: Instruments = Instruments()


@dataclass(frozen=True)
class MemoryEffects:
    """The memory effects of a kernel.

    Attributes:
        written: Indices of the parameters from which the address of a store or of an atomic
            operation may derive.
        synchronises: True if the kernel has atomics, volatile accesses or barriers.
        unknown_writes: True if some store uses a pointer that was loaded from memory or computed
            from an integer, so that no parameter may be assumed to be read-only.
        indirect: True if the kernel loads pointers from memory or computes them from integers.
    """

    written: frozenset[int]
    synchronises: bool
    unknown_writes: bool
    indirect: bool = False


#: Type of the extra last parameter of kernels emitted with `Facts.translated`: the address of a
#: table, an i64 count followed by that many rows of i64 (first address, end address, offset).
TRANSLATIONS = "!ttools.translations"
#: Type of the extra last parameter of kernels emitted with instrumentation: the address of a
#: monitor, see `probe_layout`.
MONITOR = "!ttools.monitor"


class CallbackKind(IntEnum):
    """The reason why native code calls back. Each kind has its own payload.

    - PRINT: an array of pointers, one per operand, to row-major data in memory representation.
    - ASSERT: the index of the first failing lane, an i64.
    - SPIN: the number of iterations of the waiting loop, passed in place of the payload's address.
    - BAD_ADDRESS: the address, an i64.
    - EVENT: the payload of a probe, see `ProbeSite`.
    - DRAIN: the probe of a thread whose log is full.
    - WATCH: the address of the value; the address of its mask if it has one; the number of
      enclosing loops; the iteration number of each. All are i64.
    - ENDLESS, LOOP: no callback is made. These sites describe loops that may never end, or may
      run for a long time, and that test the abort flag themselves.
    - SYNCHRONISE: four i64, see `abi.reread_values`.
    - FIND: the address and the size of an access, both i64, and two i64 into which the callback
      writes the start and the end of the memory there. It returns 0 if it finds such memory.
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
    """A place in the kernel that may call back.

    Attributes:
        kind: The reason for the callback, a `CallbackKind`.
        location: The source line, if it is known.
        text: Depends on the kind: the prefix of a print, the message of an assertion, the kind of
            an access, the name and attributes of a watched variable, or `TIMED` for a waiting loop
            with a time limit.
        operands: For a print or a watched variable, one entry per operand: its element type as
            MLIR text, its shape, whether it is printed in hexadecimal, and whether it is signed.
            For an assertion, its condition.
    """

    kind: int
    location: SourceLocation | None
    text: str = ""
    operands: tuple[tuple[str, tuple[int, ...], bool, bool], ...] = ()


@dataclass(frozen=True)
class Shown:
    """A variable whose value is part of the payload of an event, so that a report can show it.

    Attributes:
        name: The name of the Python variable, or `%3` for parameter 3 of the kernel.
        element: The element type as MLIR text.
        offset: The offset of the value in the payload, in bytes.
        width: The number of lanes in the payload; 1 if all lanes share one value.
        unsigned: True if the kernel interprets the value as an unsigned integer.
    """

    name: str
    element: str
    offset: int
    width: int
    unsigned: bool = False


@dataclass(frozen=True)
class ProbeSite:
    """A place where instrumented code reports an event; an operation may have several.

    The payload of an event consists of i64 words: four bit sets of lanes, one for each test that a
    lane may fail (see `probe_layout.CLASSES`); the bit set of active lanes; the address of each
    lane; the base coordinate along each axis; the iteration number of each enclosing loop. The
    values of `shown` follow.

    Attributes:
        kind: `load`, `store`, `atomic`, or `check`.
        operation: The number of the operation in its function; all probes of an operation have
            the same number.
        location: The source line, if it is known.
        size: The size of an element in bytes; 0 for a check.
        shape: The shape of the tile; `()` for a scalar.
        lanes: For each axis, the offset of every lane from the base coordinate.
        width: The number of lanes that the probe reports at once, a chunk of the tile.
        parameter: The index of the pointer parameter that the address derives from; -1 if unknown.
        leader: The number of the first site of this evaluation of the operation. Unrolled code
            has several sites for different lanes, which are counted together.
        order: The axes from slowest to fastest in memory; empty for row-major order.
        flags: Bits such as `probe_layout.ACQUIRES`.
        masked: True if the access has a mask.
        loops: The number of enclosing loops whose iterations the payload holds.
        shown: The variables whose values the payload holds.
        payload: The size of the payload in bytes.
        attributes: For a check, the values of `check`, `kind`, `message` and `argument`.
        choices: If the address derives from one of several parameters, their indices; empty if
            they are unknown.
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
        """The axes in the order in which the tile is traversed, from slowest to fastest."""
        return self.order or tuple(range(len(self.shape)))

    def positions(self) -> tuple[int, ...]:
        """Return each lane's distance from the base coordinates, in elements in walk order.

        Walk order is the order in which the tile is traversed. It follows memory, so that elements
        that are adjacent in memory have adjacent positions. It is row-major for most tiles.
        """
        positions = [0] * self.width
        stride = 1
        for axis in reversed(self.walk):
            lanes = self.lanes[axis]
            positions = [n + lane * stride for n, lane in zip(positions, lanes, strict=True)]
            stride *= self.shape[axis]
        return tuple(positions)

    def lane_at(self, position: int) -> int:
        """Return the row-major index of the lane at a position in walk order.

        A position past the end of the tile continues at its beginning.
        """
        index = [0] * len(self.shape)
        for axis in reversed(self.walk):
            position, index[axis] = divmod(position, self.shape[axis])
        lane = 0
        for extent, coordinate in zip(self.shape, index, strict=True):
            lane = lane * extent + coordinate
        return lane


@dataclass(frozen=True)
class EmittedModule:
    """LLVM IR of a kernel and the data needed to run it.

    Attributes:
        name: The name of the kernel.
        llvm_ir: A module that defines `void @ttools_run(ptr launch, ptr arena)`.
        arena_bytes: The size of the 64-byte-aligned scratch memory that each thread passes.
        parameters: The MLIR type of each parameter as text, in the order of the 8-byte slots.
        sites: The sites of callbacks, by site number.
        spins: True if some loop waits for memory that another program writes.
        probes: The sites of probes, by probe number.
        probe_offset: The offset of a thread's probe in its arena, see `probe_layout`.
        locations: Source locations; line n of the debug information stands for `locations[n - 1]`.
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
