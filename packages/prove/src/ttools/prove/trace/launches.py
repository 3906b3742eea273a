"""Recording of a script's launches, with the provenance of their numbers."""

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

#: Maximum number of different launches that are recorded.
_MOST = 256


@dataclass(frozen=True)
class TracedTensor:
    """A tensor argument.

    Attributes:
        dtype: Type of the elements.
        elements: Number of elements of the storage.
        strides: Strides of the tensor in elements.
        offset: Position of the tensor's first element in the storage.
        provenances: Provenance of each extent; None for an extent that comes from the script.
    """

    storage: int
    dtype: Any
    elements: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    provenances: tuple[Provenance, ...] = field(default=(), compare=False, repr=False)

    def provenance(self, axis: int) -> Provenance:
        """Return the provenance of an extent; None if the extent comes from the script."""
        return self.provenances[axis] if self.provenances else None


@dataclass(frozen=True)
class TracedCall:
    """A call of a kernel by a script, with the provenance of its numbers.

    A `LaunchSpec` is not enough: it contains only the numbers, from which launches at other sizes
    cannot be derived.

    Attributes:
        arguments: Values by parameter; a `TracedTensor` for each tensor.
        constants: Names of the parameters that are constants of the kernel.
        line: `file:line` in host code.
        heuristics: The object that was called, if it computes some of the constants; otherwise
            None.
        decided: Names of the constants that `heuristics` computes.
        provenances: Provenance of traced integers, by parameter.
        grid_provenances: Provenance of the extents of the grid.
        taken: Possible provenance of plain integers that C code has read from traced integers, by
            their values.
        contents: Summary of the tables with an assumption, by parameter, over all equal launches.
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

    @property
    def numbers(self) -> dict[str, int]:
        """The extents, integer arguments and extents of the grid, named as in reports."""
        numbers = {n: a for n, a in self.arguments.items() if type(a) is int}
        for name, tensor in self.tensors.items():
            numbers |= {axis_name(name, n): extent for n, extent in enumerate(tensor.shape)}
        return numbers | {f"grid[{n}]": extent for n, extent in enumerate(self.grid)}


def axis_name(parameter: str, axis: int) -> str:
    """Return the name that reports use for the extent of a tensor along an axis."""
    return f"{parameter}.shape[{axis}]"


@dataclass
class ScriptTrace:
    """A recorded run of a script.

    Attributes:
        launches: The launches; equal launches are recorded once.
        left_out: Sentences that say why certain launches cannot be checked.
        promised: Names of parameters with an assumption about their tables.
        tracking: Provenance of tensors' extents; None if it is not tracked.
        remarks: Further sentences for the report.
    """

    launches: list[TracedCall] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    promised: frozenset[str] = frozenset()
    tracking: ExtentTracking | None = None
    remarks: list[str] = field(default_factory=list)
    _recorded: dict[object, TracedCall] = field(default_factory=dict)
    _running: list[Any] = field(default_factory=list)

    @property
    def is_followed(self) -> bool:
        """True if the script has received traced integers."""
        return self.tracking is not None and self.tracking.handed_out

    def recording(self, method: Any) -> Any:
        """Return a `JITFunction.run` that records a launch and executes it with plain integers."""

        def run(function: Any, *args: Any, **kwargs: Any) -> Any:
            if self.tracking is None:
                self.record(function, args, kwargs)
                return method(function, *args, **kwargs)
            with self.tracking.paused():
                self.record(function, args, kwargs)
                grid = kwargs.get("grid")
                if callable(grid):
                    kwargs["grid"] = lambda bound: stripped(grid(bound))
                args = tuple(map(stripped, args))
                kwargs = {name: stripped(value) for name, value in kwargs.items()}
                return method(function, *args, **kwargs)

        return run

    def begin(self, heuristics: Any, _args: object, _kwargs: object) -> None:
        """Record that heuristics, which compute constants of a launch, have started."""
        self._running.append(heuristics)

    def end(self, *_: object) -> None:
        """Record that heuristics have returned."""
        self._running.pop()

    def record(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Record a launch, unless it is a warm-up or a trial of an autotuner."""
        from ttools.interpreter.backend.tuned_config import is_trial

        if kwargs.get("warmup") or is_trial():
            return
        name = function.__name__
        if len(self._recorded) >= _MOST:
            self._leave_out(f"`{name}`: more than {_MOST} different launches")
            return
        try:
            launch = _traced(function, args, kwargs, self._running, self.tracking)
        except ValueError as error:
            self._leave_out(f"`{name}`: {error}")
            return
        key = (id(function), repr(launch.arguments), launch.grid)
        if key not in self._recorded:
            self._recorded[key] = launch
            self.launches.append(launch)
        names = [parameter.name for parameter in function.params]
        passed = {**dict(zip(names, args, strict=False)), **kwargs}
        for name in self.promised & launch.tensors.keys():
            self._take(self._recorded[key].contents, name, passed[name])

    def _take(self, contents: dict[str, TableContents], name: str, tensor: Any) -> None:
        """Add the contents of a table in a launch to the summary for its parameter."""
        if tensor.dtype.is_floating_point:
            return
        summary = table_contents(tensor.detach().cpu().numpy())
        if summary is not None:
            contents[name] = summary if name not in contents else contents[name].and_then(summary)

    def _leave_out(self, reason: str) -> None:
        if reason not in self.left_out:
            self.left_out.append(reason)


