"""Has a kernel store what its operations compute, by rewriting the TTIR that Triton compiles.

A log has an entry for each time that a program enters a block of code: the block's number, and
behind it the values that the block's operations compute, each at its offset. So only what is in
loops and branches has to ask where its entry begins, by a counter of the program's own. Owns the
rewriting and the form of entries. Must not know who compiles the module, nor what is right.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from math import prod
from types import SimpleNamespace
from typing import Any

from ttools.core.triton_versions import mlir_builder, semantic_class
from ttools.interpreter.eager.elements import element as element_of
from ttools.ir.dialects import declared
from ttools.ir.dialects.traits import (
    CALL,
    FROM_COORDINATES,
    FUNCTION,
    READS,
    STRUCTURED,
    VIEW,
)

#: Words of a log's header, of 8 bytes each: the first program that is logged, and how many are;
#: how many programs there were, and which module ran. A counter for each logged program follows.
FIRST, MOST, PROGRAMS, MODULE, COUNTERS = range(5)
#: Entries and values begin at multiples of this; an entry begins with the number of its block.
ALIGNED = 16
_TYPE = re.compile(r"(?:tensor<((?:\d+x)+))?(i1|i8|i16|i32|i64|f16|bf16|f32|f64|f8E5M2|f8E4M3FN)>?")
_DTYPES = {
    **{f"i{width}": f"int{width}" for width in (1, 8, 16, 32, 64)},
    **{f"f{width}": f"float{width}" for width in (16, 32, 64)},
    "bf16": "bfloat16",
    "f8E5M2": "float8e5",
    "f8E4M3FN": "float8e4nv",
}
#: By what values are disturbed, relatively: about what a GPU's functions may be off by.
_STEPS = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-22, "f64": 2.0**-51}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """How modules are rewritten.

    Attributes:
        header: its address.
        logs: the address of the logs.
        size: bytes for all of them.
        part: which of how many parts of the values are stored.
        seed: of small changes to all values, and of what undefined lanes hold; None for neither.
    """

    header: int
    logs: int
    size: int
    part: tuple[int, int] = (0, 1)
    seed: int | None = None


@dataclass
class _Block:
    """A block of code.

    Attributes:
        number: from 1 on.
        handle: Triton's.
        regions: those that it is in.
        begins: whether its function begins with it.
        operations: in their order, by their number in the module.
        size: bytes of an entry.
    """

    number: int
    handle: Any
    function: str
    regions: frozenset[int]
    begins: bool
    operations: dict[int, Any] = field(default_factory=dict)
    size: int = ALIGNED


@dataclass
class _Site:
    """A result of an operation.

    Attributes:
        block: in which it is computed.
        number: of the operation in the module.
        operation: Triton's handle.
        result: which of the operation's.
        element: its type, as MLIR writes it.
        shape: of a tensor; empty for a number.
        offset: in the entry; None if it is not stored.
    """

    block: _Block
    number: int
    operation: Any
    result: int
    element: str
    shape: tuple[int, ...]
    offset: int | None = None


def instrument(
    module: Any, wanted: Wanted, number: int, options: Any, codegen: Any
) -> dict[str, Any]:
    """Rewrites a module in place.

    Args:
        module: TTIR as Triton holds it.
        wanted: how.
        number: of the module, from 1 on.
        codegen: what its backend gives the front end.

    Returns:
        `sites`, the values of the module; `blocks`, what entries of the log hold; and `first`, the
        size of the kernel's first entry, which no counter counts.
    """
    builder = mlir_builder(module.context)
    builder.options = SimpleNamespace(**{**vars(options), "sanitize_overflow": False})
    builder.codegen_fns = codegen
    kernel = module.get_entry_func_name()
    blocks = _blocks_of(module)
    sites = _sites_of(blocks)
    part, of = wanted.part
    for site in sites[part * len(sites) // of : (part + 1) * len(sites) // of]:
        site.offset = site.block.size
        size = max(prod(site.shape), 1) * element_of(site.element).size
        site.block.size += -(-size // ALIGNED) * ALIGNED
    described = _described(blocks, sites, kernel)
    _Writer(builder, wanted, kernel, described["first"]).write(blocks, sites, number)
    return described


def _blocks_of(module: Any) -> list[_Block]:
    """The blocks of a module's functions; what operations combine elements by is no code."""
    operations: list[Any] = []
    module.walk(operations.append)
    owners = {op.get_region(n).id(): op for op in operations for n in range(op.get_num_regions())}
    blocks: dict[int, _Block | None] = {}
    begun: set[str] = set()
    for place, op in enumerate(operations):
        block = op.get_block()
        if block is None:
            continue
        if block.id() not in blocks:
            found = _owned(block, owners)
            begins = found is not None and len(found[1]) == 1 and found[0] not in begun
            if begins and found is not None:
                begun.add(found[0])
            number = sum(each is not None for each in blocks.values()) + 1
            blocks[block.id()] = found and _Block(number, block, *found, begins=begins)
        known = blocks[block.id()]
        if known is not None:
            known.operations[place] = op
    return [each for each in blocks.values() if each is not None]


