"""Runs autotuned launches in every configuration, all on the same inputs.

Before each configuration, the memory of the arguments is restored to its state before the first
configuration. After the last configuration, the results of the first configuration that ran without
an error are restored. A configuration that fails becomes a finding.
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

#: Names of exceptions for which Triton's autotuner skips a configuration.
SKIPPED_BY_TRITON = ("OutOfResources", "CompileTimeAssertionFailure", "PTXASError")

#: Memory before the configuration that is running; None outside such a configuration.
_before: ContextVar[SavedMemory | None] = ContextVar("ttools_state_before_config", default=None)


class AllConfigs:
    """Runs all configurations of autotuned kernels.

    If the arguments of an earlier launch were equal numbers and tensors of equal layout, a launch
    runs only in the first configuration. This keeps loops over launches fast.

    Args:
        book: Address ranges of the tensors of the run.
        memory: Records which memory was never written.
        report: Called with a finding for each configuration that fails.
    """

    def __init__(
        self, book: AddressBook, memory: UninitialisedMemory, report: Callable[[Finding], None]
    ) -> None:
        self._book, self._memory, self._report = book, memory, report
        self._signatures: WeakKeyDictionary[Any, set[object]] = WeakKeyDictionary()

    def tune(self, launch: TunedCall) -> Any:
        """Run a launch in each configuration; keep the results of the first that succeeds.

        Raises:
            Exception: All configurations failed; this is the exception of the first configuration.
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
        """True while a launch runs in one of several configurations."""
        return _before.get() is not None

    def before_execution(self, launch: KernelLaunch) -> None:
        """Save all memory on the host if a launch may write more than its arguments point to."""
        state = _before.get()
        if state is not None and launch.written_storages is None:
            state.add(self._book.on_host())

    def _run(
        self, launch: TunedCall, config: Any, before: SavedMemory
    ) -> tuple[Exception | None, Any]:
        """Run one configuration; return its exception, if any, and its result."""
        with bound(_before, before):
            try:
                return None, launch.run(config)
            except Exception as error:  # noqa: BLE001 - any exception means that the configuration fails
                self._report(_failure(launch, config, error))
                return error, None

    def _is_new(self, launch: TunedCall) -> bool:
        signature = tuple((name, _layout(value)) for name, value in launch.arguments.items())
        signatures = self._signatures.setdefault(launch.tuner, set())
        is_new = signature not in signatures
        signatures.add(signature)
        return is_new


def _layout(value: Any) -> object:
    """Return the properties of an argument on which the code of a configuration may depend.

    These are numbers, and shapes, strides and alignment of tensors, but not the data of tensors.
    """
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


#: Attributes of a tensor descriptor besides its tensor.
_DESCRIBED = ("shape", "strides", "block_shape")


def _failure(launch: TunedCall, config: Any, error: Exception) -> Finding:
    name, text = type(error).__name__, str(error).strip()
    severity: Severity = "note" if name in SKIPPED_BY_TRITON else "warning"
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
