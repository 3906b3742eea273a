"""Scripts that compile the variants of a run ahead of time, with Triton alone.

The script calls `kernel.warmup` once per variant, with values that Triton specialises like those of
the run: 16 for an integer that is divisible by 16, 2 for one that is neither 1 nor divisible by 16,
and an object with a type and an address for a tensor.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttools.core.compilation.compilation_causes import launch_keywords
from ttools.core.compilation.compilation_log import LoggedCompilation
from ttools.core.compilation.kernel_source import KernelSource, kernel_within
from ttools.core.gpus.targets import Target
from ttools.core.triton_versions import jit_function_class

_TORCH_TYPES = {
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp64": "float64",
    "fp8e4nv": "float8_e4m3fn",
    "fp8e4b8": "float8_e4m3fnuz",
    "fp8e5": "float8_e5m2",
    "fp8e5b16": "float8_e5m2fnuz",
    "i1": "bool",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
#: For types of large integers only, the smallest integer for which Triton uses the type.
_SMALLEST = {"i64": "1 << 32", "u64": "1 << 63"}
_DESCRIPTOR = re.compile(r"tensordesc<(\w+)\[([\d, ]+)\]>")
_PLAIN = (bool, int, str, type(None))


class _UnwritableError(Exception):
    """A variant cannot be written as code; the message gives the reason."""


@dataclass(frozen=True, kw_only=True)
class WarmUpScript:
    """A script that compiles variants.

    Attributes:
        text: The script as Python source.
        variants: Number of variants that the script compiles.
        left_out: For each variant that is left out, a sentence with the reason.
    """

    text: str
    variants: int
    left_out: tuple[str, ...]


def warm_up_script(compilations: Sequence[LoggedCompilation], target: Target) -> WarmUpScript:
    """Return a script that compiles all variants of a run.

    Args:
        compilations: The compilations of the run.
        target: The GPU for which the script compiles if the machine has none.
    """
    loaded: dict[str, str] = {}
    calls: dict[str, list[str]] = {}
    left_out: dict[str, None] = {}
    for entry in compilations:
        if entry.failed:
            continue
        try:
            if not entry.key:
                raise _UnwritableError("TorchInductor compiles and caches its kernels itself")
            kernel, expression = _loaded(entry.source.function)
            call = _call(entry, kernel)
        except _UnwritableError as error:
            left_out[f"`{entry.source.name}`: {error}"] = None
            continue
        loaded[kernel] = expression
        if call not in calls.setdefault(kernel, []):
            calls[kernel].append(call)
    body = []
    for kernel, lines in calls.items():
        body += [f"    {kernel} = {loaded[kernel]}", *(f"    {line}" for line in lines), ""]
    variants = sum(map(len, calls.values()))
    gpu = target.gpu_target()
    text = _TEMPLATE.format(
        target=target.name,
        gpu_target=f"GPUTarget({gpu.backend!r}, {gpu.arch!r}, {gpu.warp_size})",
        body="\n".join(body).rstrip() or "    pass",
        variants=variants,
        left_out="".join(f"\n# Not compiled: {sentence}." for sentence in left_out),
    )
    return WarmUpScript(text=text.rstrip() + "\n", variants=variants, left_out=tuple(left_out))


# ---- kernels


def _loaded(function: Any) -> tuple[str, str]:
    """Return a variable for a kernel, and the expression that loads the kernel.

    Raises:
        _UnwritableError: The kernel cannot be reached by a name at the top level of a file.
    """
    scope = function.fn.__globals__
    file, module = scope.get("__file__"), str(scope.get("__name__"))
    name = _name_in(scope, function)
    if not isinstance(file, str) or not Path(file).is_file():
        raise _UnwritableError("its source is in no file")
    if name is None:
        raise _UnwritableError("no name at the top level of its file leads to it")
    variable = re.sub(r"\W", "_", name)
    root = _import_root(file, module)
    if root is None:
        return variable, f"from_script({str(Path(file).resolve())!r}, {name!r})"
    return variable, f"from_module({module!r}, {name!r}, {str(root)!r})"


def _name_in(scope: dict[str, Any], function: Any) -> str | None:
    """Return the module-level name of a jit function, or of the decorators around it."""
    for name, value in list(scope.items()):
        if kernel_within(value) is function:
            return name
    parts = function.fn.__qualname__.split(".")
    value = scope.get(parts[0])
    for part in parts[1:]:
        value = getattr(value, part, None)
    return ".".join(parts) if len(parts) > 1 and kernel_within(value) is function else None


def _import_root(file: str, module: str) -> Path | None:
    """Return the folder from which a module is imported; None if its name does not fit its file."""
    path = Path(file).resolve()
    parts = path.with_suffix("").parts
    names = module.split(".")
    if path.name == "__init__.py":
        names.append("__init__")
    if module == "__main__" or parts[-len(names) :] != tuple(names):
        return None
    return path.parents[len(names) - 1]


# ---- variants


def _call(entry: LoggedCompilation, kernel: str) -> str:
    """Return the call of `warmup` for a variant.

    Raises:
        _UnwritableError: The value of a parameter cannot be written.
    """
    source = entry.source
    arguments = [
        f"{name}={_argument(source, name, (index,), kind)}"
        for index, (name, kind) in enumerate(source.signature.items())
    ]
    keywords = launch_keywords(entry)
    arguments += [f"{name}={_constant(value)}" for name, value in keywords.items()]
    return f"yield {kernel}, dict({', '.join(arguments)})"


def _argument(source: KernelSource, name: str, path: tuple[int, ...], kind: Any) -> str:
    if path in source.constants:
        return _constant(source.constants[path])
    if type(kind) in (tuple, list):
        parts = [_argument(source, name, (*path, n), inner) for n, inner in enumerate(kind)]
        return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
    if not isinstance(kind, str):
        raise _UnwritableError(f"`{name}` is a tuple with names, which is not supported")
    hints = [hint for hint, _ in source.hints.get(path, ())]
    aligned = "tt.divisibility" in hints
    if kind.startswith("*"):
        return _tensor(kind.removeprefix("*").removeprefix("k"), aligned)
    if match := _DESCRIPTOR.fullmatch(kind):
        return f"descriptor({_torch_type(match[1])}, [{match[2]}])"
    if kind in ("u1", "i1"):
        return "True"
    if kind.startswith(("fp", "bf")):
        return "0.5"
    if re.fullmatch(r"[iu]\d+", kind):
        if kind in _SMALLEST:
            return _SMALLEST[kind] if aligned else f"({_SMALLEST[kind]}) + 1"
        return "16" if aligned else "2"
    raise _UnwritableError(f"arguments of type {kind} (`{name}`) are not supported")


def _tensor(dtype: str, aligned: bool) -> str:
    return f"Tensor({_torch_type(dtype)}{'' if aligned else ', address=8'})"


def _torch_type(dtype: str) -> str:
    if dtype not in _TORCH_TYPES:
        raise _UnwritableError(f"torch has no type for {dtype}")
    return f"torch.{_TORCH_TYPES[dtype]}"


def _constant(value: Any) -> str:
    """Return a constant as Python code.

    Raises:
        _UnwritableError: Its type has no literal.
    """
    if type(value) in _PLAIN:
        return repr(value)
    if type(value) is float:
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if type(value) in (tuple, list):
        parts = ", ".join(map(_constant, value))
        return f"[{parts}]" if type(value) is list else f"({parts}{',' * (len(value) == 1)})"
    for write in (_language_constant, _torch_constant, _function):
        text = write(value)
        if text is not None:
            return text
    raise _UnwritableError(f"a constant has the type {type(value).__name__}, which has no literal")


def _language_constant(value: Any) -> str | None:
    import triton.language as tl

    if isinstance(value, tl.constexpr):
        return _constant(value.value)
    return f"tl.dtype({value.name!r})" if type(value) is tl.dtype else None


def _torch_constant(value: Any) -> str | None:
    import torch

    return repr(value) if isinstance(value, torch.dtype) else None


def _function(value: Any) -> str | None:
    return _loaded(value)[1] if isinstance(value, jit_function_class()) else None


_TEMPLATE = '''\
"""Compiles the variants of Triton kernels that a program needs, before it needs them.

