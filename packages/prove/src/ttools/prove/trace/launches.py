"""The launches that a script makes, with the numbers that they are made with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ttools.core.launch_path import CALL, HEURISTICS, observe, take_over
from ttools.core.patches import Patches
from ttools.core.process.host_line import host_line
from ttools.ir.expr import Expr
from ttools.prove.contracts import TableContents, table_contents
from ttools.prove.trace.traced import Provenance, TracedInt, stripped

if TYPE_CHECKING:
    from ttools.prove.trace.extent_tracking import ExtentTracking

#: Launches that differ in any number are kept apart up to here.
_MOST = 256


@dataclass(frozen=True)
class TracedTensor:
    """A tensor argument; lengths are counted in elements.

    Attributes:
        storage: tells storages apart.
        elements: of the storage.
        provenances: what its extents come from; None where that is the script.
    """

    storage: int
    dtype: Any
    elements: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    provenances: tuple[Provenance, ...] = field(default=(), compare=False, repr=False)

    def provenance(self, axis: int) -> Provenance:
        """What an extent comes from, if that is not the script."""
        return self.provenances[axis] if self.provenances else None


@dataclass(frozen=True)
class TracedLaunch:
    """One launch.

    It holds the function and where numbers come from, unlike a `LaunchSpec`.

    Attributes:
        function: the `JITFunction`.
        arguments: by parameter; a `TracedTensor` for each tensor.
        constants: names of those that are constants of the kernel.
        grid: three extents.
        line: `file:line` in host code.
        heuristics: what was called, where that decides some of the constants; else None.
        decided: names of those.
        provenances: what numbers that were followed come from, by parameter.
        grid_provenances: the same of the grid.
        taken: of plain numbers that C code took of traced integers, where they may come from.
        contents: Summary of the tables with a promise, by parameter, over all equal launches.
    """

    function: Any
    arguments: Mapping[str, Any]
    constants: frozenset[str]
    grid: tuple[int, int, int]
    line: str | None
    heuristics: Any = None
    decided: frozenset[str] = frozenset()
    provenances: Mapping[str, Expr] = field(default_factory=dict)
    grid_provenances: tuple[Provenance, ...] = (None, None, None)
    taken: Mapping[int, Expr] = field(default_factory=dict)
    contents: dict[str, TableContents] = field(default_factory=dict, compare=False, repr=False)

    @property
    def kernel(self) -> str:
        return str(self.function.__name__)

    @property
    def tensors(self) -> dict[str, TracedTensor]:
        return {n: a for n, a in self.arguments.items() if isinstance(a, TracedTensor)}


@dataclass
class ScriptTrace:
    """What was seen of a script.

    Attributes:
        launches: those that differ.
        left_out: why others cannot be looked at, in words.
        promised: names of parameters of whose tables something is promised.
        following: knows what extents of tensors come from.
        remarks: what else the report has to say of the run, in words.
    """

    launches: list[TracedLaunch] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    promised: frozenset[str] = frozenset()
    following: ExtentTracking | None = None
    remarks: list[str] = field(default_factory=list)
    _known: dict[object, TracedLaunch] = field(default_factory=dict)
    _running: list[Any] = field(default_factory=list)

    @property
    def is_followed(self) -> bool:
        """Whether the script was given integers that note where they come from."""
        return self.following is not None and self.following.handed_out

    def recording(self, method: Any) -> Any:
        """`JITFunction.run` that records the launch, and makes it with plain integers."""

        def run(function: Any, *args: Any, **kwargs: Any) -> Any:
            if self.following is None:
                self.record(function, args, kwargs)
                return method(function, *args, **kwargs)
            with self.following.paused():
                self.record(function, args, kwargs)
                grid = kwargs.get("grid")
                if callable(grid):
                    kwargs["grid"] = lambda bound: stripped(grid(bound))
                args = tuple(map(stripped, args))
                kwargs = {name: stripped(value) for name, value in kwargs.items()}
                return method(function, *args, **kwargs)

        return run

    def begin(self, heuristics: Any, _args: object, _kwargs: object) -> None:
        """Takes that heuristics are asked, on the way to a launch."""
        self._running.append(heuristics)

    def end(self, *_: object) -> None:
        """Takes that they have done."""
        self._running.pop()

    def record(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Takes a launch, as Triton is asked for it."""
        from ttools.interpreter.backend.tuned_config import is_trial

        if kwargs.get("warmup") or is_trial():
            return
        name = function.__name__
        if len(self._known) >= _MOST:
            self._leave_out(f"`{name}`: more than {_MOST} launches that differ")
            return
        try:
            launch = _seen(function, args, kwargs, self._running, self.following)
        except ValueError as error:
            self._leave_out(f"`{name}`: {error}")
            return
        key = (id(function), repr(launch.arguments), launch.grid)
        if key not in self._known:
            self._known[key] = launch
            self.launches.append(launch)
        names = [parameter.name for parameter in function.params]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        for name in self.promised & launch.tensors.keys():
            self._take(self._known[key].contents, name, given[name])

    def _take(self, known: dict[str, TableContents], name: str, tensor: Any) -> None:
        """Takes what a table holds when it is passed."""
        if tensor.dtype.is_floating_point:
            return
        found = table_contents(tensor.detach().cpu().numpy())
        if found is not None:
            known[name] = found if name not in known else known[name].and_then(found)

    def _leave_out(self, reason: str) -> None:
        if reason not in self.left_out:
            self.left_out.append(reason)


