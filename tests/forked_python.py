"""A Python that forks: runs commands in processes of their own that have imported everything.

Importing torch, Triton and ttools is most of what a short command takes, and taking them down
again at the end is half of the rest. What is started here leaves both out, and differs in nothing
else from `python -m MODULE`, `python -c CODE` or `python SCRIPT`: arguments, folder, environment,
streams and exit status are the command's own. What is about imports themselves, or reads variables
before they are over, is for `subprocess`.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, TextIO

#: Variables that are read before or while torch and Triton are imported. TRITON_INTERPRET is one
#: too, but ttools unsets it.
_READ_EARLY = (*("PYTHON", "LD_", "OMP_", "MKL_", "CUDA_", "TORCH_", "TRITON_DEBUG"),)
#: What commands import, some of it late.
_OTHERS = (
    *("torch", "triton", "triton.experimental.gluon.language", "llvmlite.binding"),
    # What `torch.testing` imports when it first compares, and takes a second for.
    *("torch.distributed.tensor", "numpy.ctypeslib", "triton.tools.tensor_descriptor"),
    *("rich.live", "typer._adapters", "pytest"),
)
_RUNPY = (runpy.__file__, "<frozen runpy>")
#: Plugins of pytest, which it wants to import itself.
_NOT_HERE = ("__main__", "pytest_plugin")


class Process:
    """A process that was started; like `subprocess.Popen`, but for its streams.

    Args:
        pid: its number.
        wait: waits for its end and returns its status.
    """

    def __init__(self, pid: int, wait: Callable[[int], int]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._wait = wait

    def wait(self, timeout: float = 120) -> int:
        """Waits for the end of the process and returns its exit status, negative for a signal.

        Raises:
            subprocess.TimeoutExpired: it took more than `timeout` seconds and was killed.
        """
        if self.returncode is not None:
            return self.returncode
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            os.kill(self.pid, signal.SIGKILL)

        timer = threading.Timer(timeout, expire)
        timer.start()
        try:
            self.returncode = self._wait(self.pid)
        finally:
            timer.cancel()
        if expired.is_set():
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return self.returncode

    def kill(self) -> None:
        """Kills the process unless it was waited for."""
        self._send(signal.SIGKILL)

    def terminate(self) -> None:
        """Asks the process to end unless it was waited for."""
        self._send(signal.SIGTERM)

    def _send(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)


class ForkedPython:
    """The parent of the processes; started at the first run, and again should it have died."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[str] | None = None
        self._env = {name: os.environ[name] for name in os.environ if name != "TRITON_INTERPRET"}

    def run(
        self,
        words: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Runs `python WORDS…`, with no standard input.

        Args:
            words: `-m MODULE`, `-c CODE` or a script, and arguments.
            cwd: the folder to run in.
            env: the environment; one that Python or an import reads needs a process of its own.
            timeout: seconds after which the process is killed.

        Raises:
            subprocess.TimeoutExpired: it was killed.
        """
        if self.reads_early(os.environ if env is None else env):
            return subprocess.run(
                [sys.executable, *words], cwd=cwd, env=env, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=timeout, check=False,
            )  # fmt: skip
        stream = tempfile.NamedTemporaryFile
        with stream("r", encoding="utf-8") as out, stream("r", encoding="utf-8") as err:
            streams = (os.devnull, out.name, err.name)
            status = self.start(words, cwd=cwd, env=env, streams=streams).wait(timeout)
            return subprocess.CompletedProcess(words, status, out.read(), err.read())

    def start(
        self,
        words: Sequence[str],
        *,
        streams: tuple[str, str, str],
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Process:
        """Starts `python WORDS…` as the first of a session of its own.

        Args:
            words: `-m MODULE`, `-c CODE` or a script, and arguments.
            streams: paths of standard input, output and error.
            cwd: the folder to run in.
            env: the environment.
        """
        order = {
            "words": words,
            "streams": streams,
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
        }
        return Process(self._ask(order), self._ask)

    def close(self) -> None:
        """Ends the parent."""
        if self._server is not None:
            self._server.communicate()

    def _ask(self, question: dict[str, Any] | int) -> int:
        """Tells the parent what to start, or whom to wait for; returns its answer."""
        if self._server is None or self._server.poll() is not None:
            self._server = subprocess.Popen(
                [sys.executable, __file__], env=self._env, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
        server = self._server
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(question) + "\n")
        server.stdin.flush()
        return int(server.stdout.readline())

    def reads_early(self, env: Mapping[str, str]) -> bool:
        """True if an import would read a variable that is not as it was in the parent."""
        names = {name for name in {*env, *self._env} if name.startswith(_READ_EARLY)}
        return any(env.get(name) != self._env.get(name) for name in names)


#: The one of this process.
PYTHON = ForkedPython()
atexit.register(PYTHON.close)


# --- the parent -------------------------------------------------------------------------------


def _import_all() -> None:
    """Imports what commands import, and has Triton hash its files, which is done once a process."""
    import ttools

    names = (found.name for found in pkgutil.walk_packages(ttools.__path__, "ttools."))
    ours = (name for name in names if name.rpartition(".")[2] not in _NOT_HERE)
    # Triton comes before modules of ours, some of which it imports itself.
    for name in (*_OTHERS, "ttools_entry", *ours):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with contextlib.suppress(ImportError):
        from ttools.core.triton_versions.warm_up import hash_triton

        hash_triton()
    # Otherwise the collector would write to, and so copy, all that the processes share.
    gc.collect()
    gc.freeze()


def _serve(questions: TextIO, answers: TextIO) -> list[str] | None:
    """Forks a process per order and waits for it when asked to; in a child, returns its words."""
    for line in questions:
        question = json.loads(line)
        if isinstance(question, int):
            _, status = os.waitpid(question, 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            read, write = os.pipe()
            answer = os.fork()
            if answer == 0:
                _become(question)
                os.close(read)
                os.close(write)
                words: list[str] = question["words"]
                return words
            os.close(write)
            os.read(read, 1)  # until the child has its streams, which the asker may close
            os.close(read)
        print(answer, file=answers, flush=True)
    return None


# --- its children -----------------------------------------------------------------------------


def _become(order: dict[str, Any]) -> None:
    """Gives this process the folder, variables and streams that were ordered."""
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    for number, name in enumerate(order["streams"]):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_APPEND
        os.dup2(os.open(name, flags | os.O_CLOEXEC | os.O_NOCTTY), number)
    os.setsid()


def _run(words: Sequence[str]) -> None:
    """Runs what follows `python` on a command line."""
    form, arguments = words[0], list(words[1:])
    if form == "-m":
        sys.path[0], sys.argv[1:] = str(Path.cwd()), arguments[1:]
        # Else a module that was imported already is warned of.
        sys.modules.pop(arguments[0], None)
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    elif form == "-c":
        sys.path[0], sys.argv = "", ["-c", *arguments[1:]]
        exec(compile(arguments[0], "<string>", "exec"), sys.modules["__main__"].__dict__)
    else:
        sys.path[0], sys.argv[1:] = str(Path(form).resolve().parent), arguments
        runpy.run_path(form, run_name="__main__")


def _without_ours(frames: TracebackType | None) -> TracebackType | None:
    """The frames of a traceback that Python would have shown."""
    while frames and frames.tb_frame.f_code.co_filename in (__file__, *_RUNPY):
        frames = frames.tb_next
    return frames


def _leave(status: object) -> NoReturn:
    """Ends as Python does, but leaves it to the system to take modules and memory down."""
    if status is not None and not isinstance(status, int):
        print(status, file=sys.stderr)
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit((status or 0) & 0xFF)


if __name__ == "__main__":
    _import_all()
    WORDS = _serve(sys.stdin, sys.stdout)
    if WORDS is None:
        _leave(None)
    try:
        _run(WORDS)
    except SystemExit as leaving:
        _leave(leaving.code)
    except Exception as error:  # noqa: BLE001 - the program ends here, whatever ended it
        sys.excepthook(type(error), error, _without_ours(error.__traceback__))
        _leave(1)
    _leave(None)
