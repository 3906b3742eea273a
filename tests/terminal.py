"""A program on a pseudo-terminal, spoken to as by a user."""

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
    """Runs Python until it is left; reads what it writes.

    Args:
        words: what follows `python`.
        folder: where it runs.
        columns: how wide the terminal is.
    """

    def __init__(self, words: list[str], folder: Path, columns: int = 200) -> None:
        ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "dumb", "PYTHON_COLORS": "0"}
        environment["COLUMNS"] = str(columns)
        environment.pop("PYTHONBREAKPOINT", None)
        self._file = ours
        name = os.ttyname(theirs)
        streams = (name, name, name)
        self._process = PYTHON.start(words, streams=streams, cwd=folder, env=environment)
        os.close(theirs)

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
        """What comes before the next `prompt`, or before the end if there is no more."""
        text = ""
        end = time.monotonic() + seconds
        while not text.endswith(prompt):
            ready, _, _ = select.select([self._file], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError(f"no {prompt!r} in: {text}")
            try:
                read = os.read(self._file, 1 << 16).decode(errors="replace")
            except OSError:  # the other side is closed
                break
            if not read:
                break
            text = _COLOUR.sub("", text + read).replace("\r", "")
        return text.removesuffix(prompt)

    def say(self, line: str) -> str:
        """Sends a command to pdb; returns its answer without the echo."""
        os.write(self._file, f"{line}\n".encode())
        return self.until("(Pdb) ").removeprefix(line).strip()

    def finish(self, line: str) -> tuple[str, int]:
        """Sends the last command; returns the rest of the output and the exit status."""
        os.write(self._file, f"{line}\n".encode())
        rest = self.until("no such prompt")
        return rest, self._process.wait(timeout=60)

    def leave(self) -> int:
        """Ends a session of pdb; returns the exit status."""
        return self.finish("q")[1]


def ttools(*arguments: str) -> list[str]:
    """What follows `python` to run `ttools`."""
    return ["-m", "ttools_entry", *arguments]
