"""A fork server for tests that run Python commands in separate processes.

A short command spends most of its time on importing torch, Triton and ttools, and half of the
remaining time on destroying them at exit. The server imports them once and forks itself for each
command; the child leaves with `os._exit`. Otherwise a command behaves like `python -m MODULE`,
`python -c CODE` or `python SCRIPT`: it has its own arguments, folder, environment, streams and exit
status. Tests of imports, and of environment variables that are read during imports, use
`subprocess` instead.
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

#: Prefixes of variables that Python, torch or Triton read before or during imports. They also read
#: TRITON_INTERPRET, but ttools unsets it.
_READ_EARLY = (*("PYTHON", "LD_", "OMP_", "MKL_", "CUDA_", "TORCH_", "TRITON_DEBUG"),)
#: Modules of other packages that commands import, some of them lazily.
_OTHERS = (
    *("torch", "triton", "triton.experimental.gluon.language", "llvmlite.binding"),
    # `torch.testing` imports this module at its first comparison, which takes a second.
    *("torch.distributed.tensor", "numpy.ctypeslib", "triton.tools.tensor_descriptor"),
    *("rich.live", "typer._adapters", "pytest"),
)
_RUNPY = (runpy.__file__, "<frozen runpy>")
#: Modules that are not imported in advance: programs, and the plugin, which pytest imports itself.
_NOT_HERE = ("__main__", "pytest_plugin")


class Process:
    """A started process, with the interface of `subprocess.Popen` except for the streams.

    Args:
        pid: Process id.
        wait: Function that waits for the process with an id to end, and returns its exit status.
    """

    def __init__(self, pid: int, wait: Callable[[int], int]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._wait = wait

    def wait(self, timeout: float = 120) -> int:
        """Wait for the process to end and return its exit status, negative for a signal.

        Raises:
            subprocess.TimeoutExpired: The process took more than `timeout` seconds and was killed.
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
        """Kill the process unless `wait` has returned."""
        self._send(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM to the process unless `wait` has returned."""
        self._send(signal.SIGTERM)

    def _send(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)


class ForkedPython:
    """Client of the fork server, which starts the server on first use, or again if it died."""

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
        """Run `python WORDS…` with an empty standard input, and return its output and status.

        Args:
            words: `-m MODULE`, `-c CODE` or the path of a script, followed by arguments.
            cwd: Working directory; by default that of this process.
            env: Environment; by default that of this process. If a variable that imports read
                differs from the server's, the command runs in a new Python instead of a fork.
            timeout: Seconds after which the process is killed.

        Raises:
            subprocess.TimeoutExpired: The process was killed.
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
        """Start `python WORDS…` as the leader of a new session.

        Args:
            words: `-m MODULE`, `-c CODE` or the path of a script, followed by arguments.
            streams: Paths of standard input, output and error.
            cwd: Working directory; by default that of this process.
            env: Environment; by default that of this process.
        """
        order = {
            "words": words,
            "streams": streams,
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
        }
        return Process(self._ask(order), self._ask)

    def close(self) -> None:
        """End the server."""
        if self._server is not None:
            self._server.communicate()

    def _ask(self, question: dict[str, Any] | int) -> int:
        """Send a request to the server and return its answer.

        Args:
            question: Description of a command to start, answered with its process id, or the id of
                a process to wait for, answered with its exit status.
        """
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
        """Return True if a variable that imports read differs from the server's environment."""
        names = {name for name in {*env, *self._env} if name.startswith(_READ_EARLY)}
        return any(env.get(name) != self._env.get(name) for name in names)


#: The fork server of this test process.
PYTHON = ForkedPython()
atexit.register(PYTHON.close)


# --- the server -------------------------------------------------------------------------------


def _import_all() -> None:
    """Import the modules of all commands, and compute Triton's hash of its own files."""
    import ttools

    names = (module.name for module in pkgutil.walk_packages(ttools.__path__, "ttools."))
    modules = (name for name in names if name.rpartition(".")[2] not in _NOT_HERE)
    # Triton is imported first because it imports some modules of ttools itself.
    for name in (*_OTHERS, "ttools_entry", *modules):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with contextlib.suppress(ImportError):
        from ttools.core.triton_versions.warm_up import hash_triton

        hash_triton()
    # A garbage collection in a child would write to all objects, and so copy their memory pages.
    gc.collect()
    gc.freeze()


def _serve(questions: TextIO, answers: TextIO) -> list[str] | None:
    """Serve requests: fork a child for a command, or wait for a child.

    Returns:
        The command line in a child; None in the server, when there are no more requests.
    """
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
            os.read(read, 1)  # the child opens its streams first, since the client may close them
            os.close(read)
        print(answer, file=answers, flush=True)
    return None


# --- the children of the server ---------------------------------------------------------------


def _become(order: dict[str, Any]) -> None:
    """Change the working directory, environment, streams and session to the requested ones."""
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    for number, name in enumerate(order["streams"]):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_APPEND
        os.dup2(os.open(name, flags | os.O_CLOEXEC | os.O_NOCTTY), number)
    os.setsid()


def _run(words: Sequence[str]) -> None:
    """Run a command line of Python, without the interpreter's name."""
    form, arguments = words[0], list(words[1:])
    if form == "-m":
        sys.path[0], sys.argv[1:] = str(Path.cwd()), arguments[1:]
        # runpy warns if the module has been imported already.
        sys.modules.pop(arguments[0], None)
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    elif form == "-c":
        sys.path[0], sys.argv = "", ["-c", *arguments[1:]]
        exec(compile(arguments[0], "<string>", "exec"), sys.modules["__main__"].__dict__)
    else:
        sys.path[0], sys.argv[1:] = str(Path(form).resolve().parent), arguments
        runpy.run_path(form, run_name="__main__")


def _without_ours(frames: TracebackType | None) -> TracebackType | None:
    """Remove the outer frames of this file and runpy, which Python would not have shown."""
    while frames and frames.tb_frame.f_code.co_filename in (__file__, *_RUNPY):
        frames = frames.tb_next
    return frames


def _leave(status: object) -> NoReturn:
    """Exit as Python does, but without destroying modules and freeing memory."""
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
