"""Transfer of one chunk of lanes between memory and a vector register.

Lanes at adjacent addresses are transferred by one vector access. Lanes that are close together in
another order, such as every second element or a reversed row, are transferred by a few vector
accesses and shuffles. All other lanes are gathered or scattered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.llvm.builder import SIZES, Builder, aligned, mangled
from ttools.interpreter.llvm.value import (
    ARENA,
    FALSE,
    NOTHING,
    TRUE,
    SSAValue,
    element_of,
    integer,
    lanes_of,
    poison,
    vector_type,
    with_element,
    zeros,
)
from ttools.interpreter.tiles.chunk import Affine, Chunk

#: If lanes are spread over more vectors than this, a gather is faster.
_MOST_VECTORS = 4


def load_lanes(
    e: Emitter, pointer: Chunk, stored: str, mask: SSAValue | None, other: SSAValue | None
) -> SSAValue:
    """Load a vector of the memory type `stored`.

    Args:
        pointer: The addresses of the lanes.
        stored: The type of an element in memory.
        mask: The active lanes; all if None.
        other: The values of inactive lanes; zero if None.
    """
    layout = _layout_of(e, pointer, stored, duplicates=mask is None)
    if layout is None or not isinstance(pointer, Affine):
        return _load_gather(e, e.vector(pointer), stored, mask, other)
    base = pointer.base
    if pointer.guard is None:
        return layout.load(e, base, mask, other)
    return guarded(
        e,
        pointer,
        lambda: layout.load(e, base, mask, other),
        lambda: _load_gather(e, e.vector(pointer), stored, mask, other),
    )


def store_lanes(e: Emitter, pointer: Chunk, raw: SSAValue, mask: SSAValue | None) -> None:
    """Store a vector of a memory type; where addresses are equal, the last lane wins."""
    layout = _layout_of(e, pointer, element_of(raw.type), duplicates=False)
    if layout is None or not isinstance(pointer, Affine):
        _scatter(e, e.vector(pointer), raw, mask)
    elif pointer.guard is None:
        layout.store(e, pointer.base, raw, mask)
    else:
        _store_guarded(e, pointer, layout, raw, mask)


def _store_guarded(
    e: Emitter, pointer: Affine, layout: _Layout, raw: SSAValue, mask: SSAValue | None
) -> None:
    def near() -> SSAValue:
        layout.store(e, pointer.base, raw, mask)
        return NOTHING

    def anywhere() -> SSAValue:
        _scatter(e, e.vector(pointer), raw, mask)
        return NOTHING

    guarded(e, pointer, near, anywhere)


def guarded(
    e: Emitter, pointer: Chunk, fast: Callable[[], SSAValue], slow: Callable[[], SSAValue]
) -> SSAValue:
    """Emit a branch to `fast` if the pointer's guard holds, and to `slow` otherwise.

    Returns:
        The value of the branch that was taken.
    """
    assert isinstance(pointer, Affine)
    assert pointer.guard is not None
    b = e.b
    yes, no, done = b.label("contiguous"), b.label("wrapped"), b.label("joined")
    b.cond_branch(b.overloaded("expect", pointer.guard, TRUE), yes, no)
    edges = []
    for label, emit in ((yes, fast), (no, slow)):
        b.start(label)
        with e.cold():
            value = emit()
        edges.append((value, b.block))
        b.branch(done)
    b.start(done)
    return b.joined(*edges)


def _layout_of(e: Emitter, pointer: Chunk, stored: str, *, duplicates: bool) -> _Layout | None:
    """Return the layout of lanes; None if they must be gathered or scattered.

    Args:
        pointer: The addresses of the lanes.
        stored: The type of an element in memory.
        duplicates: If True, several lanes may access the same element.
    """
    size = SIZES[stored]
    if not isinstance(pointer, Affine) or any(n % size for n in pointer.lanes):
        return None
    first = min(pointer.lanes)
    elements = tuple((n - first) // size for n in pointer.lanes)
    if max(elements) >= _MOST_VECTORS * pointer.width:
        return None
    if not duplicates and len(set(elements)) < len(elements):
        return None
    layout = _Layout(stored, first, elements)
    # CPUs without AVX-512 have no masked accesses of elements of less than 32 bits. Unless all
    # lanes are adjacent, scalar accesses are then faster.
    short = size < 4 and e.options.lanes < 16
    return layout if layout.contiguous or not short else None


@dataclass(frozen=True)
class _Layout:
    """Lanes that lie within a few vectors.

    Attributes:
        stored: The type of an element in memory.
        first: Distance from the chunk's base to the lowest element, in bytes.
        elements: The index of each lane's element, counted from the lowest element.
    """

    stored: str
    first: int
    elements: tuple[int, ...]

    @property
    def width(self) -> int:
        return len(self.elements)

    @property
    def contiguous(self) -> bool:
        return self.elements == tuple(range(self.width))

    def load(
        self, e: Emitter, base: SSAValue, mask: SSAValue | None, other: SSAValue | None
    ) -> SSAValue:
        vec = vector_type(self.stored, self.width)
        if self.contiguous:
            return _load_run(e, self._address(e, base, 0), vec, mask, other)
        vectors = [
            _load_run(e, self._address(e, base, n), vec, self._mask(e, owners, mask), None)
            for n, owners in enumerate(self._vectors())
        ]
        raw = self._collect(e, vectors)
        return raw if mask is None else e.b.select(mask, raw, other or zeros(vec))

    def store(self, e: Emitter, base: SSAValue, raw: SSAValue, mask: SSAValue | None) -> None:
        for n, owners in enumerate(self._vectors()):
            # Arrange the lanes in the order of the elements. Elements without a lane are masked
            # off, so their value does not matter.
            lanes = [0 if lane is None else lane for lane in owners]
            value = e.b.shuffle(raw, lanes)
            address = self._address(e, base, n)
            _store_run(e, address, value, self._mask(e, owners, mask))

    def _vectors(self) -> list[list[int | None]]:
        """Return, for each vector in memory, the lane of each of its elements, or None."""
        lanes: list[int | None] = [None] * (self.width * (max(self.elements) // self.width + 1))
        for lane, element in enumerate(self.elements):
            lanes[element] = lane
        return [lanes[n : n + self.width] for n in range(0, len(lanes), self.width)]

    def _address(self, e: Emitter, base: SSAValue, vector: int) -> SSAValue:
        offset = self.first + vector * self.width * SIZES[self.stored]
        address = e.b.binary("add", base, offset) if offset else base
        return e.b.cast("inttoptr", address, "ptr")

    def _mask(
        self, e: Emitter, owners: Sequence[int | None], mask: SSAValue | None
    ) -> SSAValue | None:
        """Return the mask of the elements of a vector that are accessed; None if all are."""
        if mask is None:
            if None not in owners:
                return None
            return e.b.constant_vector([FALSE if lane is None else TRUE for lane in owners])
        if list(owners) == list(range(self.width)):
            return mask
        chosen = [self.width if lane is None else lane for lane in owners]
        return e.b.shuffled(mask, zeros(mask.type), chosen, self.width)

    def _collect(self, e: Emitter, vectors: Sequence[SSAValue]) -> SSAValue:
        """Collect the lanes from up to four vectors.

        A shuffle has two operands, so each pair of vectors is combined, and then the two results.
        """
        halves = []
        for n in range(0, len(vectors), 2):
            low = n * self.width
            inside = [x - low if low <= x < low + 2 * self.width else 0 for x in self.elements]
            halves.append(self._pick(e, vectors[n : n + 2], inside))
        if len(halves) == 1:
            return halves[0]
        chosen = [
            lane + self.width * (element >= 2 * self.width)
            for lane, element in enumerate(self.elements)
        ]
        return self._pick(e, halves, chosen)

    def _pick(self, e: Emitter, pair: Sequence[SSAValue], elements: Sequence[int]) -> SSAValue:
        other = pair[1] if len(pair) == 2 else poison(pair[0].type)
        return e.b.shuffled(pair[0], other, elements, self.width)


# ---- adjacent lanes


#: The distance in bytes from a contiguous access to the cache line that it prefetches. Without
#: prefetching, few loads are in flight, because kernels do much work per cache line. Distances from
#: 1024 to 4096 were equally fast.
_PREFETCH_BYTES = 2048


def _prefetch(e: Emitter, address: SSAValue, *, write: bool) -> None:
    """Prefetch the cache line that a later program or iteration may need.

    A prefetch of an invalid address has no effect.
    """
    ahead = e.b.offset(address, _PREFETCH_BYTES, inbounds=False)
    flags = [integer(n, "i32") for n in (int(write), 3, 1)]
    e.b.intrinsic("llvm.prefetch.p0", "void", ahead, *flags)


def _load_run(
    e: Emitter, address: SSAValue, vec: str, mask: SSAValue | None, other: SSAValue | None
) -> SSAValue:
    b, size = e.b, SIZES[element_of(vec)]
    _prefetch(e, address, write=False)

    def whole() -> SSAValue:
        return b.load(vec, address, size)

    def part() -> SSAValue:
        assert mask is not None
        loaded = [
            _masked_load(e, p, lanes, _lanes_of(b, mask, lanes), other or zeros(vec))
            for p, lanes in _registers(e, address, vec)
        ]
        if len(loaded) == 1:
            return loaded[0]
        width = lanes_of(vec)
        return b.shuffled(loaded[0], loaded[1], range(width), width)

    if mask is None:
        return whole()
    return _if_all(e, mask, whole, part) if size < 4 else part()


def _store_run(e: Emitter, address: SSAValue, raw: SSAValue, mask: SSAValue | None) -> None:
    b = e.b
    _prefetch(e, address, write=True)

    def whole() -> SSAValue:
        b.store_lanes(raw, address)
        return NOTHING

    def part() -> SSAValue:
        assert mask is not None
        fenced = b.fenced(raw)
        for p, lanes in _registers(e, address, raw.type):
            stored = _lanes_of(b, fenced, lanes)
            name = f"llvm.masked.store.{mangled(stored.type)}.p0"
            b.intrinsic(name, "void", stored, aligned(p, stored.type), _lanes_of(b, mask, lanes))
        return NOTHING

    if mask is None:
        whole()
    else:
        _if_all(e, mask, whole, part)


def _registers(e: Emitter, address: SSAValue, vec: str) -> list[tuple[SSAValue, range]]:
    """Return the address and the lanes of each of the one or two registers that a vector fills.

    Masked accesses are split here, because LLVM 22 aborts on some masked loads that it splits
    itself.
    """
    width, size = lanes_of(vec), SIZES[element_of(vec)]
    count = min(width, 4 * e.options.lanes // size)
    registers = [(address, range(count))]
    if count < width:
        assert width == 2 * count, vec
        behind = e.b.offset(address, count * size, inbounds=False)
        registers.append((behind, range(count, width)))
    return registers


def _lanes_of(b: Builder, vector: SSAValue, lanes: range) -> SSAValue:
    """Return a contiguous range of lanes of a vector; the vector may be a constant."""
    if vector == "zeroinitializer":
        return zeros(vector_type(element_of(vector.type), len(lanes)))
    return b.shuffle(vector, lanes)


def _masked_load(
    e: Emitter, p: SSAValue, lanes: range, mask: SSAValue, other: SSAValue
) -> SSAValue:
    """Load the lanes of one register under their mask.

    Args:
        p: The address of the first lane.
        lanes: The lanes of the chunk that the register contains.
        mask: The mask of these lanes.
        other: The values of inactive lanes, for all lanes of the chunk.
    """
    rest = _lanes_of(e.b, other, lanes)
    name = f"llvm.masked.load.{mangled(rest.type)}.p0"
    return e.b.intrinsic(name, rest.type, aligned(p, rest.type), mask, rest)


def _if_all(
    e: Emitter, mask: SSAValue, whole: Callable[[], SSAValue], part: Callable[[], SSAValue]
) -> SSAValue:
    """Emit a branch to `whole` if all lanes are active, and to `part` otherwise.

    The branch is only emitted for CPUs without AVX-512. There, masked accesses of less than 32 bits
    need a branch per lane, and masked stores take tens of cycles on AMD's CPUs. In most kernels,
    all lanes are active in nearly all chunks. With AVX-512, only `part` is emitted.

    Returns:
        The value of the branch that was taken.
    """
    if e.options.lanes >= 16 or not mask.startswith("%"):
        return part()
    b = e.b
    all_lanes = b.all_lanes(mask)
    yes, no, done = b.label("whole"), b.label("part"), b.label("moved")
    b.cond_branch(all_lanes, yes, no)
    b.start(yes)
    first = whole()
    b.branch(done)
    b.start(no)
    second = part()
    b.branch(done)
    b.start(done)
    return b.joined((first, yes), (second, no))


# ---- lanes at arbitrary addresses


def _load_gather(
    e: Emitter,
    addresses: SSAValue,
    stored: str,
    mask: SSAValue | None,
    other: SSAValue | None,
) -> SSAValue:
    b, vec = e.b, with_element(addresses.type, stored)
    if SIZES[stored] >= 4:
        return b.gather(b.cast("inttoptr", addresses, "ptr"), stored, mask, other)
    # CPUs cannot gather elements of less than 32 bits, so each lane is loaded separately. The
    # addresses of masked-off lanes may be invalid, so these lanes load from the sink.
    if mask is not None:
        addresses = _redirect(e, addresses, mask)
    raw = poison(vec)
    for lane in range(lanes_of(vec)):
        address = b.extract(addresses, lane)
        p = b.cast("inttoptr", address, "ptr")
        item = b.load(stored, p, SIZES[stored])
        raw = b.insert(raw, item, lane)
    return raw if mask is None else b.select(mask, raw, other or zeros(vec))


def _redirect(e: Emitter, addresses: SSAValue, mask: SSAValue) -> SSAValue:
    """Replace the addresses of masked-off lanes with the address of the sink in the arena."""
    b = e.b
    p = b.offset(ARENA, e.sink())
    sink = b.splat(b.cast("ptrtoint", p, "i64"), lanes_of(mask.type))
    return b.select(mask, addresses, sink)


def _scatter(e: Emitter, addresses: SSAValue, raw: SSAValue, mask: SSAValue | None) -> None:
    b, width, size = e.b, lanes_of(raw.type), SIZES[element_of(raw.type)]
    if size >= 4:
        pointers = b.cast("inttoptr", addresses, "ptr")
        name = f"llvm.masked.scatter.{mangled(raw.type)}.{mangled(pointers.type)}"
        to = aligned(pointers, raw.type)
        b.intrinsic(name, "void", raw, to, mask or b.splat(TRUE, width))
        return
    if mask is not None:
        addresses = _redirect(e, addresses, mask)
    for lane in range(width):
        address = b.extract(addresses, lane)
        p = b.cast("inttoptr", address, "ptr")
        item = b.extract(raw, lane)
        b.store(item, p, size)