It was written by `ttools inspect --specialisations --warmup-file`, and needs only Triton and torch.

    python FILE                compiles for the GPU of this machine
    python FILE --without-gpu  compiles for {target}; no GPU is needed

The compiled kernels are stored in Triton's cache on disk. To compile them in the process that
launches them, call `main()` there.
"""

import ast
import importlib
import sys
import time
import types
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction, MockTensor
from triton.tools.tensor_descriptor import TensorDescriptor

TARGET = {gpu_target}
_modules = {{}}


def variants():
    """Yield the kernel and the arguments of each variant."""
{body}


class Tensor(MockTensor):
    """A tensor without data. Triton specialises kernels for its type and its address."""

    def __init__(self, dtype, address=0):
        super().__init__(dtype)
        self.data_ptr = lambda: address


def descriptor(dtype, block):
    """Return a descriptor of a tensor without data."""
    strides = [1 << 16] * (len(block) - 1) + [1]
    return TensorDescriptor(Tensor(dtype), list(block), strides, list(block))


def from_module(module, name, folder):
    """Return a kernel of a module, without the decorators around it."""
    if folder not in sys.path:
        sys.path.append(folder)
    return _kernel(importlib.import_module(module), name)


def from_script(file, name):
    """Return a kernel of a script. Only the statements on which it depends are executed."""
    first = name.partition(".")[0]
    if (file, first) not in _modules:
        folder = str(Path(file).parent)
        if folder not in sys.path:
            sys.path.append(folder)
        tree = ast.parse(Path(file).read_bytes(), file)
        tree.body = _statements(tree.body, first)
        module = types.ModuleType(f"warm_up_{{len(_modules)}}_{{Path(file).stem}}")
        module.__file__ = file
        sys.modules[module.__name__] = module
        exec(compile(tree, file, "exec", dont_inherit=True), vars(module))
        _modules[file, first] = module
    return _kernel(_modules[file, first], name)


def _statements(body, name):
    """Return the statements that define a name and everything to which they refer."""
    needed, size = {{name}}, 0
    while len(needed) > size:
        size = len(needed)
        for statement in body:
            if _bound(statement) & needed:
                needed |= {{n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}}
    return [s for s in body if _bound(s) & needed or "*" in _bound(s)]


def _bound(statement):
    """Return the names that a statement defines."""
    if isinstance(statement, ast.If) and "__name__" in ast.dump(statement.test):
        return set()  # what a script does if it is started
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {{statement.name}}
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            if getattr(node, "module", None) == "__future__":
                names.add("*")
            names |= {{(alias.asname or alias.name).partition(".")[0] for alias in node.names}}
    return names


def _kernel(module, name):
    value = module
    for part in name.split("."):
        value = getattr(value, part)
    while not isinstance(value, JITFunction):  # an autotuner or heuristics
        value = value.fn
    return value


class _NoGpu:
    """Tells Triton for which GPU to compile; nothing is launched."""

    def get_current_target(self):
        return TARGET

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0


def main():
    """Compile all variants."""
    start, count = time.perf_counter(), 0
    for kernel, arguments in variants():
        kernel.warmup(grid=(1,), **arguments)
        count += 1
    print(f"compiled {{count}} variants in {{time.perf_counter() - start:.1f}} s")


if __name__ == "__main__":
    if "--without-gpu" in sys.argv[1:]:
        triton.runtime.driver.set_active(_NoGpu())
    main()
{left_out}'''
