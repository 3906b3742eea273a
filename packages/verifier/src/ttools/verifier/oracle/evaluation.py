"""Evaluates the reference in its own types and in double precision, and measures its spread.

The spread of an element is the largest of three measures. Each measure is divided by a relative
error, so that the spread times the relative error of a type is a tolerance:

- The change of the result in double precision when each input is perturbed by a rounding error of
  its type. Any sound algorithm may lose this much, for sums of any length and problems of any
  condition number. For example, if x is 1000.5 and y is 1000.0, then x - y is 0.5 and has a spread
  of the order of 1000.
- The error of the reference itself in f32, such as that of `exp(x) - 1` near 0.
- The effect of rounding errors inside the reference on gradients, and on elements that are small
  beside the largest one, or zero, perhaps because terms cancel (see `rounding`). For example, 0 in
  `x + 1000 - 1000` has a spread of the order of 1000, but 0 in `2 * x` has none.

The spread of an integer is its largest change when inputs are perturbed.

Where results are discontinuous because two arguments are equal, there is no spread: decisions about
values that were not computed use the original values (see `decisions`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from ttools.core.errors import UsageError
from ttools.verifier.cases.tensors import image_of, is_constant, map_tensors
from ttools.verifier.oracle.comparison import OF_LARGEST, RELATIVE
from ttools.verifier.oracle.decisions import Decisions
from ttools.verifier.oracle.precision import (
    InPrecision,
    in_double,
    is_perturbed,
    least_precise,
    real_type,
)
from ttools.verifier.oracle.rounding import Rounding
from ttools.verifier.replay.moves import MovedValues
from ttools.verifier.replay.work import TELLING
from ttools.verifier.workers import results
from ttools.verifier.workers.operators import watched
from ttools.verifier.workers.recording import PlanRecorder

#: Number of runs with perturbed inputs, number of comparisons of f32 with f64, and number of runs
#: with rounding errors inside the reference.
PROBES, _LOSS_PROBES, _ROUNDING_PROBES = 6, 3, 3
#: The error in f32 is measured at points within this relative distance of the arguments. At a
#: smaller distance, values near one would be rounded in the same way as at the arguments
#: themselves.
_NEAR = 2.0**-6
#: Factor by which the error of a kernel may exceed that of the reference in f32.
_SLACK_OF_LOSS = 48.0
#: Factor by which the change of an index may exceed the largest change that was observed, if torch
#: does not define the order of equal elements.
_SLACK_OF_ORDER = 4.0
#: Relative size of a perturbation, by type.
_STEP = {
    torch.float64: 2.0**-40,
    torch.float32: 2.0**-18,
    torch.float16: 2.0**-12,
    torch.bfloat16: 2.0**-9,
}

#: A function that returns the parts of a result for given arguments, with their names.
_Parts = Callable[..., list[tuple[str, Any]]]


def evaluate(
    function: Callable[..., Any],
    arguments: dict[str, Any],
    inplace: list[str],
    shared: tuple[str, str] | None = None,
    backward: results.BackwardPass = results.WHOLE,
) -> dict[str, Any]:
    """Return the parts of a reference's results, and their spreads.

    The answer also contains the `operators` that the reference uses, the `work`, which is the
    number of floats that these operators compute, and the number of `operations`, both in total and
    for each part (see `PlanRecorder.work_of`), and the `sources` of each part: the arguments on
    which it depends. `plain_gradients` are the names of the gradients that are only upstream
    gradients multiplied by elements of arguments or by a constant.

    Args:
        function: Function of the reference.
        arguments: Arguments of the call, which are not changed.
        inplace: Arguments whose values after the call are also results.
        shared: Two arguments that are one tensor: the second is the first.
        backward: Backward pass that computes the gradients.
    """
    passes = backward.passes
    backward = replace(backward, passes="once")
    parts: _Parts = partial(_parts, function, inplace, backward)

    def mapped(change: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, Any]:
        changed: dict[str, Any] = map_tensors(change, arguments, torch.Tensor)
        if shared is not None:
            changed[shared[1]] = changed[shared[0]]
        return changed

    tensors = [
        part
        for value in arguments.values()
        for _, part in results.flat(value)
        if isinstance(part, torch.Tensor)
    ]
    if passes == "twice":
        # The gradients of the second pass are those of the first one if there is a second pass.
        _parts(function, inplace, replace(backward, passes="twice"), mapped(_copied))
    given_arguments = mapped(_copied)
    observed = PlanRecorder(results.tensors_of(given_arguments), is_on_host=False)
    with watched(observed):
        plain = parts(given_arguments)
    owners = results.owners_of(given_arguments)
    works = [
        observed.work_of(part) if isinstance(part, torch.Tensor) else (0, 0) for _, part in plain
    ]
    answer: dict[str, Any] = {
        "given": [results.described(name, part, owners) for name, part in plain],
        "operators": list(observed.work.counts),
        "work": observed.work.floats,
        "work_of_parts": [floats for floats, _ in works],
        "operations": observed.operations,
        "operations_of_parts": [operations for _, operations in works],
        "plain_gradients": _plain_gradients(function, arguments),
        "sources": [
            sorted(observed.sources_of(part)) if isinstance(part, torch.Tensor) else []
            for _, part in plain
        ],
    }
    results.share(answer["given"], plain)
    least = least_precise(tensors)
    if not any(map(is_perturbed, tensors)):
        answer["double"] = None
        return answer
    try:
        with InPrecision(least):
            exact = parts(mapped(in_double))
    except UsageError:
        raise  # raised by ttools, which runs the reference's own kernels
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        # The reference works only with its own types, so there is no result in double precision.
        exact = None
    if exact is None or [_shape(part) for _, part in exact] != [_shape(e) for _, e in plain]:
        answer["double"] = None
        return answer
    answer["double"] = [_sent(part) for _, part in exact]
    spread = _spread(parts, mapped, plain, exact, least)
    lost = _lost(parts, mapped, plain, least)
    rounded = _rounded(parts, mapped, exact, least, _cancelling(exact, spread))
    combined = [
        _larger(_larger(*pair), more) for *pair, more in zip(spread, lost, rounded, strict=True)
    ]
    answer["spread"] = list(map(_sent, combined))
    return answer


def _plain_gradients(function: Callable[..., Any], arguments: dict[str, Any]) -> list[str]:
    """Return the names of the gradients that are only products with an upstream gradient.

    For such a gradient, the derivative of a result is constant or consists of elements of
    arguments, as for `(x * w).sum(1)` with respect to `x`. A kernel that provides such a derivative
    computes nothing. The derivatives are taken at random arguments, because the derivatives of most
    functions are constant for some special values.
    """
    if not any(tensor.requires_grad for _, tensor in results.tensors_of(arguments)):
        return []
    generator = torch.Generator().manual_seed(24)

    def drawn(tensor: torch.Tensor) -> torch.Tensor:
        if not is_perturbed(tensor):
            return _copied(tensor)
        values = torch.randn(tensor.shape, generator=generator, device="cpu")
        return values.to(tensor).requires_grad_(tensor.requires_grad)

    other = map_tensors(drawn, arguments, torch.Tensor)
    values = MovedValues()
    for number, (_, tensor) in enumerate(results.tensors_of(other)):
        values.argument(number, tensor)
    derivatives: dict[str, list[torch.Tensor]] = {}
    try:
        for name, derivative in results.derivatives(function(**other), other):
            derivatives.setdefault(name, []).append(derivative)
    except Exception:  # noqa: BLE001 - the user's code, which may reject these values
        return []
    return [name for name, own in derivatives.items() if all(_is_plain(one, values) for one in own)]


def _is_plain(derivative: torch.Tensor, values: MovedValues) -> bool:
    """Return whether a derivative is constant, or consists of elements of arguments."""
    if derivative.numel() < TELLING or not bool(derivative.isfinite().all()):
        return False
    is_moved = values.contains(derivative) or values.contains(-derivative)
    return is_moved or is_constant(derivative)


def _spread(
    parts: _Parts,
    mapped: Callable[[Callable[[torch.Tensor], torch.Tensor]], dict[str, Any]],
    given: list[tuple[str, Any]],
    exact: list[tuple[str, Any]],
    least: torch.dtype,
) -> list[torch.Tensor | None]:
    """Return the root mean square of the changes divided by the relative step, for each part.

    For integers, the largest change is returned.

    A discontinuous result changes by as much with a small step as with a large one. A kernel that
    computes in f32 may decide differently because of its rounding errors, for arguments of any
    type. Therefore, if there are decisions about computed values, the inputs are also perturbed by
    a step of f32. Integers are only perturbed by this step, unless the reference's own decisions
    show that it computes in a less precise type.
    """
    moves = partial(_moves, parts, mapped, exact, least)
    spreads, jumps = moves(_STEP[least])
    if jumps and _STEP[least] > _STEP[torch.float32]:
        finer, _ = moves(_STEP[torch.float32])
        spreads = [
            fine if _explains(one, two, fine) else _larger(coarse, fine)
            for (_, one), (_, two), coarse, fine in zip(given, exact, spreads, finer, strict=True)
        ]
    return spreads


def _explains(given: Any, exact: Any, moved: torch.Tensor | None) -> bool:
    """Return whether integers of the reference differ from exact ones only where they may move."""
    if moved is None or _is_float(given) or _is_float(exact):
        return False
    return not bool(((given != exact) & (moved == 0)).any())


def _larger(one: torch.Tensor | None, other: torch.Tensor | None) -> torch.Tensor | None:
    if one is None or other is None:
        return other if one is None else one
    return torch.maximum(one, other)


def _lost(
    parts: _Parts,
    mapped: Callable[[Callable[[torch.Tensor], torch.Tensor]], dict[str, Any]],
    given: list[tuple[str, Any]],
    least: torch.dtype,
) -> list[torch.Tensor | None]:
    """Return the error of the reference in f32 as a spread, for parts that are floats.

    The results in f32 and f64 are compared near the arguments, because the error exactly at the
    arguments may be small by coincidence.
    """
    squares: list[torch.Tensor | None] = [None] * len(given)
    if least == torch.float64:
        return squares
    generator = torch.Generator().manual_seed(21)

    def near(tensor: torch.Tensor) -> torch.Tensor:
        moved = in_double(tensor)
        if is_perturbed(tensor):
            noise = torch.rand(tensor.shape, generator=generator, dtype=torch.float64, device="cpu")
            with torch.no_grad():
                moved *= 1 + _NEAR * (2 * noise - 1)
        return in_double(moved, torch.float32)

    for _ in range(_LOSS_PROBES):
        state = generator.get_state()
        try:
            with InPrecision(least, torch.float32):
                single = parts(mapped(near))
            generator.set_state(state)
            with InPrecision(least):
                double = parts(mapped(lambda tensor: in_double(near(tensor))))
        except Exception:  # noqa: BLE001 - the user's code, which may reject these values
            return squares
        for index, (_, part) in enumerate(given):
            one, other = single[index][1], double[index][1]
            if _is_float(part) and _shape(part) == _shape(one) == _shape(other):
                loss = _change(one, other).nan_to_num(0.0, 0.0, 0.0)
                unit = _SLACK_OF_LOSS / RELATIVE.get(real_type(part.dtype), 1.0)
                square, total = (loss * unit) ** 2 / _LOSS_PROBES, squares[index]
                squares[index] = square if total is None else total + square
    return [None if total is None else total.sqrt() for total in squares]


def _cancelling(
    exact: list[tuple[str, Any]], spread: list[torch.Tensor | None]
) -> list[torch.Tensor | None]:
    """Return which elements may consist of terms that cancel: in gradients all, else small ones."""
    marks: list[torch.Tensor | None] = []
    for (name, part), moved in zip(exact, spread, strict=True):
        if not _is_float(part) or moved is None:
            marks.append(None)
            continue
        size = _change(part, torch.zeros_like(part))
        largest = torch.where(size.isfinite(), size, 0.0).max() if size.numel() else 0.0
        small = torch.maximum(size, moved) <= OF_LARGEST * largest
        marks.append(small | name.startswith(results.GRADIENT))
    return marks


def _rounded(
    parts: _Parts,
    mapped: Callable[[Callable[[torch.Tensor], torch.Tensor]], dict[str, Any]],
    exact: list[tuple[str, Any]],
    least: torch.dtype,
    concerned: list[torch.Tensor | None],
) -> list[torch.Tensor | None]:
    """Return the spread that rounding errors inside the reference cause, for some elements.

    Args:
        parts: Returns the parts of the reference's result.
        mapped: Returns the arguments after a change.
        exact: The parts in double precision.
        least: Least precise type among the arguments.
        concerned: For each part, which elements are concerned; all others have a spread of zero.
    """
    squares: list[torch.Tensor | None] = [None] * len(exact)
    if not any(marks is not None and bool(marks.any()) for marks in concerned):
        return squares
    generator = torch.Generator().manual_seed(22)
    step = _STEP[torch.float32]
    for _ in range(_ROUNDING_PROBES):
        with InPrecision(least), Rounding(step, generator):
            rounded = parts(mapped(in_double))
        for index, marks in enumerate(concerned):
            one, other = exact[index][1], rounded[index][1]
            if marks is not None and _shape(one) == _shape(other):
                change = _change(one, other).nan_to_num(0.0)
                square, total = (change / step) ** 2 / _ROUNDING_PROBES * marks, squares[index]
                squares[index] = square if total is None else total + square
    return [None if total is None else total.sqrt() for total in squares]


def _moves(
    parts: _Parts,
    mapped: Callable[[Callable[[torch.Tensor], torch.Tensor]], dict[str, Any]],
    exact: list[tuple[str, Any]],
    least: torch.dtype,
    step: float,
) -> tuple[list[torch.Tensor | None], bool]:
    """Return the spread that steps of this size cause, and whether decisions used computed values.

    Decisions about computed values are discontinuities of the result; see `decisions`.
    """
    #: Sums of squares for floats, and largest changes for integers.
    sums: list[torch.Tensor | None] = [None] * len(exact)
    generator = torch.Generator().manual_seed(20)
    order = torch.Generator().manual_seed(23)

    def perturbed(tensor: torch.Tensor) -> torch.Tensor:
        moved = in_double(tensor)
        if not is_perturbed(tensor):
            decisions.follow(moved, moved)
            return moved
        decisions.follow(moved, in_double(tensor))
        sign = torch.randint(0, 2, tensor.shape, generator=generator, device="cpu").double() * 2 - 1
        size = 0.5 + torch.rand(
            tensor.shape, generator=generator, dtype=torch.float64, device="cpu"
        )
        with torch.no_grad():
            moved *= 1 + direction * step * sign * size
        return moved

    direction, probes, runs, jumps = 1, 0, 0, False
    while probes < PROBES:
        decisions = Decisions(order)
        state = generator.get_state()
        moved_arguments = mapped(perturbed)
        with InPrecision(least), decisions:
            moved = parts(moved_arguments, perturbed)
        for index, ((_, one), (_, other)) in enumerate(zip(exact, moved, strict=True)):
            if isinstance(one, torch.Tensor) and _shape(one) == _shape(other):
                change = _change(one, other).nan_to_num(0.0)
                total = sums[index]
                if _is_float(one):
                    square = (change / step) ** 2
                    sums[index] = square if total is None else total + square
                else:
                    change = change * (_SLACK_OF_ORDER if decisions.are_shuffled else 1.0)
                    sums[index] = _larger(change, total)
        runs += 1
        jumps |= decisions.are_of_computed
        if direction == 1 and decisions.are_of_computed:
            # A computed value may lie exactly where a decision changes, such as a quotient of 0.5
            # that is rounded. Several random steps may all move it to the same side, but of two
            # opposite steps, one moves it to the other side.
            generator.set_state(state)
            direction = -1
        else:
            direction, probes = 1, probes + 1
    spreads = [
        (total / runs).sqrt() if total is not None and _is_float(part) else total
        for (_, part), total in zip(exact, sums, strict=True)
    ]
    return spreads, jumps


def _parts(
    function: Callable[..., Any],
    inplace: list[str],
    backward: results.BackwardPass,
    arguments: dict[str, Any],
    perturbed: Callable[[torch.Tensor], torch.Tensor] = lambda weights: weights,
) -> list[tuple[str, Any]]:
    """Return the results of a function, their gradients, and arguments that it may change."""
    result = function(**arguments)
    # The weights of gradients are arguments of the backward pass, so they are perturbed, too.
    weights = [perturbed(tensor) for _, tensor in results.weights_of(result, backward)]
    parts = [*results.flat(result), *results.gradients(result, arguments, weights, backward)]
    after = [
        (f"{name} after the call", part)
        for key in inplace
        if key in arguments
        for name, part in results.flat(arguments[key], key)
        if isinstance(part, torch.Tensor)
    ]
    return [*parts, *after]


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    copy = tensor.detach().clone()
    return copy.requires_grad_() if tensor.requires_grad else copy


def _change(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the absolute values of the differences of two tensors."""
    wide = torch.complex128 if one.is_complex() or other.is_complex() else torch.float64
    return (other.detach().to(wide) - one.detach().to(wide)).abs()


def _is_float(value: Any) -> bool:
    """Return whether a value is a tensor of floats or of complex numbers."""
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _shape(value: Any) -> object:
    return tuple(value.shape) if isinstance(value, torch.Tensor) else type(value)


def _sent(value: Any) -> Any:
    return image_of(value) if isinstance(value, torch.Tensor) else None
