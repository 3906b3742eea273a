"""What a user promises of the integers that a table holds: `--assume "index=0:n-1"`.

A contract is about a parameter of kernels, for all launches that have it: each element of the
tensor passed is within two bounds, which are computed from sizes. What is loaded there is then no
longer anything that its type can hold. Owns how contracts are written; nobody checks that they are
kept.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ttools.core.errors import UsageError
from ttools.sanitizer.sizes.algebra.polynomials import Poly, Symbol, as_poly
from ttools.sanitizer.sizes.host.launches import Launch, Memory

#: Characters of a bound that an error repeats.
_MOST = 60
#: What users promise: least and greatest value, and `"distinct"` where no two are equal.
Promise = tuple[int | str, ...]


@dataclass(frozen=True)
class Contract:
    """A promise about the values of the tensors passed as one parameter.

    Attributes:
        parameter: of kernels.
        low: the least value.
        high: the greatest.
        distinct: whether no two are equal.
        text: the promise as it was written.
    """

    parameter: str
    low: Poly
    high: Poly
    distinct: bool
    text: str

    def __str__(self) -> str:
        low, high = self.text.removesuffix(",distinct").split(":")
        differ = ", no two of it equal" if self.distinct else ""
        return f"what `{self.parameter}` holds is from {low} to {high}{differ}"

    def holds_for(self, launch: Launch) -> bool:
        """Whether a launch has such a parameter, of integers in memory."""
        passed = dict(zip(launch.names, launch.arguments, strict=True)).get(self.parameter)
        return isinstance(passed, Memory) and not passed.dtype.is_floating_point

    def put(self, launch: Launch) -> Launch:
        """The launch with what is promised."""
        arguments = tuple(
            replace(argument, within=(self.low, self.high), distinct=self.distinct)
            if name == self.parameter and isinstance(argument, Memory)
            else argument
            for name, argument in zip(launch.names, launch.arguments, strict=True)
        )
        return replace(launch, arguments=arguments)


def contracts(assumed: Mapping[str, Promise], sizes: Mapping[str, Symbol]) -> list[Contract]:
    """Contracts from their bounds.

    Args:
        assumed: least and greatest value by parameter: numbers and sizes, their sums, differences
            and products; and `"distinct"`.
        sizes: the symbol of each.

    Raises:
        UsageError: a bound is something else.
    """
    found = []
    for name, (low, high, *more) in assumed.items():
        text = ",".join([f"{low}:{high}", *map(str, more)])
        if more not in ([], ["distinct"]):
            raise UsageError(f"--assume {name}={text}: after the bounds may be only `,distinct`")
        least, greatest = (_bound(name, str(end), sizes) for end in (low, high))
        found.append(Contract(name, least, greatest, bool(more), text))
    return found


def read_assumed(texts: Iterable[str]) -> dict[str, Promise]:
    """Contracts as the command line has them: `index=0:n-1`.

    Raises:
        UsageError: a text is none.
    """
    found: dict[str, Promise] = {}
    for text in texts:
        name, _, rest = text.partition("=")
        bounds, *more = (part.strip() for part in rest.split(","))
        low, colon, high = bounds.partition(":")
        if not name.strip().isidentifier() or not (colon and low.strip() and high.strip()):
            raise UsageError(
                f"--assume {text!r}: must be PARAMETER=LOW:HIGH[,distinct], as `index=0:n-1`"
            )
        if name.strip() in found:
            raise UsageError(f"--assume {text!r}: `{name.strip()}` has bounds already")
        found[name.strip()] = (low.strip(), high.strip(), *more)
    return found


def _bound(parameter: str, text: str, sizes: Mapping[str, Symbol]) -> Poly:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd literals, which are refused anyway
            tree = ast.parse(text, mode="eval")
        return _poly(tree.body, sizes)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the last: nested
        reason = error if type(error) is ValueError else "no formula"
        shown = text if len(text) <= _MOST else f"{text[:_MOST]}…"
        raise UsageError(f"--assume for `{parameter}`: `{shown}`: {reason}") from None


def _poly(node: ast.expr, sizes: Mapping[str, Symbol]) -> Poly:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return as_poly(value)
        case ast.Name(id=name):
            if name not in sizes:
                raise ValueError(f"{name} is none of the sizes {', '.join(sizes)}")
            return as_poly(sizes[name])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_poly(operand, sizes)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _poly(left, sizes) + _poly(right, sizes)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _poly(left, sizes) - _poly(right, sizes)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _poly(left, sizes) * _poly(right, sizes)
    raise ValueError("must be made of integers, sizes, +, - and *")
