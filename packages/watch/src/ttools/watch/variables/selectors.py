"""What the user wants to watch: names of variables, lines of a file, everything.

Owns how that is written. Must not know what is there to be watched but by names and lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePath

from ttools.core.errors import UsageError
from ttools.ir import PointerType, element_type
from ttools.watch.variables.unnamed import Unavailable
from ttools.watch.variables.variables import STORED, Variable

_LINE = re.compile(r"(?P<file>.+):(?P<line>\d+)")
_NAME = re.compile(r"[\w*?.\[\]!-]+")
EVERYTHING = "*"
_MOST_UNAVAILABLE = 4


@dataclass(frozen=True)
class Selector:
    """A name or a line that the user asks for.

    Attributes:
        name: of variables, `*` and `?` standing for anything; empty for a line.
    """

    text: str
    name: str = ""
    file: str = ""
    line: int = 0

    def matches(self, variable: Variable) -> bool:
        """Whether an assignment is wanted."""
        if self.name:
            return fnmatchcase(variable.name, self.name)
        return variable.location.line == self.line and _is_file(variable.location.file, self.file)

    def means(self, unavailable: Unavailable) -> bool:
        """Whether an unavailable assignment is asked for; `*` asks for none by name."""
        if self.name:
            return self.name != EVERYTHING and fnmatchcase(unavailable.name, self.name)
        return self.line in unavailable.lines and _is_file(unavailable.file, self.file)


def read_selectors(texts: Iterable[str]) -> tuple[Selector, ...]:
    """The selectors of a command line or a call.

    Raises:
        UsageError: one is neither a name nor a line.
    """
    return tuple(map(_read, texts))


def _read(text: str) -> Selector:
    if found := _LINE.fullmatch(text):
        return Selector(text, file=found["file"], line=int(found["line"]))
    if _NAME.fullmatch(text):
        return Selector(text, name=text)
    raise UsageError(f"cannot watch `{text}`: it must be a variable's name or FILE:LINE")


def _is_file(path: str, wanted: str) -> bool:
    own, other = PurePath(path).parts, PurePath(wanted).parts
    other = tuple(part for part in other if part != ".")
    return bool(other) and own[-len(other) :] == other


def choose(variables: Sequence[Variable], selectors: Sequence[Selector]) -> list[Variable]:
    """Those that some selector wants; pointers passed to the kernel only if they are named."""
    return [
        variable
        for variable in variables
        if any(
            s.matches(variable) and (s.name != EVERYTHING or _tells(variable)) for s in selectors
        )
    ]


def _tells(variable: Variable) -> bool:
    """Whether a variable says more than the list of arguments does."""
    element = element_type(variable.value.type)
    return not (variable.is_parameter and isinstance(element, PointerType))


def unavailable_sentence(
    selector: Selector, unavailable: Mapping[str, Sequence[Unavailable]]
) -> str:
    """What to say of the unavailable assignments that a selector means.

    Args:
        unavailable: per kernel, the unavailable assignments.
    """
    sentences = [
        f"`{each.name}` of {PurePath(each.file).name}:{each.lines.start} in `{kernel}`: {each.why}"
        for kernel, rows in unavailable.items()
        for each in rows
        if selector.means(each)
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
    """What to say of a selector that matched nothing.

    Args:
        known: per kernel, name, file and line of all that could be watched.
        unavailable: per kernel, the unavailable assignments.
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
                f"no variable is assigned at `{selector.text}`; lines of that file with some: "
                f"{listed}"
            )
    listed = "; ".join(
        f"in `{kernel}`: {', '.join(sorted({n for n, *_ in rows} - set(STORED)))}"
        for kernel, rows in sorted(known.items())
    )
    what = f"line `{selector.text}`" if selector.line else f"variable `{selector.text}`"
    return f"there is no {what} to watch in the kernels that ran; there are {listed}"