def _owned(block: Any, owners: dict[int, Any]) -> tuple[str, frozenset[int]] | None:
    """The function that a block is code of, and the regions that it is in; None if of none."""
    regions: set[int] = set()
    while block is not None:
        region = block.get_parent()
        owner = None if region is None else owners.get(region.id())
        if owner is None:
            return None
        regions.add(region.id())
        traits = declared(owner.get_name()).traits
        if FUNCTION in traits:
            return owner.get_str_attr("sym_name"), frozenset(regions)
        if STRUCTURED not in traits:
            return None
        block = owner.get_block()
    return None


def _sites_of(blocks: list[_Block]) -> list[_Site]:
    """What operations compute, in their order; what only moves or counts lanes is left out."""
    found = []
    for block in blocks:
        for number, op in block.operations.items():
            if declared(op.get_name()).traits & {VIEW, FROM_COORDINATES}:
                continue
            for n in range(op.get_num_results()):
                read = _TYPE.fullmatch(str(op.get_result(n).get_type()))
                if read is not None:
                    shape = tuple(map(int, (read[1] or "").split("x")[:-1]))
                    found.append(_Site(block, number, op, n, read[2], shape))
    return sorted(found, key=lambda site: site.number)


def _described(blocks: list[_Block], sites: list[_Site], kernel: str) -> dict[str, Any]:
    """What is needed to read a log."""
    stored: dict[int, list[Any]] = {}
    for index, site in enumerate(sites):
        if site.offset is not None:
            stored.setdefault(site.number, []).append([index, site.offset])
    items: list[list[Any]] = []
    for block in blocks:
        items.append([])
        for number, op in block.operations.items():
            inner = _inner(op, blocks, kernel)
            items[-1] += [{"inner": inner}] if inner else []
            items[-1] += [{"value": each} for each in stored.get(number, [])]
    return {
        "sites": [
            {
                "name": site.operation.get_name(),
                "where": str(site.operation.get_result(site.result).get_loc()),
                "element": site.element,
                "shape": list(site.shape),
            }
            for site in sites
        ],
        "blocks": [
            {"size": block.size, "items": each} for block, each in zip(blocks, items, strict=True)
        ],
        "first": next(each.size for each in blocks if each.begins and each.function == kernel),
    }


def _inner(op: Any, blocks: list[_Block], kernel: str) -> list[int]:
    """The blocks that run while an operation does."""
    if CALL in declared(op.get_name()).traits:
        return [each.number for each in blocks if each.function != kernel]
    regions = {op.get_region(n).id() for n in range(op.get_num_regions())}
    return [each.number for each in blocks if regions & each.regions]


