"""Runs of host code with fake tensors, whose launches are recorded instead of executed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ttools.core.process.host_line import host_line
from ttools.ir.expr import Expr, as_expr
from ttools.prove.host.replacements import (
    BuiltinReplacements,
    module_scopes,
    replaced_functions,
)
from ttools.prove.host.symbolic_numbers import (
    NotModelledError,
    Path,
    SymbolicInt,
    current_path,
    expr_of,
    on_path,
)
from ttools.prove.host.tensors import FakeTensor, Storage

_INT32 = 1 << 31
_POINTERS = {
    torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32", torch.float64: "fp64",
    torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.uint8: "u8", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
    torch.bool: "i1", torch.float8_e4m3fn: "fp8e4nv", torch.float8_e5m2: "fp8e5",
    torch.float8_e4m3fnuz: "fp8e4b8", torch.float8_e5m2fnuz: "fp8e5b16",
}  # fmt: skip
#: Keyword arguments of launches that are options of Triton and not parameters of the kernel.
_OPTIONS = frozenset(
    (
        *("num_warps", "num_ctas", "num_stages", "maxnreg", "debug", "enable_fp_fusion"),
        *("launch_cooperative_grid", "launch_pdl", "waves_per_eu", "matrix_instr_nonkdim"),
        *("kpack", "instrumentation_mode"),
    )
)


@dataclass(frozen=True)
class Memory:
    """The tensor that is passed as a pointer argument, in its state at the launch.

    Attributes:
        number: Number of its storage.
        dtype: Type of its elements.
        elements: Number of elements of the storage.
        shape: Extents of the view that is passed.
        strides: Strides of the view in elements.
        offset: Index of the view's first element in the storage.
        content: Expression for element number `INDEX` of the storage, if the elements are integers;
            None if unknown.
        value: Value of all elements, if they are floats and all equal.
        random: True if the elements were drawn at random.
        within: Bounds of the elements that the user assumes.
        distinct: True if the user assumes that no two elements are equal.
        ascending: True if the user assumes that the elements never decrease.
    """

    number: int
    dtype: torch.dtype
    elements: Expr
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    offset: Expr
    content: Expr | None = None
    value: float | None = None
    random: bool = False
    within: tuple[Expr, Expr] | None = None
    distinct: bool = False
    ascending: bool = False


@dataclass(frozen=True)
class SymbolicCall:
    """A call of a kernel in host code, with its grid and arguments as expressions over sizes.

    It represents the launches at all sizes, so it has no `LaunchSpec`, which describes a launch at
    one size.

    Attributes:
        grid: Extents of the grid.
        signature: Triton's type of each parameter.
        constants: Values of the parameters that are constants.
        arguments: The arguments that are not constants: a `Memory` for a tensor, an expression for
            an integer, and None for anything else.
        line: `file:line` in host code.
        config: Configuration that an autotuner has chosen.
        storages: Storage of each argument.
    """

    function: Any
    grid: tuple[Expr, Expr, Expr]
    signature: Mapping[str, str]
    constants: Mapping[str, Any]
    arguments: tuple[Memory | Expr | None, ...]
    line: str | None
    config: Mapping[str, Any] | None = None
    storages: tuple[Storage, ...] = field(default=(), compare=False, repr=False)

    @property
    def kernel(self) -> str:
        return str(self.function.__name__)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters that are not constants."""
        return tuple(n for n, kind in self.signature.items() if kind != "constexpr")

    @property
    def key(self) -> tuple[object, ...]:
        """All data of the launch that the compiled kernel depends on."""
        constants = tuple((n, type(v).__name__, repr(v)) for n, v in self.constants.items())
        return (id(self.function), tuple(self.signature.items()), constants)


