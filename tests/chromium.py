"""A headless Chromium that opens several pages one after another, each with a separate profile.

The module speaks the DevTools protocol (https://chromedevtools.github.io/devtools-protocol) through
pipes: JSON objects, each terminated by a zero byte, on file descriptors 3 and 4 of the browser. One
browser serves all tests because starting it takes most of the time of opening a page.
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
#: Seconds to wait for a message of the browser; generous, because the machine may be busy.
_PATIENCE = 120.0
#: Milliseconds of virtual time by which the timers of a page are advanced.
_VIRTUAL_MS = 5000
_DOCUMENT = (
    "(document.doctype ? new XMLSerializer().serializeToString(document.doctype) : '')"
    " + document.documentElement.outerHTML"
)


class Chromium:
    """A browser process, which the constructor starts.

    Args:
        browser: Path of the executable.
    """

    def __init__(self, browser: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ttools-chromium-")
        browser_input, self._orders = _high(os.pipe())
        self._answers, browser_output = _high(os.pipe())
        arguments = [
            *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *("--disable-background-networking", "--disable-dev-shm-usage"),
            *("--remote-debugging-pipe", f"--user-data-dir={self._folder.name}"),
        ]
        files: list[tuple[Any, ...]] = [
            (os.POSIX_SPAWN_DUP2, browser_input, 3),
            (os.POSIX_SPAWN_DUP2, browser_output, 4),
            *((os.POSIX_SPAWN_OPEN, n, os.devnull, os.O_RDWR, 0) for n in range(3)),
        ]
        self._pid = os.posix_spawn(browser, arguments, os.environ, file_actions=files, setsid=True)
        os.close(browser_input)
        os.close(browser_output)
        self._number = 0
        self._unread = b""

    def dump_dom(self, page: Path) -> str:
        """Return the HTML of a page after its scripts have run."""
        return str(self.evaluate(page, _DOCUMENT))

    def evaluate(self, page: Path, expression: str, *, width: int = 0, dark: bool = False) -> Any:
        """Return the value of a JavaScript expression in a page after its scripts have run.

        Args:
            page: The file to open.
            expression: An expression whose value can be written as JSON.
            width: Width of the window in pixels; 0 for Chromium's default.
            dark: If True, the page is asked for its dark colours.
        """
        context, session = self._open(page, width, dark)
        arguments = {"expression": expression, "returnByValue": True}
        answer = self._ask("Runtime.evaluate", session, **arguments)
        self._ask("Target.disposeBrowserContext", browserContextId=context)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", answer))
        return answer["result"].get("value")

    def _open(self, page: Path, width: int, dark: bool) -> tuple[str, str]:
        """Open a page in a new profile and run its scripts; return the profile and the session."""
        context = self._ask("Target.createBrowserContext")["browserContextId"]
        options = {"url": "about:blank", "browserContextId": context}
        target = self._ask("Target.createTarget", **options)["targetId"]
        attached = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        session = attached["sessionId"]
        self._ask("Page.enable", session)
        if width:
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            self._ask("Emulation.setDeviceMetricsOverride", session, **size)
        if dark:
            features = [{"name": "prefers-color-scheme", "value": "dark"}]
            self._ask("Emulation.setEmulatedMedia", session, features=features)
        self._ask("Page.navigate", session, url=page.as_uri())
        self._read(lambda message: message.get("method") == "Page.loadEventFired")
        policy = {"policy": "advance", "budget": _VIRTUAL_MS}
        self._ask("Emulation.setVirtualTimePolicy", session, **policy)
        self._read(lambda message: message.get("method") == "Emulation.virtualTimeBudgetExpired")
        return context, session

    def close(self) -> None:
        """Kill the browser and remove its profile."""
        os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._orders)
        os.close(self._answers)
        self._folder.cleanup()

    def _ask(self, method: str, session: str = "", **parameters: Any) -> Message:
        """Call a DevTools method and return its result."""
        self._number += 1
        number = self._number
        request: Message = {"id": number, "method": method, "params": parameters}
        if session:
            request["sessionId"] = session
        text = json.dumps(request).encode() + b"\0"
        while text:
            text = text[os.write(self._orders, text) :]
        answer = self._read(lambda message: message.get("id") == number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return dict(answer["result"])

    def _read(self, wanted: Any) -> Message:
        """Return the next message for which `wanted` returns True; drop the others."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            while b"\0" not in self._unread:
                remaining = max(0.0, deadline - time.monotonic())
                if not select.select([self._answers], [], [], remaining)[0]:
                    raise TimeoutError("Chromium does not answer")
                chunk = os.read(self._answers, 1 << 16)
                if not chunk:
                    raise EOFError("Chromium has ended")
                self._unread += chunk
            text, _, self._unread = self._unread.partition(b"\0")
            message: Message = json.loads(text)
            if wanted(message):
                return message


def _high(ends: tuple[int, int]) -> tuple[int, int]:
    """Move the ends of a pipe to descriptors of 10 or more, because the browser's are 0 to 4."""
    read, write = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return read, write
