"""A Python program on a pseudo-terminal, to which tests type input as a user does."""

from __future__ import annotations

import os
import pty
import re
import select
import time
from pathlib import Path
from types import TracebackType

from tests.forked_python import PYTHON

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """A running Python program, which `__exit__` kills.

    Args:
        words: Command line after `python`.
        folder: Working directory.
        columns: Width of the terminal in characters.
    """

    def __init__(self, words: list[str], folder: Path, columns: int = 200) -> None:
        test_end, program_end = pty.openpty()
        environment = {**os.environ, "TERM": "dumb", "PYTHON_COLORS": "0"}
        environment["COLUMNS"] = str(columns)
        environment.pop("PYTHONBREAKPOINT", None)
        self._file = test_end
        name = os.ttyname(program_end)
        streams = (name, name, name)
        self._process = PYTHON.start(words, streams=streams, cwd=folder, env=environment)
        os.close(program_end)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._file)

    def until(self, prompt: str, seconds: float = 120.0) -> str:
        """Return the output before the next `prompt`, or all output if the program ends first."""
        text = ""
        deadline = time.monotonic() + seconds
        while not text.endswith(prompt):
            ready, _, _ = select.select([self._file], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(f"no {prompt!r} in: {text}")
            try:
                chunk = os.read(self._file, 1 << 16).decode(errors="replace")
            except OSError:  # the other side is closed
                break
            if not chunk:
                break
            text = _COLOUR.sub("", text + chunk).replace("\r", "")
        return text.removesuffix(prompt)

    def say(self, line: str) -> str:
        """Type a command for pdb and return its answer without the echo."""
        os.write(self._file, f"{line}\n".encode())
        return self.until("(Pdb) ").removeprefix(line).strip()

    def finish(self, line: str) -> tuple[str, int]:
        """Type the last command; return the remaining output and the exit status."""
        os.write(self._file, f"{line}\n".encode())
        output = self.until("no such prompt")
        return output, self._process.wait(timeout=60)

    def leave(self) -> int:
        """Quit pdb and return the exit status."""
        return self.finish("q")[1]


def ttools(*arguments: str) -> list[str]:
    """Return the command line after `python` that runs `ttools`."""
    return ["-m", "ttools_entry", *arguments]
