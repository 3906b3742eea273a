"""A client of the Debug Adapter Protocol, which tests use in place of VS Code.

The protocol is documented at https://microsoft.github.io/debug-adapter-protocol/specification.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

Message = dict[str, Any]
_PATIENCE = 120.0


class Editor:
    """A connection to a program under debugpy, which the constructor starts.

    Args:
        program: Command line after `python -m debugpy … --wait-for-client`.
        folder: Working directory of the program.
        settings: Entries of the launch configuration in the editor.
    """

    def __init__(self, program: Sequence[str], folder: Path, settings: Message) -> None:
        port = _free_port()
        command = [sys.executable, "-X", "frozen_modules=off", "-m", "debugpy"]
        listen = ["--listen", f"127.0.0.1:{port}", "--wait-for-client"]
        self._output = (folder / "debuggee.log").open("w+b")
        self._process = subprocess.Popen(
            [*command, *listen, *program], cwd=folder, stdin=subprocess.DEVNULL,
            stdout=self._output, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1"},
        )  # fmt: skip
        self._folder = folder
        self._socket = self._connect(port)
        self._unread = b""
        self._number = 0
        self._waiting: list[Message] = []
        self._settings = settings

    def __enter__(self) -> Editor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._socket.close()
        self._process.kill()
        self._process.wait()
        self._output.close()

    def start(self, breakpoints: Mapping[str, Sequence[int]]) -> None:
        """Attach to the program, set breakpoints, and let the program begin.

        Args:
            breakpoints: Numbers of lines, by the name of the file.
        """
        self.ask("initialize", adapterID="tests", pathFormat="path", linesStartAt1=True)
        attached = self._send("attach", **self._settings)
        self.event("initialized")
        for file, lines in breakpoints.items():
            source = {"path": str(self._folder / file)}
            self.ask(
                "setBreakpoints", source=source, breakpoints=[{"line": line} for line in lines]
            )
        self.ask("configurationDone")
        self._answer(attached, "attach")

    def ask(self, command: str, **arguments: Any) -> Message:
        """Send a request and return the body of its answer."""
        return self._answer(self._send(command, **arguments), command)

    def event(self, name: str) -> Message:
        """Wait for the next event with a name, and return its body."""
        return dict(self._next("event", "event", name).get("body") or {})

    def stopped(self) -> tuple[str, int, str]:
        """Wait for the program to stop; return the reason, the line and the function."""
        body = self.event("stopped")
        self.thread = int(body["threadId"])
        frame = self.frames()[0]
        assert Path(frame["source"]["path"]) == self._folder / "script.py", frame
        return str(body["reason"]), int(frame["line"]), str(frame["name"])

    def frames(self) -> list[Message]:
        """Return the frames that the editor shows, innermost first."""
        return list(self.ask("stackTrace", threadId=self.thread)["stackFrames"])

    def variables(self) -> dict[str, str]:
        """Return the local variables of the innermost frame, as the editor shows them."""
        (frame, *_) = self.frames()
        scopes = self.ask("scopes", frameId=frame["id"])["scopes"]
        reference = scopes[0]["variablesReference"]
        listed = self.ask("variables", variablesReference=reference)["variables"]
        return {variable["name"]: variable["value"] for variable in listed}

    def evaluate(self, expression: str, frame: int = 0) -> str:
        """Evaluate an expression in a frame, as the debug console does."""
        number = self.frames()[frame]["id"]
        return str(
            self.ask("evaluate", expression=expression, frameId=number, context="repl")["result"]
        )

    def go(self, command: str) -> tuple[str, int, str]:
        """Step (`next`, `stepIn`, `stepOut`) or continue (`continue`) to the next stop."""
        self.ask(command, threadId=self.thread)
        return self.stopped()

    def finish(self) -> tuple[int, str]:
        """Continue to the end; return the exit status and the output of the program."""
        self.ask("continue", threadId=self.thread)
        self.event("terminated")
        status = self._process.wait(timeout=_PATIENCE)
        return status, self.written()

    def written(self) -> str:
        """Return the output of the program so far."""
        return (self._folder / "debuggee.log").read_text()

    # ---- messages

    def _connect(self, port: int) -> socket.socket:
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end and self._process.poll() is None:
            try:
                return socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
            except ConnectionRefusedError:
                time.sleep(0.05)
        raise TimeoutError(f"debugpy does not listen: {self.written()}")

    def _send(self, command: str, **arguments: Any) -> int:
        self._number += 1
        message = {
            "seq": self._number,
            "type": "request",
            "command": command,
            "arguments": arguments,
        }
        text = json.dumps(message).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(text), text))
        return self._number

    def _answer(self, number: int, command: str) -> Message:
        answer = self._next("response", "request_seq", number)
        if not answer["success"]:
            raise RuntimeError(f"{command}: {answer.get('message')}")
        return dict(answer.get("body") or {})

    def _next(self, kind: str, field: str, value: object) -> Message:
        for message in self._waiting:
            if message["type"] == kind and message[field] == value:
                self._waiting.remove(message)
                return message
        while True:
            message = self._read()
            if message["type"] == kind and message[field] == value:
                return message
            self._waiting.append(message)

    def _read(self) -> Message:
        while b"\r\n\r\n" not in self._unread:
            self._receive()
        head, _, body = self._unread.partition(b"\r\n\r\n")
        length = int(head.partition(b":")[2])
        self._unread = body
        while len(self._unread) < length:
            self._receive()
        text, self._unread = self._unread[:length], self._unread[length:]
        return dict(json.loads(text))

    def _receive(self) -> None:
        chunk = self._socket.recv(1 << 16)
        if not chunk:
            raise EOFError(f"the debugger hung up: {self.written()}")
        self._unread += chunk


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
