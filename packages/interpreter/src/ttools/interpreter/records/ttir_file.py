"""Runs the kernel of a `.ttir` file, with arguments given as text.

The file is parsed and transformed by Triton's own parser and passes. The kernel's parameters have
the names that they have in the file. Arguments are checked against the types of the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttools.core.errors import UnsupportedError, UsageError, during
from ttools.core.spec import CompileOptions
from ttools.core.triton_versions import load_ttir, read_foreign_ttir, run_ttir_passes
from ttools.interpreter.abi.arguments import ArgumentPlan
from ttools.interpreter.frontend.triton_passes import kernel_name, names_kernel
from ttools.interpreter.records.argument_text import make_array, make_scalar
from ttools.interpreter.records.time_limit import DEFAULT_TIMEOUT, make_limited_launch
from ttools.interpreter.run.interpretation import selecting_run
from ttools.interpreter.run.kernel_launch import ExecutableKernel, KernelLaunch
from ttools.interpreter.run.variants import Variants
from ttools.ir import FloatType, IntegerType, Module, PointerType, Type
from ttools.ir.parser import parse_foreign
from ttools.ir.type_names import type_in_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_TRITON_FLOATS = {"f16": "fp16", "f32": "fp32", "f64": "fp64"}


@dataclass(frozen=True)
class Parameter:
    """A parameter of the file's kernel.

    Attributes:
        name: Name in the file, without `%`.
        element: MLIR text of the type, or of a pointer's pointee.
        is_pointer: True if the argument is a tensor.
        divisor: The divisor of the value that the file declares (`tt.divisibility`).
    """

    name: str
    element: str
    is_pointer: bool
    divisor: int

    @property
    def triton_type(self) -> str:
        """The type of the parameter as Triton's signatures write it."""
        name = _TRITON_FLOATS.get(self.element, self.element)
        return f"*{name}" if self.is_pointer else name

    def __str__(self) -> str:
        kind = "tensor of " if self.is_pointer else ""
        return f"`{self.name}` ({kind}{self.element})"


class _HostArray:
    """A NumPy array as a pointer argument."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def storage_extent(self) -> tuple[int, int]:
        start = self.data_ptr()
        return start, start + self.array.nbytes


def run_ttir_file(
    path: str | Path,
    grid: Sequence[int],
    arguments: Mapping[str, str],
    timeout: float = DEFAULT_TIMEOUT,
) -> dict[str, Array]:
    """Launch the kernel of a file once.

    Args:
        path: Path of the `.ttir` file.
        grid: One to three extents.
        arguments: A string for each parameter: a number or, for a tensor, a description that
            `argument_text.make_array` accepts.
        timeout: Seconds after which the launch is stopped, unless the active run has a time limit;
            0 for no limit.

    Returns:
        The contents of the tensor arguments after the launch, by name, in the order of the
        parameters.

    Raises:
        UsageError: The file cannot be read or is not TTIR; an argument is missing or unknown, has
            another type, or cannot be parsed.
        KernelError: The launch has exceeded the time limit (kind `timeout`).
        UnsupportedError: The kernel uses an unsupported feature.
    """
    path = Path(path)
    text, raw = _read(path)
    name = str(raw.kernel.attributes["sym_name"])
    parameters = _parameters(raw)
    _check_names(path, parameters, arguments)
    values = [_value(parameter, arguments[parameter.name]) for parameter in parameters]

    run = selecting_run(name)
    plan = ArgumentPlan([p.name for p in parameters], [p.triton_type for p in parameters])
    variants = Variants(name, text)
    plan.check(variants.parameters)
    options = CompileOptions(debug=True)
    kernel = ExecutableKernel(name=name, plan=plan, variants=variants, options=options)
    with during(f"running kernel `{name}` of {path} with grid {tuple(grid)}"):
        make_limited_launch(KernelLaunch(kernel, grid, values, run), timeout)
    return {
        p.name: v.array
        for p, v in zip(parameters, values, strict=True)
        if isinstance(v, _HostArray)
    }


def _read(path: Path) -> tuple[str, Module]:
    """Return the text of the module after Triton's passes, and the module before them."""
    source = read_foreign_ttir(path)
    module = load_ttir(path)
    if not names_kernel(source):
        source = str(module)  # it is written in the generic form
    with during(f"reading {path}"):
        kernel_name(source)
        # The parameters are read from this module, because Triton's passes remove their names.
        raw = parse_foreign(source, str(path))
    run_ttir_passes(module)
    return str(module), raw


def _parameters(module: Module) -> list[Parameter]:
    kernel = module.kernel
    attributes = kernel.attributes["arg_attrs"]
    assert isinstance(attributes, tuple)
    parameters = []
    for index, value in enumerate(kernel.regions[0].entry.arguments):
        hints = attributes[index] if index < len(attributes) else None
        divisor = hints.get("tt.divisibility", 1) if isinstance(hints, dict) else 1
        is_pointer = isinstance(value.type, PointerType)
        element = _element(value.type, value.name)
        divisor = divisor if isinstance(divisor, int) else 1
        parameters.append(Parameter(value.name, element, is_pointer, divisor))
    return parameters


def _element(type: Type, name: str) -> str:
    element = type.pointee if isinstance(type, PointerType) else type
    if not isinstance(element, (IntegerType, FloatType)):
        raise UnsupportedError(
            f"parameter `{name}` of type {type_in_words(type)} in a .ttir file",
            help="only numbers and pointers to numbers can be arguments of a .ttir file; launch "
            "the kernel from Python instead",
        )
    return str(element)


def _check_names(path: Path, parameters: list[Parameter], given: Mapping[str, str]) -> None:
    names = [p.name for p in parameters]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise UsageError(
            f"{path}: the kernel has no parameter `{unknown[0]}`; it has "
            f"{', '.join(map(str, parameters)) or 'none'}"
        )
    missing = [p for p in parameters if p.name not in given]
    if missing:
        raise UsageError(
            f"{path}: no argument is given for {', '.join(map(str, missing))}; write, for example, "
            f"{_example(missing[0])}"
        )


def _example(parameter: Parameter) -> str:
    if parameter.is_pointer:
        return f"{parameter.name}=rand:{parameter.element}[1024]"
    return f"{parameter.name}=1"


def _value(parameter: Parameter, text: str) -> Any:
    name, element = parameter.name, parameter.element
    if parameter.is_pointer:
        return _HostArray(make_array(text, name, element))
    number = make_scalar(text, name, element)
    if isinstance(number, int) and number % parameter.divisor:
        raise UsageError(
            f"argument `{name}`: {number} is not divisible by {parameter.divisor}; the kernel in "
            "the file is specialised for values that are (tt.divisibility)"
        )
    return number
