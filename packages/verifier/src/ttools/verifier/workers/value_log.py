"""Logs the values that kernels compute while a candidate is called, on the engine or on a GPU.

This module allocates the memory of the logs. It has Triton compile the kernels again, after
`instrumented` has rewritten them to store their values.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from ttools.core.patches import Patches
from ttools.core.triton_versions import changed_ttir
from ttools.verifier.workers.instrumented import (
    ALIGNED,
    COUNTERS,
    FIRST,
    MODULE,
    MOST,
    PROGRAMS,
    Wanted,
    instrument,
)

#: Size of a launch's logs in bytes, and the largest number of programs that are logged.
_SIZE, MOST_PROGRAMS = 32 << 20, 4096
_HEADER = 8 * (COUNTERS + MOST_PROGRAMS)


@contextmanager
def logged(request: dict[str, Any] | None, device: str) -> Iterator[list[dict[str, Any]]]:
    """Log the values that kernels compute if they are launched in this context.

    Args:
        request: Optional entries `part` (index and number of parts), `seed`, `first` (first
            program) and `most` (number of programs); None for no logs.
        device: Device of the memory for the logs.

    Yields:
        A list to which each completed launch adds its log.
    """
    log: list[dict[str, Any]] = []
    if request is None:
        yield log
        return
    from triton.runtime.jit import JITFunction

    logs = _Logs(request, device)

    def observed(run: Any) -> Any:
        def launch(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("warmup"):
                return run(kernel, *args, **kwargs)
            logs.begin()
            made = run(kernel, *args, **kwargs)
            log.append({"kernel": kernel.__name__, **logs.taken()})
            return made

        return launch

    with changed_ttir(logs.rewrite), Patches() as patches:
        patches.wrap(JITFunction, "run", observed)
        yield log


class _Logs:
    """The memory of logs, and the modules that write to it."""

    def __init__(self, request: dict[str, Any], device: str) -> None:
        self._first, self._most = request.get("first", 0), request.get("most", MOST_PROGRAMS)
        self._modules: list[dict[str, Any]] = []
        self._sent: set[int] = set()
        with _disable_current_modes():
            self._memory = torch.zeros(_HEADER + _SIZE, dtype=torch.uint8, device=device)
        address = self._memory.data_ptr()
        self._wanted = Wanted(
            header=address,
            logs=address + _HEADER,
            size=_SIZE,
            part=tuple(request.get("part", (0, 1))),
            seed=request.get("seed"),
        )

    def begin(self) -> None:
        words = np.zeros(COUNTERS, np.int64)
        words[[FIRST, MOST]] = self._first, self._most
        with _disable_current_modes():
            self._memory.zero_()
            self._memory[: words.nbytes] = torch.from_numpy(words).view(torch.uint8)

    def taken(self) -> dict[str, Any]:
        """Return the log of a launch; the first launch of a module includes its description."""
        with _disable_current_modes():
            words = self._memory[:_HEADER].cpu().numpy().view(np.int64)
            programs, module = int(words[PROGRAMS]), int(words[MODULE])
            if not module:
                return {"programs": 0, "module": 0, "logs": []}
            count = min(programs, self._most)
            size = _SIZE // count & -ALIGNED
            filled = words[COUNTERS : COUNTERS + count] + self._modules[module - 1]["first"]
            whole = self._memory[_HEADER:].cpu().numpy()
        logs = [
            whole[n * size : n * size + min(int(length), size)].tobytes()
            for n, length in enumerate(filled)
            if self._first + n < programs
        ]
        answer = {"programs": programs, "module": module, "logs": logs, "lengths": filled.tolist()}
        if module not in self._sent:
            self._sent.add(module)
            answer["described"] = self._modules[module - 1]
        return answer

    def rewrite(self, module: Any, options: Any, codegen: Any) -> None:
        """Rewrite a module, and keep the description that is needed to read its logs."""
        number = len(self._modules) + 1
        self._modules.append(instrument(module, self._wanted, number, options, codegen))
