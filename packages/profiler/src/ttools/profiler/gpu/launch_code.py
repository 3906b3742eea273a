"""The Python that runs at every launch, written for each kernel's own number of words.

A function that names what it takes is called faster than one that takes anything, and tells equal
launches from different ones without another call. Owns that text.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

#: Stands for a word that was left out.
_MISSING = object()
#: Stacks of Python functions leave out what is in such a file.
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
    """What runs at launches of one kernel.

    Args:
        optional: how many of the last may be left out; such launches are not noted.
        key: an expression of the words, see `word`, that is equal for equal launches.
        names: what `key` uses beside.
    """

    def __init__(
        self, words: int, *, key: str, names: Mapping[str, Any] | None = None, optional: int = 0
    ) -> None:
        self._words = [word(n) for n in range(words)]
        self._key, self._names, self._optional = key, names or {}, optional

    def key(self) -> Callable[..., Hashable]:
        """A function of a launch's words that gives its key."""
        found: Callable[..., Hashable] = self._made("key", _KEY, self._words, {})
        return found

    def noting(
        self,
        *,
        get: Callable[[Hashable], Any],
        first: Callable[[tuple[Any, ...]], Any],
        watch: Any,
        call: Callable[..., Any],
    ) -> Callable[..., Any]:
        """A function that stands for a launcher, and lets each launch be noted before.

        Args:
            get: tells the kind of a launch by its key; None for one that is new.
            first: tells it for one that is new, by its words.
            watch: its `note` takes the kind; looked up at every launch.
        """
        parameters = [
            f"{name}=missing" if n >= len(self._words) - self._optional else name
            for n, name in enumerate(self._words)
        ]
        given = {"get": get, "first": first, "watch": watch, "call": call, "missing": _MISSING}
        found: Callable[..., Any] = self._made("launch", _LAUNCH, parameters, given)
        return found

    def _made(
        self, name: str, template: str, parameters: Sequence[str], given: Mapping[str, Any]
    ) -> Any:
        words = ", ".join(self._words)
        few = _FEW.format(last=self._words[-1], words=words) if self._optional else "pass"
        text = template.format(
            parameters=", ".join(parameters), words=words, key=self._key, few=few
        )
        names = {**self._names, **given}
        # What is found in the function's own cells is found faster than by name.
        inner = "".join(f"    {line}\n" for line in text.splitlines())
        maker = f"def make({', '.join(names)}):\n{inner}    return {name}\n"
        space: dict[str, Any] = {"__name__": __name__}
        exec(_compiled(maker), space)
        return space["make"](**names)


def word(index: int) -> str:
    """The name of a word in a key's expression."""
    return f"w{index}"


def key_of(numbers: Sequence[int], pointers: Sequence[int]) -> str:
    """A key that holds numbers, and which pointers are the same address.

    Args:
        numbers: indices of words that are compared.
        pointers: indices of words with memory; none, or several.
    """
    parts = [word(n) for n in numbers]
    addresses = [f"{word(n)}.data_ptr()" for n in pointers]
    if len(addresses) == 2:
        parts.append(" == ".join(addresses))
    elif addresses:
        # The names keep addresses for the rare case that two are the same.
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
