"""`--shapes "M=1024,4096"`: which shapes a sweep measures."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

from ttools.core.errors import UsageError

_RANGE = re.compile(r"(\d+):(\d+)(?::(\d+))?")
#: More shapes than this are a mistake in a range.
_MOST = 10_000


def read_shapes(
    words: Sequence[str], module: Any, draw: Callable[..., Any]
) -> list[dict[str, Any]]:
    """Each combination of the values given.

    Other parameters of `inputs` are what `ttools tune` passes first.

    Args:
        words: `NAME=VALUE,…`, where a value may be a range: `LOW:HIGH` doubles from one to the
            other, `LOW:HIGH:STEP` adds.
        module: where `draw` is, and `DOMAIN` and `TUNE`.
        draw: the function that returns arguments.

    Raises:
        UsageError: there is no such parameter or value, or a parameter has none.
    """
    from ttools.verifier.cases.tuned import problems_of

    if not words:
        return problems_of(module, draw)
    parameters = inspect.signature(draw).parameters
    domain = getattr(module, "DOMAIN", None) or {}
    given: dict[str, list[Any]] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not text:
            raise UsageError(f"--shapes {word}: must be NAME=VALUE,…, as M=1024,4096 or N=256:8192")
        if name not in parameters:
            raise UsageError(f"--shapes {word}: `inputs` takes {', '.join(parameters)}")
        own = given.setdefault(name, [])
        own += [each for each in _values(word, text, domain.get(name)) if each not in own]
    missing = [
        name
        for name, parameter in parameters.items()
        if name not in given
        and name != "seed"
        and parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    base: dict[str, Any] = problems_of(module, draw)[0] if missing else {}
    if "seed" in parameters:
        base.setdefault("seed", 0)
    shapes = [
        {**base, **dict(zip(given, values, strict=True))}
        for values in itertools.islice(itertools.product(*given.values()), _MOST + 1)
    ]
    if len(shapes) > _MOST:
        raise UsageError(f"--shapes asks for more than {_MOST:,} shapes")
    return shapes


def _values(word: str, text: str, entry: Any) -> list[Any]:
    """Those of one word; `entry` is the parameter's domain, if it has one."""
    labels = {str(each).removeprefix("torch."): each for each in entry or ()}
    if isinstance(entry, (tuple, range)):
        labels = {}
    found: list[Any] = []
    for part in text.split(","):
        if labels:
            if part not in labels:
                raise UsageError(f"--shapes {word}: `{part}` is none of {', '.join(labels)}")
            found.append(labels[part])
        elif match := _RANGE.fullmatch(part):
            found += _sizes(word, *(int(each) for each in match.groups() if each))
        else:
            found.append(_literal(part))
    return found


def _sizes(word: str, low: int, high: int, step: int | None = None) -> list[int]:
    if not 0 < low <= high or step == 0:
        raise UsageError(f"--shapes {word}: a range is LOW:HIGH or LOW:HIGH:STEP, from 1 on")
    if step:
        return list(range(low, high + 1, step)[: _MOST + 1])
    doublings = (high // low).bit_length()
    return [low << n for n in range(doublings)]


def _literal(text: str) -> Any:
    """A number or `True`; another word is a text."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text
