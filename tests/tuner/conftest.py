"""Worker servers are forked from a process that has imported everything.

The tests of the command and `workers/test_compiling.py` start servers without a fork.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable

import pytest
from tests.forked_python import PYTHON

from ttools.tuner.workers import fork_server
from ttools.tuner.workers.fork_server import ForkServer

_PROGRAM = """\
import socket, sys
from ttools.tuner.workers.fork_server_main import main
sys.path[:] = list(filter(None, sys.path))
control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
control.connect(sys.argv[1])
main(control.detach(), sys.argv[2])
"""


@pytest.fixture(autouse=True)
def forked_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork each worker server, which saves the seconds in which it would import torch."""
    monkeypatch.setattr(ForkServer, "_start", _started_by_a_fork(ForkServer._start))


def _started_by_a_fork(start_anew: Callable[[ForkServer], None]) -> Callable[[ForkServer], None]:
    def start(server: ForkServer) -> None:
        env = {**os.environ, **(server._environment or {})}
        if server._kind != "cpu" or PYTHON.reads_early(env):
            start_anew(server)
            return
        with tempfile.TemporaryDirectory() as folder:
            path, streams = f"{folder}/control", (os.devnull, os.devnull, os.devnull)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
                listener.bind(path)
                listener.listen(1)
                listener.settimeout(fork_server._START_S)
                words = ["-c", _PROGRAM, path, server._kind]
                server._process = PYTHON.start(words, streams=streams, env=env)  # type: ignore[assignment]
                server._control, _ = listener.accept()
        server._control.settimeout(fork_server._START_S)

    return start
