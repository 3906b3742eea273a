"""Opens pdb at the first finding of a run: at its line, in its program, with its values.

The launch is repeated on the memory as it was before. Programs before the program of the finding
run as native code. The program of the finding runs eagerly, as Python. Afterwards memory is
restored to the results of the launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from ttools.core.errors import KernelError, TtoolsError
from ttools.core.findings.findings import Finding
from ttools.core.reports.text import finding_text
from ttools.interpreter.abi.module import Instruments
from ttools.interpreter.eager.debugging.stopping import StoppingDebugger, StopPoint
from ttools.interpreter.run.address_book import AddressBook
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.sanitizer.launch.checked import CheckedLaunch
from ttools.sanitizer.memory.launch_state import SavedMemory
from ttools.sanitizer.memory.uninitialised import UninitialisedMemory

_GUARDED = Instruments(guards=True)
_QUIT = 1
_NO_SOURCE = "This launch has no Python source that could be debugged."
_NOT_REACHED = "The program ended without reaching this line when it ran as Python."


class PostMortem:
    """Opens the debugger at the first finding that is severe enough and not suppressed.

    Args:
        chooses: Returns the finding of a launch that is to be debugged, or None.

    Attributes:
        around: Returns a context in which the debugger has the terminal.
        done: True once a finding has been debugged.
    """

    def __init__(self, chooses: Callable[[Sequence[Finding]], Finding | None]) -> None:
        self.chooses = chooses
        self.around: Callable[[], AbstractContextManager[object]] = nullcontext
        self.done = False

    def before(
        self, launch: KernelLaunch, memory: UninitialisedMemory, book: AddressBook
    ) -> SavedMemory | None:
        """Save the memory that a launch may write; None if a finding has already been debugged."""
        if self.done:
            return None
        state = SavedMemory(launch.values, memory)
        if launch.written_storages is None:
            state.add(book.on_host())
        return state

    def look(self, checked: CheckedLaunch, before: SavedMemory | None) -> None:
        """Start the debugger at a launch's first finding that is severe enough and not suppressed.

        Args:
            checked: The launch, which has ended.
            before: A snapshot of memory before the launch, as returned by `before()`.

        Raises:
            SystemExit: The user left the debugger.
        """
        finding = None if self.done or before is None else self.chooses(checked.findings)
        if finding is None or before is None:
            return
        text = finding_text(finding, Path.cwd())
        stop = None if finding.location is None else StopPoint(finding.location, finding.iteration)
        self._debug(checked, before, finding.program or (0, 0, 0), stop, text)

    def look_at_failure(
        self, checked: CheckedLaunch, before: SavedMemory | None, error: KernelError
    ) -> None:
        """Debug a launch that ended in an error, such as a failed `device_assert`.

        Raises:
            SystemExit: The user left the debugger.
        """
        if not self.done and before is not None:
            self._debug(checked, before, error.program or (0, 0, 0), None, str(error))

    def _debug(
        self,
        checked: CheckedLaunch,
        before: SavedMemory,
        program: tuple[int, int, int],
        stop: StopPoint | None,
        text: str,
    ) -> None:
        self.done = True
        launch = checked.launch
        linear = checked.spec.linear(program)
        after, monitor = before.again(), launch.monitor
        before.restore()
        try:
            _run_earlier_programs(checked, linear)
            with self.around():
                _interact(launch.eagerly, str(linear), stop, text)
        finally:
            launch.monitor = monitor
            after.restore()


def _interact(
    run: Callable[[str], None] | None, program: str, stop: StopPoint | None, text: str
) -> None:
    # The debugger uses the streams that are current when it is created, so it is created after
    # they have been connected to the terminal.
    debugger = StoppingDebugger(stop, f"\n{text}\n")
    if run is None:
        debugger.message(f"{text}\n{_NO_SOURCE}")
    elif not debugger.debug(lambda: run(program)):
        debugger.message(f"{text}\n{_NOT_REACHED}")
    if debugger.left:
        raise SystemExit(_QUIT)


def _run_earlier_programs(checked: CheckedLaunch, linear: int) -> None:
    """Run the programs before the given one, unless programs wait for each other."""
    launch = checked.launch
    if not linear or checked.kernel.waits:
        return
    options = replace(launch.run.launch_options, programs=f"0:{linear}")
    try:
        launch.execute(
            _GUARDED,
            regions=checked.regions,
            allocations=checked.addresses.allocations,
            options=options,
        )
    except TtoolsError:
        return  # an earlier program also fails; memory stays as that failure left it
