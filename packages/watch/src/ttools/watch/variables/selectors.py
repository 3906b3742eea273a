"""Selectors of the variables to watch: names, lines of a file, or everything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePath

from ttools.core.errors import UsageError
from ttools.ir import PointerType, element_type
from ttools.watch.variables.unnamed_assignments import Unavailable
from ttools.watch.variables.variables import STORED, Variable

_LINE = re.compile(r"(?P<file>.+):(?P<line>\d+)")
_NAME = re.compile(r"[\w*?.\[\]!-]+")
EVERYTHING = "*"
_MOST_UNAVAILABLE = 4


@dataclass(frozen=True)
class Selector:
    """A name or a line that the user selects.

    Attributes:
        name: Name of variables, in which `*` and `?` are wildcards; empty if a line is selected.
    """

    text: str
    name: str = ""
    file: str = ""
    line: int = 0

    def matches(self, variable: Variable) -> bool:
        """Return whether an assignment is selected."""
        if self.name:
            return fnmatchcase(variable.name, self.name)
        return variable.location.line == self.line and _is_file(variable.location.file, self.file)

    def means(self, unavailable: Unavailable) -> bool:
        """Return whether an unavailable assignment is selected; the selector `*` selects none."""
        if self.name:
            return self.name != EVERYTHING and fnmatchcase(unavailable.name, self.name)
        return self.line in unavailable.lines and _is_file(unavailable.file, self.file)


def read_selectors(texts: Iterable[str]) -> tuple[Selector, ...]:
    """Parse the selectors that are given on a command line or in a call.

    Raises:
        UsageError: A text is neither a name nor a line.
    """
    return tuple(map(_read, texts))


def _read(text: str) -> Selector:
    if match := _LINE.fullmatch(text):
        return Selector(text, file=match["file"], line=int(match["line"]))
    if _NAME.fullmatch(text):
        return Selector(text, name=text)
    raise UsageError(f"cannot watch `{text}`: it must be a variable's name or FILE:LINE")


def _is_file(path: str, suffix: str) -> bool:
    own, other = PurePath(path).parts, PurePath(suffix).parts
    other = tuple(part for part in other if part != ".")
    return bool(other) and own[-len(other) :] == other


def choose(variables: Sequence[Variable], selectors: Sequence[Selector]) -> list[Variable]:
    """Return the selected variables; the selector `*` does not select pointer parameters."""
    return [
        variable
        for variable in variables
        if any(
            s.matches(variable) and (s.name != EVERYTHING or _is_informative(variable))
            for s in selectors
        )
    ]


def _is_informative(variable: Variable) -> bool:
    """Return whether a variable is more than a pointer argument, which is described anyway."""
    element = element_type(variable.value.type)
    return not (variable.is_parameter and isinstance(element, PointerType))


def unavailable_sentence(
    selector: Selector, unavailable: Mapping[str, Sequence[Unavailable]]
) -> str:
    """Describe the unavailable assignments that a selector selects; empty if there are none.

    Args:
        unavailable: Unavailable assignments by kernel.
    """
    sentences = [
        f"`{item.name}` of {PurePath(item.file).name}:{item.lines.start} in `{kernel}`: {item.why}"
        for kernel, rows in unavailable.items()
        for item in rows
        if selector.means(item)
    ]
    if not sentences:
        return ""
    shown, rest = sentences[:_MOST_UNAVAILABLE], len(sentences) - _MOST_UNAVAILABLE
    more = f"; and {rest} more" if rest > 0 else ""
    return f"not shown: {'; '.join(shown)}{more} (--engine eager --pdb shows every variable)"


def unmatched_sentence(
    selector: Selector,
    known: Mapping[str, Sequence[tuple[str, str, int]]],
    unavailable: Mapping[str, Sequence[Unavailable]],
) -> str:
    """Explain why a selector matched nothing.

    Args:
        known: For each kernel, the name, file and line of everything that could be watched.
        unavailable: Unavailable assignments by kernel.
    """
    if not known:
        return f"nothing was watched: no kernel was launched that could hold `{selector.text}`"
    if sentence := unavailable_sentence(selector, unavailable):
        return sentence
    if selector.line:
        lines = {
            line
            for rows in known.values()
            for _, file, line in rows
            if _is_file(file, selector.file)
        }
        if lines:
            listed = ", ".join(map(str, sorted(lines)))
            return (
                f"no variable is assigned at `{selector.text}`, only at these lines of the file: "
                f"{listed}"
            )
    listed = "; ".join(
        f"in `{kernel}`: {', '.join(sorted({n for n, *_ in rows} - set(STORED)))}"
        for kernel, rows in sorted(known.items())
    )
    what = f"line `{selector.text}`" if selector.line else f"variable `{selector.text}`"
    return f"there is no {what} to watch in the kernels that ran; available: {listed}"
