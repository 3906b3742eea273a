"""Types what console blocks of the documentation show, and compares what comes back.

A block is a session: `$ cd FOLDER` (of the repository), then `$ COMMAND` with its output, and after
`(Pdb) ` what is typed at that prompt with its answer. A line `…` stands for any output, `…` in a
line for any part of it. Scripts run in a copy of their folder; paths are told relative to it.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.terminal import Terminal, ttools

ROOT = Path(__file__).parents[1]
PROMPT = "(Pdb) "
ANYTHING = "…"
#: What ttools says of a machine without a GPU.
QUIET = ("ttools: no GPU found", "note: no GPU here")
BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)


@dataclass
class Step:
    """Something typed, and the output shown for it."""

    typed: str
    shown: list[str] = field(default_factory=list)

    @property
    def pattern(self) -> str:
        """What the output must match, line by line."""
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
    """The console blocks of a page."""
    return BLOCK.findall(page.read_text("utf-8"))


def run_session(block: str, place: Path, *, columns: int = 80) -> None:
    """Types the lines of a block in a terminal so wide, in copies of folders made in `place`."""
    folder, terminal = place, None
    try:
        for step in steps(block):
            if step.typed.startswith("$ cd "):
                folder = place / "copy"
                original = ROOT / step.typed.removeprefix("$ cd ")
                shutil.copytree(original, folder, ignore=shutil.ignore_patterns("*.sqlite"))
                continue
            if step.typed.startswith("$ "):
                if terminal is not None:
                    terminal.__exit__(None, None, None)
                terminal = Terminal(_command(step.typed.removeprefix("$ ")), folder, columns)
                said = terminal.until(PROMPT)
            else:
                assert terminal is not None, f"no debugger for {step.typed}"
                said = terminal.say(step.typed.removeprefix(PROMPT))
            _compare(step, said.replace(f"{folder}/", ""))
    finally:
        if terminal is not None:
            terminal.__exit__(None, None, None)


def _command(line: str) -> list[str]:
    program, *arguments = shlex.split(line)
    return ttools(*arguments) if program == "ttools" else arguments


def _compare(step: Step, said: str) -> None:
    lines = [line.rstrip() for line in said.strip().splitlines()]
    text = "".join(f"{line}\n" for line in lines if not line.startswith(QUIET))
    assert re.fullmatch(step.pattern, text), (
        f"after `{step.typed}` the page shows\n{chr(10).join(step.shown)}\n\nbut it is\n{text}"
    )