class Recorder:
    """Collects the launches of one run of host code."""

    def __init__(
        self, written: Callable[[SymbolicCall], Sequence[int]], builtins: BuiltinReplacements
    ) -> None:
        self.launches: list[SymbolicCall] = []
        self.assumptions: list[str] = []
        self._written = written
        self._builtins = builtins
        self._real: dict[int, Storage] = {}

    def launch(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        grid = kwargs.pop("grid")
        kwargs.pop("warmup", None)
        config = kwargs.pop("_config", None)
        bound = _bind(function, args, kwargs)
        if callable(grid):
            grid = grid(bound)
        bound = {name: self._fake(value) for name, value in bound.items()}
        extents = [expr_of(e) for e in (grid if isinstance(grid, (tuple, list)) else (grid,))]
        extents += [as_expr(1)] * (3 - len(extents))
        with self._builtins.absent():
            launch = _specialised(function, bound, (extents[0], extents[1], extents[2]), config)
            self.launches.append(launch)
            for index in self._written(launch):
                launch.storages[index].forget()

    def _fake(self, value: Any) -> Any:
        """Return a fake tensor for a real tensor, such as a weight, whose shape is constant."""
        if type(value) is FakeTensor or not isinstance(value, torch.Tensor):
            return value
        whole = value.untyped_storage()
        elements = as_expr(whole.nbytes() // value.dtype.itemsize)
        storage = self._real.setdefault(whole.data_ptr(), Storage(elements, value.dtype))
        if storage.dtype != value.dtype:
            raise NotModelledError("tensors of two dtypes in one storage")
        return FakeTensor(storage, value.shape, value.stride(), value.storage_offset())


def _bind(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    names = [p.name for p in function.params]
    bound = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name in names:
            bound[name] = value
        elif name not in _OPTIONS and not name.startswith("_"):
            raise NotModelledError(f"the launch option `{name}`")
    for parameter in function.params:
        if parameter.name not in bound:
            if not parameter.has_default:
                raise TypeError(f"missing argument: `{parameter.name}`")
            bound[parameter.name] = parameter.default
    return {name: bound[name] for name in names}


def _specialised(
    function: Any,
    bound: Mapping[str, Any],
    grid: tuple[Expr, Expr, Expr],
    config: Mapping[str, Any] | None,
) -> SymbolicCall:
    signature: dict[str, str] = {}
    constants: dict[str, Any] = {}
    arguments: list[Memory | Expr | None] = []
    storages: list[Storage] = []
    for parameter in function.params:
        name, value = parameter.name, bound[parameter.name]
        if parameter.is_constexpr or value is None or _is_function(value):
            signature[name] = "constexpr"
            constants[name] = int(value) if type(value) is SymbolicInt else value
            continue
        kind, argument = _typed(parameter, value)
        if kind == "constexpr":
            constants[name] = 1
        else:
            arguments.append(argument)
            storages.append(
                value.storage if isinstance(argument, Memory) else Storage(as_expr(0), torch.int8)
            )
        signature[name] = kind
    return SymbolicCall(
        function,
        grid,
        signature,
        constants,
        tuple(arguments),
        host_line(),
        config,
        tuple(storages),
    )


def _is_function(value: Any) -> bool:
    return type(value) is not FakeTensor and hasattr(value, "cache_key")


def _typed(parameter: Any, value: Any) -> tuple[str, Memory | Expr | None]:
    """Return Triton's type of an argument, and its memory or expression."""
    if type(value) is FakeTensor:
        return f"*{_POINTERS[value.dtype]}", _memory(value)
    if isinstance(value, bool):
        return "u1", as_expr(int(value))
    if isinstance(value, int):
        expr, ask = expr_of(value), current_path().ask
        annotated = str(getattr(parameter, "annotation_type", "") or "")
        if annotated:
            return annotated, _within(annotated, expr, parameter.name)
        if not parameter.do_not_specialize and ask(expr - 1, "eq"):
            return "constexpr", None
        narrow = ask(as_expr(_INT32 - 1) - expr, "ge") and ask(expr + _INT32, "ge")
        return ("i32" if narrow else "i64"), expr
    if isinstance(value, float):  # a `SymbolicFloat` is also a float
        return "fp32", None
    raise NotModelledError(f"the argument `{parameter.name}` of type {type(value).__name__}")


def _within(annotated: str, expr: Expr, name: str) -> Expr:
    """Return an integer argument, and restrict the path to sizes at which it fits its type."""
    width, ask = annotated.lstrip("iu"), current_path().ask
    if annotated[0] in "iu" and width.isdigit():
        half = 1 << (int(width) - 1)
        if not (ask(as_expr(half - 1) - expr, "ge") and ask(expr + half, "ge")):
            raise NotModelledError(
                f"the argument `{name}`, whose value is outside the range of its type"
            )
    return expr


def _memory(tensor: FakeTensor) -> Memory:
    storage = tensor.storage
    return Memory(
        storage.number,
        storage.dtype,
        storage.elements,
        tuple(map(expr_of, tensor.shape)),
        tuple(map(expr_of, tensor.stride())),
        expr_of(tensor.offset),
        storage.content,
        storage.value,
        storage.random,
    )


def run_host(
    run: Callable[..., Any],
    arguments: Mapping[str, Any],
    path: Path,
    written: Callable[[SymbolicCall], Sequence[int]],
) -> Recorder:
    """Run host code once with fake tensors, and record its launches.

    Args:
        arguments: Arguments of the host code by name: symbolic sizes or plain numbers.
        path: Decides and records comparisons of sizes.
        written: Returns the indices of the arguments that a launch's kernel writes to.

    Raises:
        NotModelledError: Host code does something that is not modelled.
    """
    function = getattr(run, "func", run)
    scopes = module_scopes(function)
    builtins = BuiltinReplacements(scopes)
    recorder = Recorder(written, builtins)
    replaced = replaced_functions(recorder.launch, recorder.assumptions, scopes)
    with on_path(path), builtins.present(), replaced:
        run(**arguments)
    return recorder
