"""Assumptions that a user declares about the integers in a tensor: `--assume "index=0:n-1"`.

A contract applies to all launches of kernels that have a parameter with its name. It states one or
more of the following: each element of the tensor is within two bounds, which are formulas over
sizes; no two elements are equal; the elements never decrease. Without a contract, a loaded integer
may have any value of its type.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ttools.core.errors import UsageError
from ttools.ir.expr import Expr, Symbol, array_functions, as_expr, evaluate
from ttools.prove.host.launches import Memory, SymbolicCall
from ttools.prove.host.tensors import INDEX

#: Maximum number of characters of a bound that an error message quotes.
_MOST = 60
#: Maximum number of elements of a table for the table to be compared with an assumption.
_MOST_CHECKED = 1 << 20
#: An assumption: the smallest and largest value, words of `WORDS`, or both.
Promise = tuple[int | str, ...]
#: Assumptions other than bounds, with the phrases that reports use for them.
WORDS = {"distinct": "are all different", "sorted": "never decrease"}
_FORM = (
    "must be PARAMETER=LOW:HIGH[,distinct][,sorted], such as `index=0:n-1`; with `distinct` or "
    "`sorted`, the bounds may be omitted"
)


@dataclass(frozen=True)
class TableContents:
    """A summary of the integers in one table, or in several tables of equal launches.

    Attributes:
        distinct: True if no two integers of one table are equal.
        ascending: True if the integers of each table never decrease.
    """

    least: int
    greatest: int
    distinct: bool
    ascending: bool

    def and_then(self, other: TableContents) -> TableContents:
        """Return the summary of both tables together."""
        return TableContents(
            min(self.least, other.least),
            max(self.greatest, other.greatest),
            self.distinct and other.distinct,
            self.ascending and other.ascending,
        )

    def breach(self, bounds: tuple[int, int] | None, words: Set[str]) -> str | None:
        """Return a phrase that says how the contents breach an assumption; None if they do not."""
        if bounds is not None and self.least < bounds[0]:
            return f"contains {self.least:,}, which is below {bounds[0]:,}"
        if bounds is not None and self.greatest > bounds[1]:
            return f"contains {self.greatest:,}, which is above {bounds[1]:,}"
        if "distinct" in words and not self.distinct:
            return "contains equal numbers"
        if "sorted" in words and not self.ascending:
            return "contains a number that is smaller than the one before it"
        return None


def table_contents(numbers: Any) -> TableContents | None:
    """Return the summary of an array of integers; None if the array is empty."""
    flat = np.asarray(numbers).reshape(-1)
    if not flat.size:
        return None
    distinct = np.unique(flat).size == flat.size
    ascending = bool((flat[1:] >= flat[:-1]).all())
    return TableContents(int(flat.min()), int(flat.max()), distinct, ascending)


@dataclass(frozen=True)
class Contract:
    """An assumption about the values of the tensors that are passed as one parameter.

    Attributes:
        bounds: Smallest and largest value; None if there are no bounds.
        words: Words of `WORDS` that apply.
        text: The assumption as the user wrote it.
    """

    parameter: str
    bounds: tuple[Expr, Expr] | None
    words: frozenset[str]
    text: str

    def __str__(self) -> str:
        bounds = [] if self.bounds is None else [self.text.split(",")[0].replace(":", " to ")]
        parts = [f"are from {bound}" for bound in bounds]
        parts += [said for word, said in WORDS.items() if word in self.words]
        return f"the numbers in `{self.parameter}` {', '.join(parts)}"

    def check(self, contents: TableContents, sizes: Mapping[Symbol, int], where: str) -> None:
        """Compare the assumption with the contents of a table at one size.

        Raises:
            UsageError: The table contradicts the assumption.
        """
        low_high = None
        if self.bounds is not None:
            low_high = evaluate(self.bounds[0], sizes), evaluate(self.bounds[1], sizes)
        breach = contents.breach(low_high, self.words)
        if breach is not None:
            raise UsageError(
                f"--assume {self.parameter}={self.text}: the tensor passed to {where} {breach}"
            )

    def check_content(self, launch: SymbolicCall, sizes: Mapping[Symbol, int]) -> None:
        """Compare the assumption with the elements that host code is known to put into the tensor.

        Raises:
            UsageError: The contents contradict the assumption.
        """
        memory = dict(zip(launch.names, launch.arguments, strict=True))[self.parameter]
        assert isinstance(memory, Memory)
        shape = [evaluate(extent, sizes) for extent in memory.shape]
        if memory.content is None or not 0 < math.prod(shape) <= _MOST_CHECKED:
            return
        at = np.array(evaluate(memory.offset, sizes))
        for extent, stride in zip(shape, memory.strides, strict=True):
            at = at[..., None] + np.arange(extent) * evaluate(stride, sizes)
        content = evaluate(memory.content, {**sizes, INDEX: at}, array_functions())
        contents = table_contents(np.broadcast_to(content, at.shape))
        assert contents is not None
        self.check(contents, sizes, f"`{launch.kernel}` ({launch.line})")

    def holds_for(self, launch: SymbolicCall) -> bool:
        """Return whether a launch passes a tensor of integers as this parameter."""
        passed = dict(zip(launch.names, launch.arguments, strict=True)).get(self.parameter)
        return isinstance(passed, Memory) and not passed.dtype.is_floating_point

    def put(self, launch: SymbolicCall) -> SymbolicCall:
        """Return the launch with the assumption added to its argument.

        Raises:
            UsageError: A tensor with several axes is assumed to be sorted.
        """
        arguments = tuple(
            self._on(argument)
            if name == self.parameter and isinstance(argument, Memory)
            else argument
            for name, argument in zip(launch.names, launch.arguments, strict=True)
        )
        return replace(launch, arguments=arguments)

    def _on(self, memory: Memory) -> Memory:
        ascending = "sorted" in self.words
        if ascending and len(memory.shape) != 1:
            raise UsageError(
                f"--assume {self.parameter}={self.text}: the tensor passed has {len(memory.shape)} "
                "axes; `sorted` requires a tensor with one axis"
            )
        distinct = "distinct" in self.words
        return replace(memory, within=self.bounds, distinct=distinct, ascending=ascending)


def contracts(assumed: Mapping[str, Promise], sizes: Mapping[str, Symbol]) -> list[Contract]:
    """Return contracts for assumptions.

    Args:
        assumed: Assumptions by parameter. Bounds are numbers and sizes, and sums, differences and
            products of these.
        sizes: Symbols of the sizes by name.

    Raises:
        UsageError: A bound is not such a formula.
    """
    result = []
    for name, promise in assumed.items():
        ends, words = parted(name, promise)
        bounds = None
        if ends is not None:
            bounds = _bound(name, ends[0], sizes), _bound(name, ends[1], sizes)
        result.append(Contract(name, bounds, words, promise_text(promise)))
    return result


def parted(name: str, promise: Promise) -> tuple[tuple[str, str] | None, frozenset[str]]:
    """Split an assumption into its bounds (None if it has none) and its keywords.

    Raises:
        UsageError: The assumption is malformed.
    """
    parts = [str(part) for part in promise]
    count = 0 if parts and all(part in WORDS for part in parts) else 2
    bounds, words = parts[:count], parts[count:]
    if len(bounds) < count or not parts:
        raise UsageError(f"--assume for `{name}`: {_FORM}")
    if any(word not in WORDS for word in words) or len(set(words)) < len(words):
        raise UsageError(
            f"--assume {name}={promise_text(promise)}: the bounds may only be followed by "
            "`,distinct` and `,sorted`, each at most once"
        )
    return (bounds[0], bounds[1]) if bounds else None, frozenset(words)


def promise_text(promise: Promise) -> str:
    """Return an assumption in the notation of the command line."""
    parts = [str(part) for part in promise]
    if len(parts) > 1 and not all(part in WORDS for part in parts):
        parts[:2] = [f"{parts[0]}:{parts[1]}"]
    return ",".join(parts)


def read_assumed(texts: Iterable[str]) -> dict[str, Promise]:
    """Read assumptions from the command line: `index=0:n-1`.

    Raises:
        UsageError: A text is malformed, or a parameter has two assumptions.
    """
    promises: dict[str, Promise] = {}
    for text in texts:
        name, _, rest = text.partition("=")
        parts = [part.strip() for part in rest.split(",")]
        if parts[0] not in WORDS:
            low, colon, high = parts[0].partition(":")
            if not (colon and low.strip() and high.strip()):
                raise UsageError(f"--assume {text!r}: {_FORM}")
            parts[:1] = [low.strip(), high.strip()]
        if not name.strip().isidentifier():
            raise UsageError(f"--assume {text!r}: {_FORM}")
        if name.strip() in promises:
            raise UsageError(
                f"--assume {text!r}: `{name.strip()}` already has an assumption; "
                "state both in one option"
            )
        promises[name.strip()] = tuple(parts)
    return promises


def _bound(parameter: str, text: str, sizes: Mapping[str, Symbol]) -> Expr:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about odd literals, which are rejected below
            tree = ast.parse(text, mode="eval")
        return _expr(tree.body, sizes)
    # Parsing a deeply nested formula raises a RecursionError or a MemoryError.
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error if type(error) is ValueError else "not a valid formula"
        shown = text if len(text) <= _MOST else f"{text[:_MOST]}…"
        raise UsageError(f"--assume for `{parameter}`: `{shown}`: {reason}") from None


def _expr(node: ast.expr, sizes: Mapping[str, Symbol]) -> Expr:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return as_expr(value)
        case ast.Name() | ast.Subscript():  # a size may be called `x_ptr.shape[0]`
            name = ast.unparse(node)
            if name not in sizes:
                raise ValueError(f"{name} is not one of the sizes {', '.join(sizes)}")
            return as_expr(sizes[name])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_expr(operand, sizes)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _expr(left, sizes) + _expr(right, sizes)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _expr(left, sizes) - _expr(right, sizes)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _expr(left, sizes) * _expr(right, sizes)
    raise ValueError("must consist of integers, sizes, +, - and *")
