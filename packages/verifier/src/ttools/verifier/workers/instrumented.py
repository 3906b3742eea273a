"""Rewrites the TTIR of a kernel so that it stores the values that its operations compute.

Each program of a launch writes a log. The log contains one entry for each time that the program
enters a block of code. An entry consists of the block's number and the values of the block's
operations, each at a fixed offset. The first block of the kernel runs once, so its entry is at the
beginning of the log. In loops, branches and called functions, each block reserves space for its
entry by advancing a counter of the program.
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

#: Indices of the 8-byte words of the header: the first program to log, the maximum number of
#: programs to log, the number of programs in the launch, and the number of the module that ran.
#: These words are followed by one counter for each logged program.
FIRST, MOST, PROGRAMS, MODULE, COUNTERS = range(5)
#: Alignment of entries and values in bytes. An entry begins with the number of its block, which
#: takes this many bytes.
ALIGNED = 16
_TYPE = re.compile(r"(?:tensor<((?:\d+x)+))?(i1|i8|i16|i32|i64|f16|bf16|f32|f64|f8E5M2|f8E4M3FN)>?")
_DTYPES = {
    **{f"i{width}": f"int{width}" for width in (1, 8, 16, 32, 64)},
    **{f"f{width}": f"float{width}" for width in (16, 32, 64)},
    "bf16": "bfloat16",
    "f8E5M2": "float8e5",
    "f8E4M3FN": "float8e4nv",
}
#: Relative size of the changes that are made to values: about the error of a GPU's functions.
_STEPS = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-22, "f64": 2.0**-51}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Options for rewriting modules.

    Attributes:
        header: Address of the header.
        logs: Address of the logs.
        size: Size of all logs together in bytes.
        part: `(index, count)`: the values are divided into `count` parts, and only the part with
            this index is stored.
        seed: Seed of small changes to all values and of the contents of undefined lanes; None to
            change neither.
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
        number: Number of the block in the module, beginning with 1.
        handle: Triton's object for the block.
        regions: Identifiers of the regions that contain the block.
        begins: If True, the block is the first of its function.
        operations: Operations in program order, by their number in the module.
        size: Size of an entry in bytes.
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
        block: Block that contains the operation.
        number: Number of the operation in the module.
        operation: Triton's object for the operation.
        result: Index of the result among those of the operation.
        element: Element type as MLIR writes it, such as `f32`.
        shape: Shape of a tensor; empty for a scalar.
        offset: Offset in the entry in bytes; None if the value is not stored.
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
    """Rewrite a module in place.

    Args:
        module: Triton's object for the TTIR module.
        wanted: Addresses, sizes and changes to values.
        number: Number of the module, beginning with 1.
        options: Compile options of the launch.
        codegen: Code generation functions of Triton's backend.

    Returns:
        A dictionary: `sites` describes the values of the module; `blocks` gives the layout of log
            entries; and `first` is the size of the kernel's first entry, which the counter does not
            include.
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
    """Return the blocks of a module's functions, without the combine regions of reductions."""
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
            place_in_code = _owned(block, owners)
            begins = (
                place_in_code is not None
                and len(place_in_code[1]) == 1
                and place_in_code[0] not in begun
            )
            if begins and place_in_code is not None:
                begun.add(place_in_code[0])
            number = sum(entry is not None for entry in blocks.values()) + 1
            blocks[block.id()] = place_in_code and _Block(
                number, block, *place_in_code, begins=begins
            )
        code_block = blocks[block.id()]
        if code_block is not None:
            code_block.operations[place] = op
    return [block for block in blocks.values() if block is not None]


def _owned(block: Any, owners: dict[int, Any]) -> tuple[str, frozenset[int]] | None:
    """Return the function and the regions around a block; None if it is outside program code."""
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
    """Return the results of operations in program order, without views and lane numbers."""
    sites = []
    for block in blocks:
        for number, op in block.operations.items():
            if declared(op.get_name()).traits & {VIEW, FROM_COORDINATES}:
                continue
            for n in range(op.get_num_results()):
                read = _TYPE.fullmatch(str(op.get_result(n).get_type()))
                if read is not None:
                    shape = tuple(map(int, (read[1] or "").split("x")[:-1]))
                    sites.append(_Site(block, number, op, n, read[2], shape))
    return sorted(sites, key=lambda site: site.number)


