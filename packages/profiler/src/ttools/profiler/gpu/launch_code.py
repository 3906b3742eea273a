"""Generates the Python functions that run at every launch of a kernel.

Calling a function with named parameters takes less time than calling one with `*args`, and such a
function can compute the key of a launch without a further call. Therefore the source of these
functions is generated for each kernel, according to its number of words: the positional arguments
of the function that launches it (see `launched_kernel`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

#: The default of words that a call may omit.
_MISSING = object()
#: File name of generated functions; Python stacks in reports leave them out.
_FILE = "<launch>"

_KEY = "def key({words}):\n    return {key}\n"
_LAUNCH = """\
def launch({parameters}):
    {few}
    kind = get({key})
    if kind is None:
        kind = first(({words},))
    watch.note(kind)
    return call({words})
"""
_FEW = "if {last} is missing: return call(*(w for w in ({words},) if w is not missing))"


class CallCode:
    """The functions that run in each launch of one kernel.

    Args:
        words: Number of words of a launch.
        key: Python expression of the words (see `word`) whose value is equal for equal launches.
        names: Values of other names in `key`.
        optional: Number of trailing words that may be left out; launches without them are not
            recorded.
    """

    def __init__(
        self, words: int, *, key: str, names: Mapping[str, Any] | None = None, optional: int = 0
    ) -> None:
        self._words = [word(n) for n in range(words)]
        self._key, self._names, self._optional = key, names or {}, optional

    def key(self) -> Callable[..., Hashable]:
        """Return a function that maps the words of a launch to its key."""
        function: Callable[..., Hashable] = self._made("key", _KEY, self._words, {})
        return function

    def noting(
        self,
        *,
        get: Callable[[Hashable], Any],
        first: Callable[[tuple[Any, ...]], Any],
        watch: Any,
        call: Callable[..., Any],
    ) -> Callable[..., Any]:
        """Return a launcher that records each launch before it calls the original launcher.

        Args:
            get: Function that returns the kind of a launch by its key, or None if the kind is new.
            first: Function that creates a new kind from the arguments of its first launch.
            watch: Object whose `note` receives the kind; `note` is looked up in every launch.
            call: The original launcher of the kernel.
        """
        parameters = [
            f"{name}=missing" if n >= len(self._words) - self._optional else name
            for n, name in enumerate(self._words)
        ]
        values = {"get": get, "first": first, "watch": watch, "call": call, "missing": _MISSING}
        function: Callable[..., Any] = self._made("launch", _LAUNCH, parameters, values)
        return function

    def _made(
        self, name: str, template: str, parameters: Sequence[str], values: Mapping[str, Any]
    ) -> Any:
        words = ", ".join(self._words)
        few = _FEW.format(last=self._words[-1], words=words) if self._optional else "pass"
        text = template.format(
            parameters=", ".join(parameters), words=words, key=self._key, few=few
        )
        names = {**self._names, **values}
        # The code is nested in a function because closure variables are faster than globals.
        inner = "".join(f"    {line}\n" for line in text.splitlines())
        maker = f"def make({', '.join(names)}):\n{inner}    return {name}\n"
        space: dict[str, Any] = {"__name__": __name__}
        exec(_compiled(maker), space)
        return space["make"](**names)


def word(index: int) -> str:
    """Return the variable's name that holds a positional launcher argument in generated code."""
    return f"w{index}"


def key_of(numbers: Sequence[int], pointers: Sequence[int]) -> str:
    """Return the source of a key: the scalars, and which of the pointers are equal to each other.

    Args:
        numbers: Indices of the positional arguments that are scalars.
        pointers: Indices of the positional arguments that are tensors.
    """
    parts = [word(n) for n in numbers]
    addresses = [f"{word(n)}.data_ptr()" for n in pointers]
    if len(addresses) == 2:
        parts.append(" == ".join(addresses))
    elif addresses:
        # Usually all addresses differ, which the size of a set of them shows. The names a0, a1, ...
        # hold the addresses for the rare case that some are equal.
        kept = [f"(a{n} := {address})" for n, address in enumerate(addresses)]
        again = ", ".join(f"a{n}" for n in range(len(addresses)))
        count = len(addresses)
        parts.append(
            f"len({{{', '.join(kept)}}}) == {count} or tuple(map(({again}).index, ({again})))"
        )
    return "(" + "".join(f"{part}, " for part in parts) + ")"


@lru_cache(maxsize=1024)
def _compiled(text: str) -> CodeType:
    return compile(text, _FILE, "exec")
