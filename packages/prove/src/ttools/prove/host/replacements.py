"""Replacements of built-in types, and of functions of torch and Triton, while host code runs.

Host code runs with symbolic sizes and fake tensors, which C code cannot handle. `range` and `int`
would need the value of a size. torch's C functions would read memory that a fake tensor does not
have, before they call `__torch_function__`. Functions with a gradient (`autograd.Function`) and
custom operators call the user's Python functions through C code, so their replacements call the
user's functions directly. Backward passes do not run.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import BuiltinFunctionType, ModuleType
from typing import Any

import torch
import triton
from torch._library.custom_ops import CustomOpDef

from ttools.core.launch_path import CALL, TUNED, take_over
from ttools.core.ownership import Owner, owner_of_module
from ttools.core.patches import Patches
from ttools.prove.host.factories import factory_replacements, has_fake
from ttools.prove.host.symbolic_numbers import SymbolicFloat, SymbolicInt, cdiv, next_power
from ttools.prove.host.tensors import call_function

#: Packages whose Python code does not belong to the user.
_OTHERS: frozenset[Owner] = frozenset(("ttools", "torch", "triton"))
_Apply = Callable[..., Any]


# ---- built-in types
class _ReplacementType(type):
    """The metaclass of replacements of built-in types; each compares equal to its built-in type."""

    original: type

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.original)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.original)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.original

    def __hash__(cls) -> int:
        return hash(cls.original)


class _Range(metaclass=_ReplacementType):
    """A `range` that compares the value with its end before each iteration.

    If no argument is symbolic, the result is an ordinary `range`.
    """

    original = range

    def __new__(cls, *ends: Any) -> Any:
        if not any(type(end) is SymbolicInt for end in ends):
            return range(*ends)
        return super().__new__(cls)

    def __init__(self, *ends: Any) -> None:
        start, stop, step = (0, *ends, 1) if len(ends) == 1 else (*ends, 1)[:3]
        if step == 0:
            raise ValueError("range() arg 3 must not be zero")
        self._start, self._stop, self._step = start, stop, step

    def __iter__(self) -> Iterator[Any]:
        value, up = self._start, self._step > 0
        while value < self._stop if up else value > self._stop:
            yield value
            value = value + self._step

    def __len__(self) -> int:
        up = self._step > 0
        span = self._stop - self._start if up else self._start - self._stop
        return int(cdiv(span, abs(self._step))) if span > 0 else 0


class _Int(metaclass=_ReplacementType):
    """An `int` that returns symbolic integers unchanged, and truncates symbolic floats."""

    original = int

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        (value, *others) = args or (0,)
        if not others and type(value) is SymbolicInt:
            return value
        if not others and isinstance(value, SymbolicFloat):
            return value.__trunc__()
        return int(*args, **kwargs)


class BuiltinReplacements:
    """Replacements of built-in types, which are added to the globals of modules.

    Code in these modules then uses the replacements instead of Python's own types. They are removed
    while Triton compiles, because kernels use the same names.

    Args:
        scopes: Globals of modules; names that a module defines itself are not replaced.
    """

    def __init__(self, scopes: Iterable[dict[str, Any]]) -> None:
        own = {t.original.__name__: t for t in (_Range, _Int)}
        self._names = [
            (scope, {name: t for name, t in own.items() if name not in scope}) for scope in scopes
        ]

    def _put(self) -> None:
        for scope, types in self._names:
            scope.update(types)

    def _remove(self) -> None:
        for scope, types in self._names:
            for name in types:
                scope.pop(name, None)

    @contextmanager
    def present(self) -> Iterator[None]:
        """Add the replacements to the globals inside the `with` block."""
        self._put()
        try:
            yield
        finally:
            self._remove()

    @contextmanager
    def absent(self) -> Iterator[None]:
        """Remove the replacements from the globals inside the `with` block."""
        self._remove()
        try:
            yield
        finally:
            self._put()


# ---- functions of torch and Triton
@contextmanager
def replaced_functions(
    launch: Callable[..., None], assumptions: list[str], scopes: Sequence[dict[str, Any]]
) -> Iterator[None]:
    """Replace functions of torch and Triton, including where user modules have imported them.

    Args:
        launch: Called instead of each launch, with the kernel, its positional arguments and its
            keyword arguments.
        assumptions: Receives a sentence for each autotuned kernel.
        scopes: Globals of the user's modules.
    """

    def call(_original: Any) -> Any:
        def run(self: Any, *args: Any, **kwargs: Any) -> None:
            launch(self, args, kwargs)

        return run

    def tuned(_original: Any) -> Any:
        def run(self: Any, *args: Any, **kwargs: Any) -> None:
            config = self.configs[0]
            if len(self.configs) > 1:
                assumptions.append(
                    f"only the first of the {len(self.configs)} configurations of "
                    f"`{self.base_fn.__name__}` is checked: {config}"
                )
            self.fn.run(*args, **{**kwargs, **config.all_kwargs()}, _config=dict(config.kwargs))

        return run

    new, guarded = factory_replacements(), _guards()
    by_id = {
        id(f): guard
        for _, own, others in guarded
        for f, guard in zip(own.values(), others.values(), strict=True)
    }
    by_id |= {id(getattr(torch, name)): function for name, function in new.items()}
    changed = [
        (scope, {n: v for n, v in tuple(scope.items()) if id(v) in by_id}) for scope in scopes
    ]
    power = triton.next_power_of_2
    plain = power.fn
    with Patches() as patches:
        for namespace, own, others in guarded:
            patches.callback(functools.partial(namespace.update, own))
            namespace.update(others)
        for name, function in new.items():
            patches.replace(torch, name, function)
        # Only the function inside the object is replaced, because kernels refer to the object, too.
        patches.replace(
            power, "fn", lambda n: next_power(n) if type(n) is SymbolicInt else plain(n)
        )
        patches.wrap(torch.autograd.Function, "apply", _applied)
        patches.wrap(CustomOpDef, "__call__", _called)
        take_over(patches, CALL, call)
        take_over(patches, TUNED, tuned)
        for scope, own in changed:
            scope.update({n: by_id[id(v)] for n, v in own.items()})
        try:
            yield
        finally:
            for scope, own in changed:
                scope.update(own)


def _guards() -> list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Return some namespaces of torch, each with its C functions and their replacements."""
    guards = []
    for module in (torch, torch.nn.functional, torch.special, torch.linalg, torch.fft):
        scope = vars(module)
        own = {
            name: value
            for name, value in scope.items()
            if type(value) is BuiltinFunctionType
            and not name.startswith(("_", "has_torch_function"))
        }
        guards.append((scope, own, {name: _guarded(value) for name, value in own.items()}))
    return guards