def _described(blocks: list[_Block], sites: list[_Site], kernel: str) -> dict[str, Any]:
    """Return the information that is needed to read a log."""
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
            items[-1] += [{"value": value} for value in stored.get(number, [])]
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
            {"size": block.size, "items": block_items}
            for block, block_items in zip(blocks, items, strict=True)
        ],
        "first": next(block.size for block in blocks if block.begins and block.function == kernel),
    }


def _inner(op: Any, blocks: list[_Block], kernel: str) -> list[int]:
    """Return the numbers of the blocks that run inside an operation."""
    if CALL in declared(op.get_name()).traits:
        return [block.number for block in blocks if block.function != kernel]
    regions = {op.get_region(n).id() for n in range(op.get_num_regions())}
    return [block.number for block in blocks if regions & block.regions]


class _Writer:
    """Inserts operations by calling the functions of `triton.language`.

    Args:
        wanted: Addresses, sizes and changes to values.
        kernel: Name of the function that is launched.
        first: Size in bytes of the kernel's first entry.
    """

    def __init__(self, builder: Any, wanted: Wanted, kernel: str, first: int) -> None:
        import triton.language as tl

        self._tl, self._builder, self._wanted = tl, builder, wanted
        self._kernel, self._first = kernel, first
        self._by = {"_semantic": semantic_class()(builder)}

    def write(self, blocks: list[_Block], sites: list[_Site], number: int) -> None:
        """Insert the operations that reserve space in the log and store the values of sites."""
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
        """Return the addresses of a program's counter and log, the log's size, and a flag.

        The flag says whether the program is logged.
        """
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
        """Return the address of an entry and whether it is written."""
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
                value = self._perturbed(value, site, index, self._wanted.seed)
            if site.offset is None:
                continue
            if site.element == "i1":
                value = value.to(tl.int8, **self._by)
            place = self._pointer(self._do(entry, "add", site.offset), value.dtype.scalar)
            if site.shape:
                place = self._do(place, "add", self._lanes(site.shape))
            tl.store(place, value, mask=visible, **self._by)

    def _lanes(self, shape: tuple[int, ...]) -> Any:
        """Return a tensor that contains the row-major index of each element."""
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
    def _perturbed(self, value: Any, site: _Site, index: int, seed: int) -> Any:
        """Replace a value by one that differs by about a rounding error, and return the new value.

        Whether an element becomes larger or smaller depends on the seed, the operation and the
        element. Undefined lanes of a load become 1 if the seed is odd, and otherwise 0.
        """
        tl, step = self._tl, _STEPS.get(site.element)
        draw = random.Random(f"{seed} {index}")
        masked = _mask(site)
        if step is None and masked is None:
            return value
        placeholder = tl.tensor(self._builder.create_poison(value.handle.get_type()), value.type)
        changed = placeholder
        if masked is not None:
            kind = tl.block_type(tl.int1, list(site.shape)) if site.shape else tl.int1
            other = self._filled(seed % 2, value)
            changed = tl.where(tl.tensor(masked, kind), changed, other, **self._by)
        if step is not None:
            lanes = self._lanes(site.shape) if site.shape else self._number(0)
            odd, shift = draw.randrange(1, 1 << 30, 2), draw.randrange(8, 24)
            bits = self._do(self._do(lanes, "add", draw.randrange(1 << 20)), "mul", odd)
            up = self._do(self._do(self._do(bits, "rshift", shift), "and", 1), "eq", 0)
            sides = (self._filled(factor, value) for factor in (1 + step, 1 - step))
            changed = self._do(changed, "mul", tl.where(up, *sides, **self._by))
        value.handle.replace_all_uses_with(changed.handle)
        placeholder.handle.replace_all_uses_with(value.handle)
        return changed

    def _filled(self, number: float, like: Any) -> Any:
        shape = like.type.shape if like.type.is_block() else ()
        return self._tl.full(shape, number, like.dtype.scalar, **self._by)


def _mask(site: _Site) -> Any:
    """Return the mask of a load without `other`, which leaves lanes undefined; otherwise None."""
    op = site.operation
    declaration = declared(op.get_name())
    names = declaration.operand_names
    if READS not in declaration.traits or "mask" not in names or "other" not in names:
        return None
    at = names.index("mask")
    return op.get_operand(at) if op.get_num_operands() == at + 1 else None
