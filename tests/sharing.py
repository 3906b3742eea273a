"""Scheduler of test files for pytest-xdist that also works if a worker process dies.

When a worker dies, the scheduler of xdist 3.8 repeats the test that crashed in another worker. It
also reassigns files of which all tests have ended, for which the other worker waits for ever, and
gives work to a new worker before that worker has collected its tests.
"""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadFileScheduling


class FileSharing(LoadFileScheduling):  # type: ignore[misc]
    """Scheduler that reassigns only those tests of a dead worker that it had not started."""

    def remove_node(self, node: Any) -> str | None:
        """Remove a worker and return the test during which it died, or None if there is none.

        `assigned_work[node]` maps each file of the worker to its tests, and each test to whether it
        has ended. Tests run in this order, so the first one that has not ended is the one that
        crashed; it is marked as ended. Files without further tests are removed, and xdist
        reassigns the remaining ones.
        """
        files = self.assigned_work[node]
        crashed = None
        for name, ended in list(files.items()):
            pending = [test for test, has_ended in ended.items() if not has_ended]
            if pending and crashed is None:
                crashed = pending.pop(0)
                ended[crashed] = True
            if not pending:
                del files[name]
        super().remove_node(node)
        return crashed

    def _reschedule(self, node: Any) -> None:
        """Give a worker more files, unless it is still collecting its tests."""
        if node in self.registered_collections:
            super()._reschedule(node)