class _Writer:
    """Inserts operations, by the functions of Triton's own language.

    Args:
        wanted: how it is rewritten.
        kernel: the name of the function that is launched.
        first: bytes of its first entry.
    """

    def __init__(self, builder: Any, wanted: Wanted, kernel: str, first: int) -> None:
        import triton.language as tl

        self._tl, self._builder, self._wanted = tl, builder, wanted
        self._kernel, self._first = kernel, first
        self._by = {"_semantic": semantic_class()(builder)}

    def write(self, blocks: list[_Block], sites: list[_Site], number: int) -> None:
        """Inserts what stores the values of sites, and what finds the place for them."""
        functions: dict[str, tuple[Any, ...]] = {}
        for block in blocks:
            if block.begins:
                self._builder.set_insertion_point_to_start(block.handle)
                functions[block.function] = self._begun(number)
                entered = self._entered(block, *functions[block.function])
                self._store(sites, block, *entered)
        for block in blocks:
            if not block.begins:
                self._builder.set_insertion_point_to_start(block.handle)
                self._store(sites, block, *self._entered(block, *functions[block.function]))

    def _do(self, value: Any, operator: str, other: Any) -> Any:
        return getattr(value, f"__{operator}__")(other, **self._by)

    def _number(self, value: int) -> Any:
        return self._tl.full((), value, self._tl.int64, **self._by)

    def _pointer(self, address: Any, dtype: Any) -> Any:
        return address.to(self._tl.pointer_type(dtype), **self._by)

    def _begun(self, number: int) -> tuple[Any, ...]:
        """The counter, log, its size and whether there is one, for the program."""
        tl, by = self._tl, self._by
        words = self._pointer(self._number(self._wanted.header), tl.int64)
        program, programs = self._number(0), self._number(1)
        for axis in (2, 1, 0):
            extent = tl.num_programs(axis, **by).to(tl.int64, **by)
            programs = self._do(programs, "mul", extent)
            program = self._do(program, "mul", extent)
            program = self._do(program, "add", tl.program_id(axis, **by).to(tl.int64, **by))
        is_first = self._do(program, "eq", 0)
        for word, value in ((PROGRAMS, programs), (MODULE, self._number(number))):
            tl.store(self._do(words, "add", word), value, mask=is_first, **by)
        most = tl.load(self._do(words, "add", MOST), **by)
        index = self._do(program, "sub", tl.load(self._do(words, "add", FIRST), **by))
        count = tl.where(self._do(programs, "lt", most), programs, most, **by)
        active = self._do(self._do(index, "ge", 0), "and", self._do(index, "lt", count))
        size = self._do(
            self._do(self._number(self._wanted.size), "floordiv", count), "and", -ALIGNED
        )
        log = self._do(self._number(self._wanted.logs), "add", self._do(index, "mul", size))
        counter = self._do(self._do(words, "add", COUNTERS), "add", index)
        return counter, log, size, active

    def _entered(
        self, block: _Block, counter: Any, log: Any, size: Any, active: Any
    ) -> tuple[Any, Any]:
        """The address of an entry, and whether it is written."""
        if block.size == ALIGNED:
            return None, None
        tl = self._tl
        if block.begins and block.function == self._kernel:
            begin = self._number(0)
        else:
            length = self._number(block.size)
            asked = {"mask": active, "sem": "relaxed", "scope": "cta", **self._by}
            begin = self._do(tl.atomic_add(counter, length, **asked), "add", self._first)
        fits = self._do(self._do(begin, "add", block.size), "le", size)
        visible = self._do(active, "and", fits)
        entry = self._do(log, "add", begin)
        tl.store(self._pointer(entry, tl.int64), block.number, mask=visible, **self._by)
        return entry, visible

    def _store(self, sites: list[_Site], block: _Block, entry: Any, visible: Any) -> None:
        tl = self._tl
        for index, site in enumerate(sites):
            if site.block is not block:
                continue
            dtype = getattr(tl, _DTYPES[site.element])
            kind = tl.block_type(dtype, list(site.shape)) if site.shape else dtype
            self._builder.set_insertion_point_after(site.operation)
            value = tl.tensor(site.operation.get_result(site.result), kind)
            if self._wanted.seed is not None:
                value = self._disturbed(value, site, index, self._wanted.seed)
            if site.offset is None:
                continue
            if site.element == "i1":
                value = value.to(tl.int8, **self._by)
            place = self._pointer(self._do(entry, "add", site.offset), value.dtype.scalar)
            if site.shape:
                place = self._do(place, "add", self._lanes(site.shape))
            tl.store(place, value, mask=visible, **self._by)

    def _lanes(self, shape: tuple[int, ...]) -> Any:
        """The number of each element."""
        tl, total = self._tl, None
        for axis, extent in enumerate(shape):
            lanes = tl.arange(0, extent, **self._by)
            for other in range(len(shape)):
                if other != axis:
                    lanes = tl.expand_dims(lanes, other, **self._by)
            lanes = self._do(lanes, "mul", prod(shape[axis + 1 :]))
            total = lanes if total is None else self._do(total, "add", lanes)
        return total

    # ---- small changes
    def _disturbed(self, value: Any, site: _Site, index: int, seed: int) -> Any:
        """A value off by about a rounding error, which takes its place; undefined lanes hold any.

        Which way an element is off depends on the seed, the operation and the element; what
        undefined lanes hold on whether the seed is odd.
        """
        tl, step = self._tl, _STEPS.get(site.element)
        draw = random.Random(f"{seed} {index}")
        masked = _mask(site)
        if step is None and masked is None:
            return value
        stands_in = tl.tensor(self._builder.create_poison(value.handle.get_type()), value.type)
        changed = stands_in
        if masked is not None:
            kind = tl.block_type(tl.int1, list(site.shape)) if site.shape else tl.int1
            other = self._filled(seed % 2, value)
            changed = tl.where(tl.tensor(masked, kind), changed, other, **self._by)
        if step is not None:
            lanes = self._lanes(site.shape) if site.shape else self._number(0)
            odd, shift = draw.randrange(1, 1 << 30, 2), draw.randrange(8, 24)
            bits = self._do(self._do(lanes, "add", draw.randrange(1 << 20)), "mul", odd)
            up = self._do(self._do(self._do(bits, "rshift", shift), "and", 1), "eq", 0)
            sides = (self._filled(each, value) for each in (1 + step, 1 - step))
            changed = self._do(changed, "mul", tl.where(up, *sides, **self._by))
        value.handle.replace_all_uses_with(changed.handle)
        stands_in.handle.replace_all_uses_with(value.handle)
        return changed

    def _filled(self, number: float, like: Any) -> Any:
        shape = like.type.shape if like.type.is_block() else ()
        return self._tl.full(shape, number, like.dtype.scalar, **self._by)


def _mask(site: _Site) -> Any:
    """The mask of a load that leaves the other lanes undefined; None if there is none."""
    op = site.operation
    declaration = declared(op.get_name())
    names = declaration.operand_names
    if READS not in declaration.traits or "mask" not in names or "other" not in names:
        return None
    at = names.index("mask")
    return op.get_operand(at) if op.get_num_operands() == at + 1 else None
