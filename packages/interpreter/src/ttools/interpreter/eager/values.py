"""The values that a kernel's Python code uses while it runs eagerly.

Their classes are subclasses of Triton's. Operators and methods use the semantic layer of the
current session, and `bool`, `str` and iteration depend on the contents of a tensor. The semantic
layer itself requires Triton's plain tensors, because it tests whether a mask is present by
`if mask`, which must not depend on the contents. Therefore `lower` converts values to plain ones
before a call of the semantic layer, and `lift` converts the results back.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from triton import language as tl
from triton.language import core

from ttools.core.errors import UnsupportedError, UsageError
from ttools.core.triton_versions import (
    compilation_error,
    is_type_mismatch,
    jit_function_class,
)
from ttools.interpreter.eager.debugging import frames
from ttools.interpreter.eager.debugging.prompt import looking_at_elements
from ttools.interpreter.eager.elements import Handle, element
from ttools.interpreter.eager.groups import same_for_all
from ttools.interpreter.eager.session import current
from ttools.interpreter.run.device_copies import has_device_memory

_OPERATORS = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"),
    *("lshift", "rshift"),
)
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def _of_value(function: Callable[[Any], Any]) -> Any:
    return lambda self: function(self.value)


class EagerConstexpr(tl.constexpr):  # type: ignore[misc]
    """A `tl.constexpr` whose operators also accept a tensor as the other operand."""

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the value that the constant contains, as the compiler does."""
        if name.startswith("__") or name == "value":
            raise AttributeError(name)
        return lift(getattr(self.value, name))

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the constant, which may be a jit function."""
        return current().language.wrap(self.value)(*arguments, **named)

    __hash__, __int__ = _of_value(hash), _of_value(int)
    __float__, __len__ = _of_value(float), _of_value(len)


def _constant_operator(name: str, *, reflected: bool = False) -> Callable[..., Any]:
    method = f"__{name}__"

    def operate(self: EagerConstexpr, other: Any) -> Any:
        if isinstance(other, tl.tensor):
            return NotImplemented
        left, right = self.value, getattr(other, "value", other)
        if reflected:
            left, right = right, left
        result = getattr(left, method)(right)
        if result is NotImplemented:
            result = getattr(right, f"__{_REFLECTED.get(name, 'r' + name)}__")(left)
        return NotImplemented if result is NotImplemented else EagerConstexpr(result)

    return operate


_REFLECTED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}

for _name in (*_OPERATORS, *_COMPARISONS):
    setattr(EagerConstexpr, f"__{_name}__", _constant_operator(_name))
for _name in _OPERATORS:
    setattr(EagerConstexpr, f"__r{_name}__", _constant_operator(_name, reflected=True))
for _name in ("neg", "pos", "invert"):
    _unary = getattr(tl.constexpr, f"__{_name}__")
    setattr(EagerConstexpr, f"__{_name}__", lambda self, f=_unary: EagerConstexpr(f(self)))


# ---- tensors


@lru_cache(maxsize=256)
def _extents(shape: tuple[int, ...]) -> tuple[Any, EagerConstexpr]:
    """Return the attributes `shape` and `numel` of a tensor, which are never changed."""
    return tl.tuple([EagerConstexpr(n) for n in shape]), EagerConstexpr(math.prod(shape))


class EagerTensor(tl.tensor):  # type: ignore[misc]
    """A tensor that contains its elements and whose operators compute immediately."""

    #: The plain tensor with the same handle, once a function of the semantic layer has needed it.
    _plain: Any = None

    def __init__(self, handle: Any, type: Any) -> None:
        super().__init__(handle, type)
        shape = tuple(int(extent) for extent in type.shape) if type.is_block() else ()
        self.shape, self.numel = _extents(shape)

    @staticmethod
    def of(plain: Any) -> EagerTensor:
        """Return a tensor that copies a plain one's attributes, which is faster than `__init__`."""
        tensor: EagerTensor = object.__new__(EagerTensor)
        tensor.__dict__.update(vars(plain))
        tensor.shape, tensor.numel = _extents(tuple(extent.value for extent in plain.shape))
        tensor._plain = plain
        return tensor

    def plain(self) -> Any:
        """Return Triton's own tensor with the same handle."""
        if self._plain is None or self._plain.handle is not self.handle:
            self._plain = tl.tensor(self.handle, self.type)
        return self._plain

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the elements as an array; the elements of a tensor of pointers are addresses."""
        data = self.handle.data
        scalar = self.type.scalar
        if scalar.is_int() and not scalar.is_bool() and scalar.is_int_unsigned():
            return np.asarray(data).view(f"u{data.dtype.itemsize}")
        return np.asarray(data)

    def item(self) -> Any:
        """Return the only element, as a Python number."""
        return self.numpy().reshape(()).item()

    @property
    def T(self) -> Any:
        return lift(current().semantic.permute(lower(self), (1, 0)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.numpy(), dtype=dtype)

    def _scalar(self, what: str) -> Any:
        if not isinstance(self.handle, Handle):
            raise UndecidedError(what)
        if self.handle.is_grouped and math.prod(self.handle.shape) == 1:
            return same_for_all(self.handle.data)
        if self.handle.data.size != 1:
            raise UndecidedError(what)
        return self.handle.data.reshape(()).item()

    def __bool__(self) -> bool:
        truth = bool(self._scalar("bool()"))
        if self.handle.shadow is not None:
            current().semantic.builder.report("branch", (self.handle,), None)
        return truth

    def __int__(self) -> int:
        return int(self._scalar("int()"))

    def __float__(self) -> float:
        return float(self._scalar("float()"))

    def __index__(self) -> int:
        return int(self._scalar("int()"))

    def __iter__(self) -> Any:
        raise TypeError(f"a tensor cannot be iterated over: {self.type}")

    __hash__ = object.__hash__

    def __str__(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        return text_of(self)

    def __format__(self, spec: str) -> str:
        if spec and isinstance(self.handle, Handle) and not self.type.is_block():
            return format(self.item(), spec)
        return str(self)


class UndecidedError(UnsupportedError):
    """Python code needs a single number, as in `if x > 0`, but the tensor is a block."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} of a block of values",
            frames.location(),
            help="reduce it to a scalar, or select elementwise with tl.where",
        )