def _heuristics(function: Any, running: Sequence[Any]) -> tuple[Any, frozenset[str]]:
    """The outermost heuristics above a kernel with nothing but such in between."""
    for each in running:
        decided: set[str] = set()
        inner = each
        while isinstance(inner, type(each)):
            decided |= set(inner.values)
            inner = inner.fn
        if inner is function:
            return each, frozenset(decided)
    return None, frozenset()


def _seen(
    function: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    running: Sequence[Any],
    following: ExtentTracking | None,
) -> TracedLaunch:
    names = [p.name for p in function.params]
    bound = {p.name: p.default for p in function.params if p.has_default}
    bound |= dict(zip(names, args, strict=False))
    bound |= {name: value for name, value in kwargs.items() if name in names}
    grid = kwargs["grid"]
    if callable(grid):
        grid = grid(bound)
    extents = [*(grid if isinstance(grid, (tuple, list)) else (grid,)), 1, 1][:3]
    x, y, z = (e if type(e) is int else int(stripped(e)) for e in extents)
    numbers = {name: value for name, value in bound.items() if type(value) is TracedInt}
    provenances = {name: value.expr for name, value in numbers.items() if value.expr is not None}
    grid_provenances = tuple(e.expr if type(e) is TracedInt else None for e in extents)
    storages: dict[int, int] = {}
    arguments = {
        name: _argument(name, stripped(bound[name]), storages, following) for name in names
    }
    constants = frozenset(p.name for p in function.params if p.is_constexpr)
    plain = {*(v for n, v in arguments.items() if type(v) is int), x, y, z}
    every = {} if following is None else following.trace.taken
    taken = {n: next(iter(every[n])) for n in plain if len(every.get(n, ())) == 1}
    above, decided = _heuristics(function, running)
    launch = TracedLaunch(function, arguments, constants, (x, y, z), host_line(), above, decided)
    return replace(launch, provenances=provenances, grid_provenances=grid_provenances, taken=taken)


def _argument(
    name: str, value: Any, storages: dict[int, int], following: ExtentTracking | None = None
) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        whole = value.untyped_storage()
        number = storages.setdefault(whole.data_ptr(), len(storages))
        return TracedTensor(
            number,
            value.dtype,
            whole.nbytes() // value.dtype.itemsize,
            tuple(value.shape),
            tuple(value.stride()),
            int(value.storage_offset()),
            following.extents(value) if following is not None else (),
        )
    if hasattr(value, "data_ptr") or isinstance(value, (tuple, list)):
        raise ValueError(f"the argument `{name}` is of type {type(value).__name__}")
    return value


@contextmanager
def trace_launches(promised: Iterable[str] = (), follow: bool = True) -> Iterator[ScriptTrace]:
    """Notes the launches that are made meanwhile; they are made as ever.

    Args:
        promised: names of parameters of whose tables something is promised.
        follow: whether numbers are followed from the tensors that they come from.
    """
    from ttools.interpreter.backend.tuned_config import follow_configs

    seen = ScriptTrace(promised=frozenset(promised))
    with Patches() as patches:
        follow_configs(patches)
        observe(patches, HEURISTICS, before=seen.begin, after=seen.end)
        take_over(patches, CALL, seen.recording)
        if follow:
            from ttools.prove.trace.extent_tracking import ExtentTracking, tracking_extents

            mode = ExtentTracking()
            patches.enter(tracking_extents(mode))
            seen.following = mode
        yield seen
