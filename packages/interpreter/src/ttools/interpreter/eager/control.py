"""The functions that rewritten kernel code calls (see `functions`) in place of Python's statements.

They behave as the compiler defines the statements. The rewritten code finds this module in the
kernel's globals, under the name `frames.MARK`. Variables must keep their types in loops that are
not unrolled, and such loops cannot contain `return`; the error messages are those of the compiler
(`CodeGenerator._verify_loop_carried_variable`). Unlike the compiler, which also checks loops
without iterations and branches that are not taken, the eager engine only checks the code that it
executes.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from triton import language as tl
from triton.language import core

from ttools.core.errors import KernelError, UnsupportedError
from ttools.core.triton_versions import compilation_error, static_assertion_failure
from ttools.interpreter.eager.debugging import frames
from ttools.interpreter.eager.observation import observer
from ttools.interpreter.eager.session import current
from ttools.interpreter.eager.values import (
    EagerConstexpr,
    EagerTensor,
    lift,
    lower,
    scalar,
    tensor_of,
    unwrapped,
)


def carrying(iterations: Iterable[Any], *names: str) -> Iterator[Any]:
    """Yield the iterations of a loop, and check that variables keep their types.

    Args:
        names: Variables that the body assigns and that were assigned before the loop.

    Raises:
        CompilationError: A variable has a different type at the end of an iteration.
    """
    frame = sys._getframe(1)
    variables = frame.f_locals
    before = {
        name: variables[name] for name in names if isinstance(variables.get(name), core.base_value)
    }
    for counter in iterations:
        yield counter
        now = frame.f_locals
        for name, old in before.items():
            wrong = None if now.get(name) is old else _difference(name, old, now.get(name))
            if wrong is not None and frames.is_kernel_frame(frame):
                raise compilation_error(frames.location(), AssertionError(wrong))


def _difference(name: str, old: Any, new: Any) -> str | None:
    if isinstance(old, EagerConstexpr) or isinstance(new, EagerConstexpr):
        return f"cannot reassign constexpr {name} in the loop"
    if type(old) is not type(new):
        return f"Loop carried variable {name} changed type, was {type(new)} but is now {type(old)}"
    if isinstance(old, EagerTensor) and old.type != new.type:
        return (
            f"Loop-carried variable {name} has initial type {old.type} but is re-assigned to "
            f"{new.type} in loop! Please make sure that the type stays consistent."
        )
    return None


def refuse_return() -> None:
    """Reject a `return` inside a loop.

    Raises:
        CompilationError: The function always raises it.
    """
    raise compilation_error(
        frames.location(),
        TypeError("Cannot have `return` statements inside `while` or `for` statements in triton."),
    )


__all__ = ["carrying", "observer", "refuse_return", "tensor_of"]


def annotated(annotation: Any, value: Any) -> Any:
    """Return the value that a variable has after an assignment with an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, tl.constexpr):
        return value if isinstance(value, core.base_value) else EagerConstexpr(value)
    return tensor_of(value)


# ---- logic


def is_dynamic(value: Any) -> bool:
    """Return whether the truth of a value is only known at run time."""
    return isinstance(value, tl.tensor)


def _logical(name: str, left: EagerTensor, right: Any) -> Any:
    if not is_dynamic(right):
        # As in the compiler, a constant either determines the result or is ignored.
        decides = bool(right) is (name == "logical_or")
        return right if decides else left
    return getattr(left, name)(right)


def logical_and(left: EagerTensor, right: Any) -> Any:
    """Return `left and right`, elementwise."""
    return _logical("logical_and", left, right)


def logical_or(left: EagerTensor, right: Any) -> Any:
    """Return `left or right`, elementwise."""
    return _logical("logical_or", left, right)


def not_(value: Any) -> Any:
    """Return `not value`, elementwise."""
    if is_dynamic(value):
        return lift(current().semantic.not_(lower(value)))
    return EagerConstexpr(not value)


