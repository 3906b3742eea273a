"""Reads and writes chunks of tiles that live in slots."""

from __future__ import annotations

from ttools.interpreter.llvm.value import SSAValue, poison, vector_type
from ttools.interpreter.tiles.chunk import ZERO, Chunk, Coords, Vector, uniform
from ttools.interpreter.tiles.integers import Integers
from ttools.interpreter.tiles.slot import Slot


class SlotAccess(Integers):
    """Emits accesses to slots: whole vectors where lanes are neighbours, else what is shortest."""

    def slot_address(self, slot: Slot, at: Coords) -> SSAValue:
        """The address of lane 0's element of `at`."""
        counted = self.b.linear.get((slot.shape, at))
        if counted is not None:
            constant = slot.offset + counted[1] * slot.stored_bytes
            return self._element_address(slot, counted[0], constant)
        index = ZERO
        constant = slot.offset
        for axis, stride in zip(at, slot.strides, strict=True):
            index = self.iadd(index, self.imul(axis.base, stride))
            constant += axis.lanes[0] * stride * slot.stored_bytes
        return self._element_address(slot, index, constant)

    def _element_address(self, slot: Slot, index: SSAValue, constant: int) -> SSAValue:
        pointer = slot.base
        if constant:
            pointer = self.b.offset(pointer, constant)
        if index == "0":
            return pointer
        wide = self.b.cast("zext", index, "i64") if index.startswith("%") else index
        return self.b.element(slot.stored_type, pointer, wide)

    def read_slot(self, slot: Slot, at: Coords) -> Chunk:
        """Reads the elements at `at`: a vector load, a scalar, or a gather within the tile."""
        width = at[0].width if at else 1
        offsets = slot.lane_offsets(at)
        address = self.slot_address(slot, at)
        if not any(offsets):
            raw = self.b.load(slot.stored_type, address, slot.stored_bytes)
            return uniform(slot.element, slot.from_stored(self.b, raw), width)
        raw = self._read_lanes(slot, address, offsets)
        return Vector(slot.element, slot.from_stored(self.b, raw))

    def _read_lanes(self, slot: Slot, address: SSAValue, offsets: tuple[int, ...]) -> SSAValue:
        b, stored, width = self.b, slot.stored_type, len(offsets)
        if offsets == tuple(range(width)):
            return b.load(vector_type(stored, width), address, slot.stored_bytes)
        first = min(offsets)
        span = max(offsets) - first + 1
        if span <= width and span & (span - 1) == 0:
            # Lanes that repeat or permute a short run: one vector load and a shuffle.
            start = b.element(stored, address, first)
            run = b.load(vector_type(stored, span), start, slot.stored_bytes)
            return b.shuffle(run, [n - first for n in offsets])
        raw = poison(vector_type(stored, width))
        loaded: dict[int, SSAValue] = {}
        for lane, offset in enumerate(offsets):
            if offset not in loaded:
                p = b.element(stored, address, offset)
                loaded[offset] = b.load(stored, p, slot.stored_bytes)
            raw = b.insert(raw, loaded[offset], lane)
        return raw

    def write_elements(self, slot: Slot, at: Coords, value: SSAValue) -> None:
        offsets = slot.lane_offsets(at)
        value = slot.to_stored(self.b, value)
        address = self.slot_address(slot, at)
        if offsets == tuple(range(len(offsets))):
            self.b.store_lanes(value, address)
            return
        for lane, offset in enumerate(offsets):
            p = self.b.element(slot.stored_type, address, offset)
            self.b.store(self.b.extract(value, lane), p, slot.stored_bytes)