def _guarded(function: Any) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if has_fake(args) or has_fake(kwargs.values()):
            return call_function(function, args, kwargs)
        return function(*args, **kwargs)

    return call


class _Context:
    """The context object that `forward` receives; it stores nothing, as no backward pass runs."""

    def __init__(self, count: int) -> None:
        self.needs_input_grad = (False,) * count

    def save_for_backward(self, *_: Any) -> None:
        """Ignore the tensors."""

    save_for_forward = mark_dirty = mark_non_differentiable = save_for_backward
    set_materialize_grads = save_for_backward


def _applied(original: Any) -> Any:
    base = torch.autograd.Function.setup_context

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if not has_fake((*args, *kwargs.values())):
            return original.__func__(cls, *args, **kwargs)
        context = _Context(len(args))
        if cls.setup_context is base:
            return cls.forward(context, *args, **kwargs)
        bound = inspect.signature(cls.forward).bind(*args, **kwargs)
        bound.apply_defaults()
        result = cls.forward(*bound.args, **bound.kwargs)
        cls.setup_context(context, bound.args, result)
        return result

    return classmethod(apply)


def _called(original: _Apply) -> _Apply:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_ours = has_fake((*args, *kwargs.values()))
        return self._init_fn(*args, **kwargs) if is_ours else original(self, *args, **kwargs)

    return call


# ---- the user's modules
def module_scopes(function: Any) -> list[dict[str, Any]]:
    """Return the globals of a function, of modules in the same folder, and of related modules.

    A related module imports Triton, and is referred to by a name in the function's module or in
    another related module, either directly or through a module that only re-exports names.
    Searching all modules of the process instead would be slow, as there may be thousands.
    """
    own = getattr(function, "__globals__", {})
    folder = _folder_of(own)
    followed_scopes: dict[int, dict[str, Any]] = {}
    visited: set[tuple[int, bool]] = set()
    scopes = [getattr(module, "__dict__", {}) for module in tuple(sys.modules.values())]
    pending = [(own, True), *((scope, False) for scope in scopes if _folder_of(scope) == folder)]
    while pending:
        scope, named = pending.pop()
        followed = scope is own or _is_followed(scope, folder)
        if (id(scope), named) in visited or not (followed or named):
            continue
        visited.add((id(scope), named))
        if followed:
            followed_scopes[id(scope)] = scope
        for name in {_module_of(value) for value in tuple(scope.values())}:
            module = sys.modules.get(name)
            if module is not None and owner_of_module(module) not in _OTHERS:
                pending.append((vars(module), followed))
    return list(followed_scopes.values())


def _module_of(value: Any) -> str:
    """Return the name of a module, or the name of the module that defines a value or its class."""
    if isinstance(value, ModuleType):
        return value.__name__
    try:
        name = value.__module__
    except Exception:  # noqa: BLE001 - reading an attribute of a user's object may raise anything
        return ""
    return name if isinstance(name, str) else ""


def _folder_of(scope: Mapping[str, Any]) -> str:
    return str(scope.get("__file__", "")).rpartition("/")[0]


def _is_followed(scope: Mapping[str, Any], folder: str) -> bool:
    """Return whether a module is in a folder or imports Triton."""
    if not isinstance(scope.get("__file__"), str):
        return False
    return scope.get("triton") is triton or _folder_of(scope) == folder
