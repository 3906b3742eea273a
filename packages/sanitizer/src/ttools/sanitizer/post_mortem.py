"""Looks at the first finding of a run in pdb: at its line, in its program, with what it saw.

The launch is made again on the memory that it found: the programs before the finding's own as
native code, that one eagerly. What the launch left is put back afterwards. Must not know how
findings are made.
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
_NO_SOURCE = "there is no Python source of this launch to debug"
_NOT_REACHED = "The program ended without coming to this line when it ran as Python."


class PostMortem:
    """Waits for the first finding that counts, and debugs it.

    Args:
        chooses: the finding to look at among those of a launch; None if none of them counts.
        around: what to enter while the user looks, to give them the terminal.

    Attributes:
        done: whether there was one.
    """

    def __init__(
        self,
        chooses: Callable[[Sequence[Finding]], Finding | None],
        around: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self.chooses = chooses
        self.around = around
        self.done = False

    def before(
        self, launch: KernelLaunch, memory: UninitialisedMemory, book: AddressBook
    ) -> SavedMemory | None:
        """What the launch is about to find, unless a finding was looked at already."""
        if self.done:
            return None
        state = SavedMemory(launch.values, memory)
        if launch.written_storages is None:
            state.add(book.on_host())
        return state

    def look(self, checked: CheckedLaunch, before: SavedMemory | None) -> None:
        """Debugs the first of a launch's findings that counts.

        Raises:
            SystemExit: the user left the debugger.
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
        """Debugs a launch that ended in an error, such as a failed `device_assert`.

        Raises:
            SystemExit: the user left the debugger.
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
        x, y, _ = checked.spec.grid
        linear = program[0] + x * (program[1] + y * program[2])
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
    # Made where the user has the terminal: it keeps the streams that it finds.
    debugger = StoppingDebugger(stop, f"\n{text}\n")
    if run is None:
        debugger.message(f"{text}\n{_NO_SOURCE}")
    elif not debugger.debug(lambda: run(program)):
        debugger.message(f"{text}\n{_NOT_REACHED}")
    if debugger.left:
        raise SystemExit(_QUIT)


def _run_earlier_programs(checked: CheckedLaunch, linear: int) -> None:
    """Does what earlier programs did to memory; what they need later ones for is left out."""
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
        return  # one of them fails too: the memory is as far as they came