def _heuristics(function: Any, running: Sequence[Any]) -> tuple[Any, frozenset[str]]:
    """Return the outermost heuristics around a kernel, and the constants that they compute."""
    for outer in running:
        decided: set[str] = set()
        inner = outer
        while isinstance(inner, type(outer)):
            decided |= set(inner.values)
            inner = inner.fn
        if inner is function:
            return outer, frozenset(decided)
    return None, frozenset()


def _traced(
    function: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    running: Sequence[Any],
    tracking: ExtentTracking | None,
) -> TracedCall:
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
    arguments = {name: _argument(name, stripped(bound[name]), storages, tracking) for name in names}
    constants = frozenset(p.name for p in function.params if p.is_constexpr)
    plain = {*(v for n, v in arguments.items() if type(v) is int), x, y, z}
    every = {} if tracking is None else tracking.trace.taken
    taken = {n: next(iter(every[n])) for n in plain if len(every.get(n, ())) == 1}
    above, decided = _heuristics(function, running)
    launch = TracedCall(function, arguments, constants, (x, y, z), host_line(), above, decided)
    return replace(launch, provenances=provenances, grid_provenances=grid_provenances, taken=taken)


def _argument(
    name: str, value: Any, storages: dict[int, int], tracking: ExtentTracking | None = None
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
            tracking.extents(value) if tracking is not None else (),
        )
    if hasattr(value, "data_ptr") or isinstance(value, (tuple, list)):
        raise ValueError(f"the argument `{name}` is of the unsupported type {type(value).__name__}")
    return value


@contextmanager
def trace_launches(promised: Iterable[str] = (), follow: bool = True) -> Iterator[ScriptTrace]:
    """Record the launches inside the `with` block, which are executed as usual.

    Args:
        promised: Names of parameters with an assumption about their tables.
        follow: If True, the script receives traced integers.
    """
    from ttools.interpreter.backend.tuned_config import follow_configs

    trace = ScriptTrace(promised=frozenset(promised))
    with Patches() as patches:
        follow_configs(patches)
        observe(patches, HEURISTICS, before=trace.begin, after=trace.end)
        take_over(patches, CALL, trace.recording)
        if follow:
            from ttools.prove.trace.extent_tracking import ExtentTracking, tracking_extents

            mode = ExtentTracking()
            patches.enter(tracking_extents(mode))
            trace.tracking = mode
        yield trace