def is_(left: Any, right: Any) -> Any:
    """Return `left is right`, where a constexpr counts as the value that it contains."""
    return EagerConstexpr(unwrapped(left) is unwrapped(right))


def is_not(left: Any, right: Any) -> Any:
    """Return `left is not right`, where a constexpr counts as the value that it contains."""
    return EagerConstexpr(unwrapped(left) is not unwrapped(right))


# ---- statements


def assert_(condition: Any, message: Any) -> None:
    """Execute `assert` as a device assertion."""
    core.device_assert(lower(condition), lower(message), _semantic=current().semantic)


def device_print(prefix: Any, *values: Any, **named: Any) -> None:
    """Execute a `print` whose first argument is a string, as `tl.device_print`."""
    core.device_print(prefix, *map(lower, values), _semantic=current().semantic, **named)


# ---- loops, and functions of the language that have no operation


def loop_range(*bounds: Any, **hints: Any) -> Iterator[EagerTensor]:
    """Iterate as `range` and `tl.range` do, over tensors of the type that the compiler uses.

    The loop behaves as the `scf.for` that Triton generates. Bounds and step are converted to this
    type and always compared as signed numbers, and the loop counts upwards. Triton reverses a loop
    whose step is a negative constant. If a negative step is only known at run time, the loop is
    not reversed, so it counts away from its end.
    """
    keyword_bounds = [bound for name in ("arg1", "arg2") if (bound := hints.get(name)) is not None]
    bounds = (*bounds, *keyword_bounds)
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    step = step if hints.get("step") is None else hints["step"]
    semantic = current().semantic
    values = [semantic.to_tensor(lower(bound)) for bound in (start, stop, step)]
    for value in values:
        if not value.dtype.is_int() or value.type.is_block():
            raise UnsupportedError(
                f"a loop over {value.type}",
                frames.location(),
                help="the bounds and the step must be integer scalars",
            )
    type = semantic.integer_promote_impl(values[0].dtype, values[1].dtype)
    type = semantic.integer_promote_impl(type, values[2].dtype)
    downwards = not is_dynamic(step) and operator.index(lift(values[2])) < 0
    first, last, by = (_signed(operator.index(lift(value)), type) for value in values)
    if downwards:
        first, last, by = last, first, -by
    if by == 0 and first < last:
        raise KernelError(f"a loop with step 0 in {current().place}", frames.location())
    session = current()
    around, value = session.iteration, first
    try:
        while value < last:
            session.iteration = object()
            yield scalar(_signed(last - value + first, type) if downwards else value, type)
            value = _signed(value + by, type)
    finally:
        session.iteration = around


def _signed(number: int, type: Any) -> int:
    """Return the signed number with the same bits as an integer of a type."""
    bits: int = type.primitive_bitwidth
    return (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def static_range(*bounds: Any, **named: Any) -> Iterator[EagerConstexpr]:
    """Iterate as `tl.static_range` does, over constants."""
    keyword_bounds = [named[name] for name in ("arg1", "arg2") if named.get(name) is not None]
    numbers = [int(bound) for bound in (*bounds, *keyword_bounds)]
    if named.get("step") is not None:
        numbers = [*([0, *numbers] if len(numbers) == 1 else numbers), int(named["step"])]
    for value in range(*numbers):
        yield EagerConstexpr(value)


def static_assert(condition: Any, message: Any = "") -> None:
    """Execute `tl.static_assert`, with the error of the compiler."""
    if not condition:
        raise static_assertion_failure(frames.location(), str(unwrapped(message)))


_said: set[tuple[object, ...]] = set()


def static_print(*values: Any, **named: Any) -> None:
    """Execute `tl.static_print`, which prints its arguments once and not for each program."""
    constants = [unwrapped(value) for value in values]
    key = (str(frames.location()), *map(str, constants))
    if key not in _said:
        _said.add(key)
        print(*constants, **{name: unwrapped(v) for name, v in named.items()})  # noqa: T201
