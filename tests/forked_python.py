"""A Python that forks: runs modules in processes of their own in which torch is imported already.

Importing torch is half of what most commands do. What is started here differs from
`python -m MODULE` in that alone, and in nothing that a command could undo: arguments, folder,
environment, streams and exit status are the command's. Commands that are about the import itself
(a torch that is missing or broken, variables it reads) are for `subprocess`.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO


class ForkedPython:
    """The parent of the processes; started at the first run, and again should it have died."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[str] | None = None

    def run(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        timeout: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Runs `python -m MODULE ARGUMENTS…`, with no standard input.

        Raises:
            subprocess.TimeoutExpired: it took more than `timeout` seconds and was killed.
        """
        stream = tempfile.NamedTemporaryFile
        with stream("r", encoding="utf-8") as out, stream("r", encoding="utf-8") as err:
            order = {"module": module, "arguments": arguments, "cwd": str(cwd), "env": dict(env)}
            streams = {"out": out.name, "err": err.name}
            status = self._ask({**order, **streams}, timeout)
            texts = [out.read(), err.read()]
        return subprocess.CompletedProcess([module, *arguments], status, *texts)

    def close(self) -> None:
        """Ends the parent."""
        if self._server is not None:
            self._server.communicate()

    def _ask(self, order: dict[str, Any], timeout: float) -> int:
        if self._server is None or self._server.poll() is not None:
            self._server = subprocess.Popen(
                [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        server = self._server
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(order) + "\n")
        server.stdin.flush()
        child = int(server.stdout.readline())
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            os.kill(child, signal.SIGKILL)

        timer = threading.Timer(timeout, expire)
        timer.start()
        try:
            status = int(server.stdout.readline())
        finally:
            timer.cancel()
        if expired.is_set():
            raise subprocess.TimeoutExpired(order["arguments"], timeout)
        return status


def _serve(orders: TextIO, answers: TextIO) -> dict[str, Any]:
    """Forks a process per order and tells its number and status; returns the order in the child."""
    with contextlib.suppress(ImportError):
        import torch  # noqa: F401 - what this is for

    for line in orders:
        child = os.fork()
        if child == 0:
            order: dict[str, Any] = json.loads(line)
            return order
        print(child, file=answers, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)
    sys.exit()


def _become(order: dict[str, Any]) -> None:
    """Gives this process the folder, variables, streams and arguments that were ordered."""
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    for number, name in enumerate((os.devnull, order["out"], order["err"])):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_APPEND
        os.dup2(os.open(name, flags | os.O_CLOEXEC), number)
    sys.argv[1:] = order["arguments"]
    sys.path[0] = order["cwd"]


if __name__ == "__main__":
    ORDER = _serve(sys.stdin, sys.stdout)
    _become(ORDER)
    runpy.run_module(ORDER["module"], run_name="__main__", alter_sys=True)
