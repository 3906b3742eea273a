"""Runs the console blocks of the documentation and compares the output with the page.

A block is a session: `$ cd FOLDER` (a folder of the repository), then `$ COMMAND` with its output,
and `(Pdb) INPUT` with the debugger's answer. `$ sed …` edits the copy of the folder. A line `…`
stands for any number of lines, and `…` inside a line for any text. Scripts run in a copy of their
folder, whose path is removed from the output before the comparison.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.terminal import Terminal, ttools

ROOT = Path(__file__).parents[1]
PROMPT = "(Pdb) "
ANYTHING = "…"
#: Messages that appear only on machines without a GPU; the comparison ignores them.
QUIET = ("ttools: no GPU found", "note: no GPU here")
BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)


@dataclass
class Step:
    """One line of input, and the output that the page shows for it."""

    typed: str
    shown: list[str] = field(default_factory=list)

    @property
    def pattern(self) -> str:
        """Return the regular expression that the output must match."""
        return "".join(
            r"(.*\n)*?"
            if line == ANYTHING
            else ".*".join(map(re.escape, line.rstrip().split(ANYTHING))) + "\n"
            for line in self.shown
        )


def steps(block: str) -> Iterator[Step]:
    step: Step | None = None
    for line in block.splitlines():
        if line.startswith(("$ ", PROMPT)):
            if step is not None:
                yield step
            step = Step(line)
        else:
            assert step is not None, f"output before a command: {line}"
            step.shown.append(line)
    if step is not None:
        yield step


def blocks(page: Path) -> list[str]:
    """Return the console blocks of a page."""
    return BLOCK.findall(page.read_text("utf-8"))


def run_session(block: str, place: Path, *, columns: int = 80) -> None:
    """Type the lines of a block in a terminal and compare the output.

    Args:
        block: Text of the console block.
        place: Empty folder for the copy of the folder that the block changes to.
        columns: Width of the terminal.
    """
    folder, terminal = place, None
    try:
        for step in steps(block):
            if step.typed.startswith("$ cd "):
                folder = place / "copy"
                original = ROOT / step.typed.removeprefix("$ cd ")
                shutil.copytree(original, folder, ignore=shutil.ignore_patterns("*.sqlite"))
                continue
            if step.typed.startswith("$ sed "):
                subprocess.run(shlex.split(step.typed)[1:], cwd=folder, check=True)
                continue
            if step.typed.startswith("$ "):
                if terminal is not None:
                    terminal.__exit__(None, None, None)
                terminal = Terminal(_command(step.typed.removeprefix("$ ")), folder, columns)
                output = terminal.until(PROMPT)
            else:
                assert terminal is not None, f"no debugger for {step.typed}"
                output = terminal.say(step.typed.removeprefix(PROMPT))
            _compare(step, output.replace(f"{folder}/", ""))
    finally:
        if terminal is not None:
            terminal.__exit__(None, None, None)


def _command(line: str) -> list[str]:
    program, *arguments = shlex.split(line)
    return ttools(*arguments) if program == "ttools" else arguments


def _compare(step: Step, output: str) -> None:
    lines = [line.rstrip() for line in output.strip().splitlines()]
    text = "".join(f"{line}\n" for line in lines if not line.startswith(QUIET))
    assert re.fullmatch(step.pattern, text), (
        f"after `{step.typed}` the page shows\n{chr(10).join(step.shown)}\n\nbut it is\n{text}"
    )