def _member(name: str, function: Any) -> Callable[..., Any]:
    """Return a method that calls a builtin method of Triton with the current semantic layer."""

    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        session = current()
        return called(function, session.semantic, (self, *arguments), named)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = function.__doc__
    return method


def called(function: Any, semantic: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Call a builtin of the language.

    Raises:
        CompilationError: The compiler would reject the call, too; this is Triton's own exception.
    """
    lowered = [lower(argument) for argument in arguments]
    keywords = {key: lower(value) for key, value in named.items()}
    try:
        return lift(function(*lowered, _semantic=semantic, **extra(function), **keywords))
    except UsageError:
        raise  # raised by a user function that the builtin calls, as `tl.reduce` does
    except (TypeError, ValueError, AssertionError, IndexError, NotImplementedError) as error:
        raise compilation_error(frames.location(), error) from error
    except Exception as error:
        if is_type_mismatch(error):
            raise compilation_error(frames.location(), error) from error
        raise


class _Generator:
    """Replacement of Triton's code generator, which reductions of `tl` call."""

    def call_JitFunction(  # noqa: N802 - Triton's name
        self, function: Any, arguments: Any, kwargs: Any = None, **_: Any
    ) -> Any:
        eager_function = current().language.wrap(function)
        result = eager_function(*(lift(a) for a in arguments), **(kwargs or {}))
        return lower(result)


GENERATOR = _Generator()


def extra(function: Any) -> dict[str, Any]:
    """Return the arguments that a builtin needs in addition to the semantic layer."""
    signature = getattr(function, "signature", None) or getattr(function, "__signature__", None)
    takes = signature is not None and "_generator" in signature.parameters
    return {"_generator": GENERATOR} if takes else {}


def _jit_member(name: str, function: Any) -> Callable[..., Any]:
    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        return current().language.wrap(function)(self, *arguments, **named)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = function.__doc__
    return method


def _bind_members(target: type, source: type) -> None:
    """Add methods to `target` that call the builtin and jit methods of a class of Triton."""
    jit = jit_function_class()
    for cls in reversed(source.__mro__):
        for name, value in vars(cls).items():
            if getattr(value, "__triton_builtin__", False):
                setattr(target, name, _member(name, value))
            elif isinstance(value, jit):
                setattr(target, name, _jit_member(name, value))


_bind_members(EagerTensor, tl.tensor)


setattr(EagerTensor, "__getitem__", looking_at_elements(EagerTensor.__getitem__))  # noqa: B010


_bound: dict[type, type] = {}
_plain: dict[type, type] = {}


def bound_class(cls: type) -> type:
    """Return a subclass whose builtin and jit methods use the current semantic layer."""
    bound_type = _bound.get(cls)
    if bound_type is None:
        bound_type = _bound[cls] = type(cls.__name__, (cls,), {"__module__": cls.__module__})
        _plain[bound_type] = cls
        _bind_members(bound_type, cls)
    return bound_type


# ---- conversion for calls of the semantic layer

#: The compiler treats values of these types as constants everywhere.
_CONSTANTS = frozenset((bool, int, float, str, type(None)))


def lower(value: Any) -> Any:
    """Convert a value of the kernel's code to one that the semantic layer accepts."""
    kind = type(value)
    if kind is EagerTensor:
        return value.plain()
    if kind in _CONSTANTS:
        return tl.constexpr(value)
    if kind in (tuple, list):
        return kind(lower(item) for item in value)
    if isinstance(value, tl.tuple):
        return tl.tuple([lower(item) for item in value.values], value.type)
    if isinstance(value, tuple):  # a named tuple
        return kind(*(lower(item) for item in value))
    if kind in _plain:
        plain: Any = object.__new__(_plain[kind])
        plain.__dict__.update({name: lower(item) for name, item in vars(value).items()})
        return plain
    if hasattr(value, "data_ptr"):
        return lower(pointer_to(value))
    return value


def lift(value: Any) -> Any:
    """Convert a value of the semantic layer to one for the kernel's code."""
    kind = type(value)
    if kind is tl.tensor:
        return None if value.type == tl.void else EagerTensor.of(value)
    if kind is tl.constexpr:
        return EagerConstexpr(value.value)
    if kind in (tuple, list):
        return kind(lift(item) for item in value)
    if kind is tl.tuple:
        return tl.tuple([lift(item) for item in value.values], value.type)
    if isinstance(value, core.tensor_descriptor_base) and kind not in _plain:
        bound: Any = object.__new__(bound_class(kind))
        bound.__dict__.update({name: lift(item) for name, item in vars(value).items()})
        return bound
    return value


def scalar(value: Any, type: Any) -> EagerTensor:
    """Return a scalar tensor of a type of Triton's language."""
    from ttools.interpreter.eager.numpy_ops import constant

    text = str(type.to_ir(current().semantic.builder))
    return EagerTensor(constant(text, value), type)


def pointer_to(tensor: Any) -> EagerTensor:
    """Return a pointer to the first element of a tensor that was created outside the kernel."""
    from ttools.core.triton_versions import argument_type, language_type

    device = getattr(tensor, "device", None)
    if has_device_memory() and getattr(device, "type", "cpu") != "cpu":
        raise UsageError(
            f"an eager program on the CPU cannot access a tensor on {device}; use tensor.cpu()"
        )
    type_ = language_type(argument_type(tensor))
    session = current()
    name = session.memory.name_of(tensor, frames.variable_of(tensor))
    text = str(type_.to_ir(session.semantic.builder))
    handle = Handle(np.asarray(tensor.data_ptr(), np.int64), element(text), name)
    return EagerTensor(handle, type_)


def tensor_of(value: Any) -> Any:
    """Return the value that a variable holds after an assignment: numbers become tensors."""
    if isinstance(value, tl.constexpr):
        value = value.value
    if isinstance(value, (builtins.bool, builtins.int, builtins.float)):
        return lift(current().semantic.to_tensor(value))
    if type(value) is tuple:
        return tuple(tensor_of(item) for item in value)
    if isinstance(value, tl.tuple):
        return tuple_of([tensor_of(item) for item in value.values], value.type.fields)
    return value


def unwrapped(value: Any) -> Any:
    """Return the value that a constant contains; return any other object unchanged."""
    return value.value if isinstance(value, tl.constexpr) else value


def tuple_of(items: list[Any], fields: Sequence[str] | None) -> Any:
    """Return a tuple of values, as a `tl.tuple` if all of them are values of Triton's language.

    Args:
        fields: Names of the fields, if it is a named tuple.
    """
    if not all(hasattr(item, "type") for item in items):
        return tuple(items)
    return tl.tuple(items, tl.tuple_type([item.type for item in items], fields))


def constant_of(value: Any) -> Any:
    """Return the value that a jit function receives for an argument; objects become constants."""
    if isinstance(value, (core.base_value, tuple)):
        return lift(value) if isinstance(value, tl.constexpr) else value
    return EagerConstexpr(value)


# ---- text


def text_of(tensor: EagerTensor) -> str:
    """Return a tensor as text: its type, and its elements as NumPy formats them."""
    shape = [int(extent) for extent in tensor.shape]
    head = f"{tensor.type.scalar}{shape}" if shape else f"{tensor.type.scalar}"
    if not isinstance(tensor.handle, Handle):
        return f"<{head}>"
    if tensor.handle.element.is_pointer:
        return f"{head} {_pointer_text(tensor.handle)}"
    data = tensor.numpy()
    if data.dtype.kind not in "biuf":
        data = data.astype(np.float32)
    if not shape:
        return f"{head} {data.item()}"
    return f"{head} {np.array2string(data, threshold=64, edgeitems=4)}"


def _pointer_text(handle: Handle) -> str:
    memory = current().memory
    if not handle.data.shape:
        return memory.describe(int(handle.data), handle.origin)
    low = memory.storage_named(handle.origin)
    if low is None:
        shown = np.vectorize(hex, otypes=[object])(handle.data)
        return str(np.array2string(shown, threshold=64, edgeitems=4))
    offsets = (handle.data - low.first) // low.item
    return f"{low.name} + {np.array2string(offsets, threshold=64, edgeitems=4)}"
