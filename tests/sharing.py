"""How processes share the tests: whole files, and what becomes of them when a process dies.

xdist 3.8 runs the test that took its process down once more, in the next process, hands out files
that are done already, for which whoever gets one waits for ever, and asks new processes too early.
"""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadFileScheduling


class FileSharing(LoadFileScheduling):  # type: ignore[misc]
    """Leaves out what the process that died has done, and what it died of."""

    def remove_node(self, node: Any) -> str | None:
        """Takes back the files of a process that has ended; returns the test that it died in."""
        files = self.assigned_work[node]
        crashed = None
        for name, ended in list(files.items()):
            due = [test for test, has_ended in ended.items() if not has_ended]
            if due and crashed is None:
                crashed = due.pop(0)
                ended[crashed] = True
            if not due:
                del files[name]
        super().remove_node(node)
        return crashed

    def _reschedule(self, node: Any) -> None:
        """Gives a process more to do, unless it is still collecting its tests."""
        if node in self.registered_collections:
            super()._reschedule(node)
