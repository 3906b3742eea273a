"""Maps each line of a compilation stage to its source line.

Each stage writes locations in its own syntax. The table at the end of the file assigns a reader to
each stage.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ttools.core.compilation.string_escapes import unescape, unescape_assembly
from ttools.core.location import SourceLocation


@dataclass(frozen=True)
class StageLine:
    """A line in the text of a compilation stage, such as TTIR or PTX.

    Attributes:
        number: Line number in the stage's text, from 1.
        text: Content without location annotations.
        location: The source position, or None if there is none; the column is 0 if unknown.
    """

    number: int
    text: str
    location: SourceLocation | None

    @property
    def source(self) -> SourceLocation | None:
        """Return the location without its column."""
        return replace(self.location, column=0) if self.location else None


#: Matches a quoted string in the text of any stage.
_STRING = r'"(?:[^"\\]|\\.)*"'


def _text(string: str) -> str:
    return unescape(string[1:-1])


def annotate(stage: str, text: str) -> list[StageLine]:
    """Return the lines of a stage with their source locations, omitting location definitions."""
    return list(_READERS[stage](text))


# ---- MLIR: `loc(#loc3)` at the end of a line, `#loc3 = loc("file":4:1)` anywhere

_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
_USE = re.compile(rf"\s*loc\((#loc\d*|{_STRING}(?::\d+:\d+|\(#loc\d*\)))\)$")
_FILE = re.compile(rf"({_STRING}):(\d+):(\d+)")
_DEEPEST = 64


def _mlir(text: str) -> Iterator[StageLine]:
    aliases = dict(_ALIAS.findall(text))
    for number, line in enumerate(text.splitlines(), 1):
        if _ALIAS.match(line):
            continue
        used = _USE.search(line)
        location = _resolve(used[1], aliases) if used else None
        yield StageLine(number, line[: used.start()] if used else line, location)


def _resolve(text: str, aliases: dict[str, str]) -> SourceLocation | None:
    """Resolve a location to a position: the callee's if inlined, the first part's if fused."""
    for _ in range(_DEEPEST):
        position = _FILE.search(text)
        alias = re.search(r"#loc\d*", text)
        if position and (alias is None or position.start() < alias.start()):
            return SourceLocation(_text(position[1]), int(position[2]), int(position[3]))
        if alias is None or alias[0] not in aliases:
            return None
        text = aliases[alias[0]]
    return None


def call_chains(ttgir: str) -> dict[int, list[SourceLocation]]:
    """Return the source positions of each line of MLIR, keyed by the line's number.

    The first position is the one that `StageLine` has. If the code was inlined, the positions of
    the calls that led to it follow, innermost first.
    """
    aliases = dict(_ALIAS.findall(ttgir))
    chains: dict[int, list[SourceLocation]] = {}
    for number, line in enumerate(ttgir.splitlines(), 1):
        used = None if _ALIAS.match(line) else _USE.search(line)
        if used:
            chains[number] = list(_positions(used[1], aliases, _DEEPEST))
    return chains


_PART = re.compile(rf"({_STRING}):(\d+):(\d+)|#loc\d*")


def _positions(text: str, aliases: dict[str, str], depth: int) -> Iterator[SourceLocation]:
    for part in _PART.finditer(text):
        if part[1]:
            yield SourceLocation(_text(part[1]), int(part[2]), int(part[3]))
        elif part[0] in aliases and depth:
            yield from _positions(aliases[part[0]], aliases, depth - 1)
        if text.startswith("fused"):
            break


# ---- LLVM: `!dbg !14` at the end, `!14 = !DILocation(line: 5, …, scope: !4)`

_DEBUG = re.compile(r",? !dbg !(\d+)")
_NODE = re.compile(r"^!(\d+) = (?:distinct )?!(\w+)\((.*)\)$", re.MULTILINE)


def _llvm(text: str) -> Iterator[StageLine]:
    nodes = {number: (kind, _fields(rest)) for number, kind, rest in _NODE.findall(text)}
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"!\d+ = |!llvm\.|!nvvm\.", line):
            continue
        used = _DEBUG.search(line)
        location = _debug_location(used[1], nodes) if used else None
        yield StageLine(number, line[: used.start()] if used else line, location)


def _fields(text: str) -> dict[str, str]:
    return dict(re.findall(rf"(\w+): ({_STRING}|!\d+|[^,]+)", text))


def _debug_location(
    number: str, nodes: dict[str, tuple[str, dict[str, str]]]
) -> SourceLocation | None:
    kind, location = nodes.get(number, ("", {}))
    if kind != "DILocation" or location.get("line", "0") == "0":
        return None
    node = location
    for _ in range(_DEEPEST):  # follow scopes outwards to the file
        if "filename" in node:
            folder, name = (_text(node.get(k, '""')) for k in ("directory", "filename"))
            return SourceLocation(f"{folder}/{name}", int(location["line"]), _column(location))
        step = node.get("file") or node.get("scope")
        if step is None:
            return None
        node = nodes.get(step.lstrip("!"), ("", {}))[1]
    return None


def _column(location: dict[str, str]) -> int:
    return int(location.get("column", "0"))


# ---- assembly: `.file 1 "folder" "name"`, then `.loc 1 4 0` before its instructions

_ASM_FILE = re.compile(rf"\s*\.file\s+(\d+) ({_STRING})(?: ({_STRING}))?")
_ASM_LOC = re.compile(r"\s*\.loc\s+(\d+) (\d+) (\d+)")
_ASM_SILENT = re.compile(r"\s*(?:\.file|\.loc|\$L__tmp|\.Ltmp)")


def _assembly(text: str) -> Iterator[StageLine]:
    files = {}
    for number, folder, name in _ASM_FILE.findall(text):
        names = [unescape_assembly(part[1:-1]) for part in (folder, name) if part]
        files[number] = "/".join(names)
    location: SourceLocation | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if position := _ASM_LOC.match(line):
            has_source = position[1] in files and position[2] != "0"
            location = (
                SourceLocation(files[position[1]], int(position[2]), int(position[3]))
                if has_source
                else None
            )
        if re.match(r"\s*\.section|\s*// -- End function|\s*; -- End function", line):
            location = None
        if not _ASM_SILENT.match(line):
            yield StageLine(number, line, location if _is_instruction(line) else None)


def _is_instruction(line: str) -> bool:
    return re.match(r"\s+(?:@!?%?\w+\s+)?[a-z][\w.:]*(?:\s|;|$)", line) is not None


# ---- SASS: `//## File "…", line 4` before its instructions, then lines of calls if it is inlined

_SASS_LINE = re.compile(rf"\s*//## File ({_STRING}), line (\d+)( inlined at)?")


def _sass(text: str) -> Iterator[StageLine]:
    location: SourceLocation | None = None
    is_call = False
    for number, line in enumerate(text.splitlines(), 1):
        if position := _SASS_LINE.match(line):
            if not is_call:
                file = unescape_assembly(position[1][1:-1])
                location = SourceLocation(file, int(position[2]), 0) if position[2] != "0" else None
            is_call = position[3] is not None
            continue
        is_code = re.match(r"\s+/\*[0-9a-f]+\*/", line) is not None
        is_call = is_call and not is_code
        yield StageLine(number, line, location if is_code else None)


# ---- Python's syntax tree: `# line 12` at the end


def _tree(text: str) -> Iterator[StageLine]:
    for number, line in enumerate(text.splitlines(), 1):
        comment = re.search(r"  # line (\d+)$", line)
        location = SourceLocation("", int(comment[1]), 0) if comment else None
        yield StageLine(number, line[: comment.start()] if comment else line, location)


_READERS: dict[str, Callable[[str], Iterator[StageLine]]] = {
    "ast": _tree,
    "ttir": _mlir,
    "ttgir": _mlir,
    "llir": _llvm,
    "ptx": _assembly,
    "amdgcn": _assembly,
    "sass": _sass,
}

#: File extensions of stages whose extension differs from the stage's name.
SUFFIXES = {"ast": "ast.txt", "llir": "ll", "amdgcn": "s"}
