"""A Chromium that stays: opens pages one after the other, each in a profile of its own.

Speaks the DevTools protocol (https://chromedevtools.github.io/devtools-protocol) through pipes:
JSON objects, each ended by a zero byte, on file descriptors 3 and 4 of the browser. Starting the
browser is most of what opening a page takes.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

Message = dict[str, Any]
#: Seconds for an answer, on a machine that may be busy.
_PATIENCE = 120.0
#: Milliseconds that pass for timers of a page, as fast as they can.
_VIRTUAL_MS = 5000
_DOCUMENT = (
    "(document.doctype ? new XMLSerializer().serializeToString(document.doctype) : '')"
    " + document.documentElement.outerHTML"
)


class Chromium:
    """The browser; started at once.

    Args:
        browser: the program.
    """

    def __init__(self, browser: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ttools-chromium-")
        theirs, self._orders = _high(os.pipe())
        self._answers, theirs_too = _high(os.pipe())
        arguments = [
            *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *("--disable-background-networking", "--disable-dev-shm-usage"),
            *("--remote-debugging-pipe", f"--user-data-dir={self._folder.name}"),
        ]
        files: list[tuple[Any, ...]] = [
            (os.POSIX_SPAWN_DUP2, theirs, 3),
            (os.POSIX_SPAWN_DUP2, theirs_too, 4),
            *((os.POSIX_SPAWN_OPEN, n, os.devnull, os.O_RDWR, 0) for n in range(3)),
        ]
        self._pid = os.posix_spawn(browser, arguments, os.environ, file_actions=files, setsid=True)
        os.close(theirs)
        os.close(theirs_too)
        self._number = 0
        self._unread = b""

    def dump_dom(self, page: Path) -> str:
        """The document that the scripts of a page leave."""
        context = self._ask("Target.createBrowserContext")["browserContextId"]
        options = {"url": "about:blank", "browserContextId": context}
        target = self._ask("Target.createTarget", **options)["targetId"]
        attached = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        session = attached["sessionId"]
        self._ask("Page.enable", session)
        self._ask("Page.navigate", session, url=page.as_uri())
        self._read(lambda message: message.get("method") == "Page.loadEventFired")
        policy = {"policy": "advance", "budget": _VIRTUAL_MS}
        self._ask("Emulation.setVirtualTimePolicy", session, **policy)
        self._read(lambda message: message.get("method") == "Emulation.virtualTimeBudgetExpired")
        answer = self._ask("Runtime.evaluate", session, expression=_DOCUMENT)
        self._ask("Target.disposeBrowserContext", browserContextId=context)
        return str(answer["result"]["value"])

    def close(self) -> None:
        """Ends the browser and removes its profile."""
        os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._orders)
        os.close(self._answers)
        self._folder.cleanup()

    def _ask(self, method: str, session: str = "", **parameters: Any) -> Message:
        """Sends an order; returns the result of its answer."""
        self._number += 1
        number = self._number
        order: Message = {"id": number, "method": method, "params": parameters}
        if session:
            order["sessionId"] = session
        text = json.dumps(order).encode() + b"\0"
        while text:
            text = text[os.write(self._orders, text) :]
        answer = self._read(lambda message: message.get("id") == number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return dict(answer["result"])

    def _read(self, wanted: Any) -> Message:
        """The next message that is wanted; others are dropped."""
        end = time.monotonic() + _PATIENCE
        while True:
            while b"\0" not in self._unread:
                left = max(0.0, end - time.monotonic())
                if not select.select([self._answers], [], [], left)[0]:
                    raise TimeoutError("Chromium does not answer")
                read = os.read(self._answers, 1 << 16)
                if not read:
                    raise EOFError("Chromium has ended")
                self._unread += read
            text, _, self._unread = self._unread.partition(b"\0")
            message: Message = json.loads(text)
            if wanted(message):
                return message


def _high(ends: tuple[int, int]) -> tuple[int, int]:
    """The ends of a pipe under numbers that the browser's own do not overwrite."""
    read, write = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return read, write
