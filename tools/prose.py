"""Checks the wording of docstrings, comments and documentation; `make lint` runs it.

ruff checks that docstrings of functions begin with a verb (D401), and codespell checks spelling.
This program checks what neither can: how docstrings of modules and classes and entries of `Args`
begin, phrases that have a standard term, the width of documentation, and messages made of several
string literals, one of which has a placeholder but is not an f-string. It skips files for which
pyproject.toml exempts docstrings from D401.

    python -m tools.prose           # all files
    python -m tools.prose FILE...   # these files

It prints a line `FILE:LINE: problem` for each problem, and exits with 1 if there is one.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeAlias

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Problem: TypeAlias = "tuple[int, str]"
Definition: TypeAlias = "ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef"

ROOT = Path(__file__).parents[1]
WIDTH = 100

#: Phrases to avoid, by regular expression, with the advice on what to write instead.
PHRASES = {
    r"must not know|may know": "describe what the code does; import-linter enforces the layers",
    r"(?:is|are|was|be) told\b": "is reported, is described",
    r"tells? apart|told apart|telling apart": "distinguishes",
    r"(?:is|are|was|be|been) held against": "is compared with",
    r"\b(?:in|by) turns\b": "alternately",
    r"\bso many\b": "name the number",
    r"\bof (?:its|their) own making\b": "name the owner",
    r"\bas it stands\b": "unchanged",
    r"\bbystanders?\b|\bstrangers?\b": "third-party code, untrusted input",
    r"\bphantoms?\b": "fake tensor, symbolic tensor",
    r"\btwins?\b": "reference implementation, shadow value",
    r"\boffcuts?\b": "name what remains",
    r"\bwhat is (?:said|told|asked|wanted)\b": "name the thing",
}
_ANY_PHRASE = re.compile("|".join(PHRASES), re.IGNORECASE)
#: Words with which the docstring of a module or class must not begin, because they begin a clause.
_CLAUSE = re.compile(r"(What|Whether|Which|Where|How|Of|As|Who|When|So)\b")
_SECTION = re.compile(r"\s*(Args|Attributes):$")
#: An expression in braces, as f-strings have them, and tokens between literals that Python joins.
_PLACEHOLDER = re.compile(r"(?<!\{)\{[A-Za-z_][\w.]*[\[(}:!]")
_BETWEEN = ("NL", "COMMENT", "FSTRING_END")
_ENTRY = re.compile(r"\s+\*{0,2}(\w+)(?: \(.*\))?: (.*)$")
#: Lines of Markdown that are not wrapped: tables, headings, HTML, indented code, link targets.
_UNWRAPPED = re.compile(r"\s*\||#|<|    |!\[|\[[^\]]+\]:")


def phrases(text: str, line: int) -> Iterator[Problem]:
    """Yield the phrases in a text for which there is a standard term.

    Args:
        text: Text of one or more lines.
        line: Number of its first line.
    """
    for match in _ANY_PHRASE.finditer(text):
        phrase = match.group()
        instead = next(term for name, term in PHRASES.items() if re.fullmatch(name, phrase, re.I))
        yield line + text.count("\n", 0, match.start()), f"`{phrase}`: {instead}"


def docstring_problems(docstring: str, is_function: bool) -> Iterator[Problem]:
    """Yield problems of a docstring, with line numbers relative to it, counted from 0.

    Args:
        docstring: The docstring without its indentation.
        is_function: If True, ruff checks how the summary begins.
    """
    if not is_function and (match := _CLAUSE.match(docstring)):
        yield 0, f"the docstring begins with a clause (`{match.group()} …`)"
    is_section = False
    for number, line in enumerate(docstring.split("\n")):
        if _SECTION.match(line):
            is_section = True
        elif line and not line.startswith(" "):
            is_section = False
        elif is_section and line.startswith("    ") and not line.startswith("     "):
            entry = _ENTRY.match(line)
            if entry and re.match("[a-z]", entry.group(2)):
                yield number, f"the entry `{entry.group(1)}` does not begin with a capital letter"


def definitions(body: Sequence[ast.stmt]) -> Iterator[Definition]:
    """Yield the classes and functions among statements, and those inside them."""
    for statement in body:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement
        for field in ("body", "orelse", "finalbody"):
            yield from definitions(getattr(statement, field, ()))


def placeholders(source: str) -> Iterator[Problem]:
    """Yield literals with placeholders that lack the `f`, although they continue an f-string."""
    is_formatted, depth, plain = False, 0, list[Problem]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        # Since Python 3.12, an f-string is several tokens.
        depth += {"FSTRING_START": 1, "FSTRING_END": -1}.get(tokenize.tok_name[token.type], 0)
        if depth or (token.type == tokenize.STRING and re.match(r"\w*f", token.string, re.I)):
            is_formatted = True
        elif token.type == tokenize.STRING:
            if match := _PLACEHOLDER.search(token.string):
                plain.append((token.start[0], f"`{match.group()}` needs an f-string"))
        elif tokenize.tok_name[token.type] not in _BETWEEN:
            if is_formatted:
                yield from plain
            is_formatted, plain = False, []


def python_problems(source: str) -> Iterator[Problem]:
    """Yield problems of docstrings, and of comments and messages, of a Python file."""
    yield from phrases(source, 1)
    yield from placeholders(source)
    module = ast.parse(source)
    for node in (module, *definitions(module.body)):
        docstring = ast.get_docstring(node)
        if docstring is not None:
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for line, problem in docstring_problems(docstring, is_function):
                yield node.body[0].lineno + line, problem


def markdown_problems(text: str) -> Iterator[Problem]:
    """Yield problems of a page, without its code blocks."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield from phrases(line, number)
            if len(line) > WIDTH and not _UNWRAPPED.match(line) and " " in line.strip()[2:]:
                yield number, f"{len(line)} columns; pages are wrapped at {WIDTH}"


def problems(path: Path) -> list[Problem]:
    """Return the problems of a file, in the order of its lines."""
    text = path.read_text("utf-8")
    return sorted(markdown_problems(text) if path.suffix == ".md" else python_problems(text))


def unfinished(settings: str) -> list[str]:
    """Return the patterns of files whose docstrings are not checked.

    Args:
        settings: Text of pyproject.toml, which lists them as exceptions from D401.
    """
    ignores = tomllib.loads(settings)["tool"]["ruff"]["lint"]["per-file-ignores"]
    return [pattern for pattern, rules in ignores.items() if {"D", "D401"} & set(rules)]


def main(arguments: list[str]) -> int:
    """Print the problems of the files, or of all files; return the exit status."""
    names = arguments
    if not names:
        command = ["git", "ls-files", "--cached", "*.py", "*.md"]
        names = subprocess.check_output(command, cwd=ROOT, text=True).splitlines()
        omitted = unfinished((ROOT / "pyproject.toml").read_text("utf-8"))
        omitted.append("tools/prose.py")  # contains the phrases themselves
        names = [n for n in names if not any(fnmatchcase(n, pattern) for pattern in omitted)]
    lines = [f"{name}:{line}: {text}" for name in names for line, text in problems(ROOT / name)]
    print("\n".join(lines), end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
