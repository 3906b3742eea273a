"""Runs autotuned launches in every configuration, each on the memory that the first one found.

Owns the order of the configurations, what is put back between them, and what is said of those that
do not run. Must not know what is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from ttools.core.context_values import bound
from ttools.core.findings.findings import Finding, Severity
from ttools.core.process.host_line import host_line
from ttools.interpreter.run.address_book import AddressBook
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.run.tuned_launch import TunedCall
from ttools.sanitizer.memory.launch_state import SavedMemory
from ttools.sanitizer.memory.uninitialised import UninitialisedMemory

#: What Triton's own tuner takes for a configuration that does not suit the machine.
_SKIPPED_BY_TRITON = ("OutOfResources", "CompileTimeAssertionFailure", "PTXASError")

#: What the configuration being run will be taken back to.
_before: ContextVar[SavedMemory | None] = ContextVar("ttools_state_before_config", default=None)


class AllConfigs:
    """Runs all configurations of autotuned kernels.

    A launch with arguments like those of an earlier one (equal numbers, tensors of equal layout)
    runs in the first configuration only, so that loops stay affordable.

    Args:
        book: the addresses that the run knows.
        memory: knows which memory was never written.
        report: takes findings on configurations that do not run.
    """

    def __init__(
        self, book: AddressBook, memory: UninitialisedMemory, report: Callable[[Finding], None]
    ) -> None:
        self._book, self._memory, self._report = book, memory, report
        self._seen: WeakKeyDictionary[Any, set[object]] = WeakKeyDictionary()

    def tune(self, launch: TunedCall) -> Any:
        """Runs a launch; what it leaves is what the first configuration that runs leaves.

        Raises:
            Exception: what the first configuration raises, if none of them runs.
        """
        if len(launch.configs) <= 1 or not self._is_new(launch):
            return launch.run(launch.configs[0])
        before = SavedMemory(launch.arguments.values(), self._memory)
        after: SavedMemory | None = None
        result, first_error = None, None
        for config in launch.configs:
            if config is not launch.configs[0]:
                before.restore()
            error, returned = self._run(launch, config, before)
            if error is not None:
                first_error = first_error or error
            elif after is None:
                after, result = before.again(), returned
        if after is None:
            assert first_error is not None
            raise first_error
        after.restore()
        return result

    @property
    def is_trial(self) -> bool:
        """Whether a launch is one configuration of several."""
        return _before.get() is not None

    def before_execution(self, launch: KernelLaunch) -> None:
        """Saves what else a launch may write, if its arguments do not show it; called for each."""
        state = _before.get()
        if state is not None and launch.written_storages is None:
            state.add(self._book.on_host())

    def _run(
        self, launch: TunedCall, config: Any, before: SavedMemory
    ) -> tuple[Exception | None, Any]:
        """What a configuration raised, what it returned."""
        with bound(_before, before):
            try:
                return None, launch.run(config)
            except Exception as error:  # noqa: BLE001 - whatever a configuration breaks on
                self._report(_failure(launch, config, error))
                return error, None

    def _is_new(self, launch: TunedCall) -> bool:
        signature = tuple((name, _layout(value)) for name, value in launch.arguments.items())
        seen = self._seen.setdefault(launch.tuner, set())
        is_new = signature not in seen
        seen.add(signature)
        return is_new


def _layout(value: Any) -> object:
    """What configurations may treat differently: numbers and layouts, not the data of tensors."""
    if isinstance(value, (bool, int, float, str, type(None))):
        return type(value), value
    if isinstance(value, (list, tuple)):
        return tuple(map(_layout, value))
    base = getattr(value, "base", None)
    if hasattr(base, "data_ptr"):
        return type(value), _layout(base), *(_layout(getattr(value, n, None)) for n in _DESCRIBED)
    if hasattr(value, "data_ptr"):
        shape = tuple(int(n) for n in value.shape)
        strides = tuple(int(value.stride(n)) for n in range(len(shape)))
        return str(value.dtype), shape, strides, value.data_ptr() % 16
    return type(value)


#: What tensor descriptors add to their tensor.
_DESCRIBED = ("shape", "strides", "block_shape")


def _failure(launch: TunedCall, config: Any, error: Exception) -> Finding:
    name, text = type(error).__name__, str(error).strip()
    severity: Severity = "note" if name in _SKIPPED_BY_TRITON else "warning"
    last = text.splitlines()[-1].strip() if text else "no message"
    return Finding(
        kind="config_failed",
        check="configs",
        severity=severity,
        message=f"a configuration does not run: {name}: {last}",
        kernel=launch.kernel,
        launch=host_line(),
        config={k: v for k, v in config.all_kwargs().items() if v is not None},
    )
