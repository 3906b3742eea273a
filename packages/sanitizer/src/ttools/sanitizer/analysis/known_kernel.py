"""What the checks know of a kernel, whatever its launches: looked up once, kept for all of them.

Must not know any launch; what depends on numbers is remembered by those numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from ttools.core.location import SourceLocation
from ttools.interpreter.backend.variants import Variants
from ttools.interpreter.emit.effects import waits
from ttools.interpreter.inlining import inline_calls
from ttools.interpreter.ir import IntegerType, Module, as_signed
from ttools.interpreter.unused_loads import commented_places
from ttools.sanitizer.analysis.index_loads import IndexLoad, index_loads
from ttools.sanitizer.analysis.pointer_tables import Place, pointer_tables
from ttools.sanitizer.analysis.weak_atomics import WeakAtomic, weak_atomics
from ttools.sanitizer.hints.arguments import ArgumentPromise, argument_promises
from ttools.sanitizer.memory.regions import KnownRegions
from ttools.sanitizer.passes import hints, overflow, undefined
from ttools.sanitizer.passes.rewrites import Rewrites, Unjudged


class KnownKernel:
    """A kernel and what was found out about it.

    Args:
        variants: the kernel.

    Attributes:
        module: to look at and not to change; its calls are inlined.
        calls: whether it calls functions, all of which can be inlined.
        rewrites: what was planned, by what decided it.
        notes: what passes cannot judge, by their names.
        regions: of its parameters.
    """

    def __init__(self, variants: Variants) -> None:
        module: Module = variants.module
        self.calls = any(op.name == "tt.call" for op in module.kernel.walk())
        if len(module.functions) > 1:
            module = variants.parse()
            self.calls &= not inline_calls(module)
        self.module = module
        self._ttir = variants.ttir
        self.rewrites: dict[object, Rewrites] = {}
        self.notes: dict[tuple[str, ...], list[Unjudged]] = {}
        self.regions = KnownRegions()
        self._candidates: dict[object, frozenset[overflow.Candidate]] = {}
        self._promises: Sequence[ArgumentPromise] | None = None

    @cached_property
    def reads(self) -> frozenset[int]:
        """The parameters through which it may read memory."""
        return undefined.reads(self.module)

    @cached_property
    def follows_addresses(self) -> bool:
        """Whether it accesses memory by pointers that it loads or computes."""
        return undefined.follows_addresses(self.module)

    @cached_property
    def has_undefined_lanes(self) -> bool:
        """Whether some lanes are undefined whatever its arguments hold."""
        return undefined.may_report(self.module)

    @cached_property
    def is_hinted(self) -> bool:
        """Whether it promises something to the compiler."""
        return hints.may_report(self.module)

    @cached_property
    def waits(self) -> bool:
        """Whether its programs may wait for each other."""
        return any(op.name == "scf.while" and waits(op) for op in self.module.kernel.walk())

    @cached_property
    def tables(self) -> Mapping[Place, int]:
        """See `pointer_tables`."""
        return pointer_tables(self.module)

    @cached_property
    def index_loads(self) -> Mapping[Place, IndexLoad]:
        """See `index_loads`."""
        return index_loads(self.module)

    @cached_property
    def unused_loads(self) -> Sequence[SourceLocation]:
        """The loads of its source that Triton left out, for nobody uses their values."""
        return commented_places(self._ttir)

    @cached_property
    def weak_atomics(self) -> Sequence[WeakAtomic]:
        """See `weak_atomics`."""
        return weak_atomics(self.module)

    def promises(
        self, names: Sequence[str], known: Callable[[], Mapping[str, object]]
    ) -> Sequence[ArgumentPromise]:
        """What it says of its arguments; see `argument_promises`."""
        if self._promises is None:
            self._promises = argument_promises(self.module, names, known())
        return self._promises

    def candidates(
        self, raw: Sequence[int], grid: tuple[int, ...]
    ) -> frozenset[overflow.Candidate]:
        """What may wrap in a launch.

        Args:
            raw: bits of the parameters.
            grid: extents.
        """
        key = grid, *(raw[n] for n, _ in self._integers)
        found = self._candidates.get(key)
        if found is None:
            scalars = {n: as_signed(raw[n] & ((1 << bits) - 1), bits) for n, bits in self._integers}
            found = self._candidates[key] = overflow.find(self.module, scalars, grid)
        return found

    @cached_property
    def _integers(self) -> tuple[tuple[int, int], ...]:
        """Index and bits of each parameter that is an integer."""
        arguments = self.module.kernel.regions[0].entry.arguments
        types = enumerate(value.type for value in arguments)
        return tuple((n, type.width) for n, type in types if isinstance(type, IntegerType))
