"""The marker `ttools_no_recompilation`, and the summary of compilations of a pytest run.

pytest loads this module in every run, so it imports nothing else until a test uses it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ttools.core.compilation.compilation_log import CompilationLog, LoggedCompilation

MARKER = "ttools_no_recompilation"
_ATTRIBUTE = "ttools_compilations"
_log = pytest.StashKey["CompilationLog"]()
_MOST_KERNELS = 10
_MOST_CAUSES = 3


class RecompilationPlugin:
    """The hooks of one run.

    Args:
        summarises: True to observe all tests and to summarise their compilations.
    """

    def __init__(self, summarises: bool) -> None:
        self._summarises = summarises
        self._tests = 0
        self._compilations: dict[str, Counter[str]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Observe the compilations of a test and of its fixtures."""
        if not self._summarises and item.get_closest_marker(MARKER) is None:
            return (yield)
        with _observed(item):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Fail a test that has the marker if it compiles a kernel after the warm-up."""
        marker = item.get_closest_marker(MARKER)
        if marker is None:
            return (yield)
        after = _warm_up_launches(marker)
        log = item.stash[_log]
        before = len(log.compilations)
        result = yield
        late = [
            entry
            for entry in log.compilations[before:]
            if entry.earlier_launches >= after and not entry.warm_up
        ]
        if late:
            pytest.fail("\n".join(_failure(log, late)), pytrace=False)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Attach the compilations of a test to its result, which another process may read."""
        result = yield
        log = item.stash.get(_log, None)
        if self._summarises and call.when == "teardown" and log is not None:
            vars(result)[_ATTRIBUTE] = list(_described(log))
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the compilations of a test."""
        rows = getattr(report, _ATTRIBUTE, None)
        if rows:
            self._tests += 1
            for kernel, cause in rows:
                self._compilations.setdefault(kernel, Counter())[cause] += 1

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print how often kernels were compiled, and why."""
        if self._summarises:
            for line in self.summary():
                terminalreporter.write_line(line)

    def summary(self) -> Iterator[str]:
        """Yield the lines of the summary."""
        from ttools.core.reports.report import counted

        total = sum(sum(kinds.values()) for kinds in self._compilations.values())
        if not total:
            yield "ttools compilations: no Triton kernel was compiled"
            return
        yield (
            f"ttools compilations: {total:,} of {counted(len(self._compilations), 'kernel')} in "
            f"{counted(self._tests, 'test')}"
        )
        ordered = sorted(self._compilations.items(), key=lambda item: -sum(item[1].values()))
        for kernel, kinds in ordered[:_MOST_KERNELS]:
            shown = [f"{cause} ({n})" for cause, n in kinds.most_common(_MOST_CAUSES)]
            rest = len(kinds) - len(shown)
            more = f", {counted(rest, 'other cause')}" if rest else ""
            yield f"  {sum(kinds.values()):>5,} {kernel}: {', '.join(shown)}{more}"
        if len(ordered) > _MOST_KERNELS:
            yield f"  … {counted(len(ordered) - _MOST_KERNELS, 'more kernel')}"


@contextmanager
def _observed(item: pytest.Item) -> Iterator[None]:
    from ttools.core.compilation.compilation_log import observe_compilations

    with observe_compilations() as log:
        item.stash[_log] = log
        try:
            yield
        finally:
            del item.stash[_log]


def _warm_up_launches(marker: pytest.Mark) -> int:
    """Return the number of initial launches of a kernel that may compile it."""
    after = marker.kwargs.get("after", 1)
    if marker.args or set(marker.kwargs) - {"after"}:
        pytest.fail(f"@pytest.mark.{MARKER} accepts only after=...", pytrace=False)
    if type(after) is not int or after < 0:
        pytest.fail(
            f"@pytest.mark.{MARKER}: after={after!r} is not a number of launches, such as 1",
            pytrace=False,
        )
    return after


def _failure(log: CompilationLog, late: Sequence[LoggedCompilation]) -> Iterator[str]:
    from ttools.core.compilation.compilation_causes import causes
    from ttools.core.location import shown_line, shown_place
    from ttools.core.reports.report import counted

    for entries in log.by_kernel():
        for entry, cause in zip(entries, causes(entries), strict=True):
            if entry not in late:
                continue
            file, line, _ = entry.kernel
            launches = counted(entry.earlier_launches, "launch", "launches")
            yield (
                f"{shown_place(file, line)}: `{entry.source.name}` was compiled after {launches}: "
                f"{cause}"
            )
            if entry.source.launched:
                yield f"  launched at {shown_line(entry.source.launched)}"
            remedies = [d.remedy for d in cause.differences if d.remedy is not None]
            if remedies and len(remedies) == len(cause.differences):
                yield f"  help: {' and '.join(remedies)} avoids this compilation"


def _described(log: CompilationLog) -> Iterator[list[str]]:
    """Yield the kernel and the cause of each compilation."""
    from ttools.core.compilation.compilation_causes import causes
    from ttools.core.location import shown_place

    for entries in log.by_kernel():
        for entry, cause in zip(entries, causes(entries), strict=True):
            file, line, _ = entry.kernel
            parts = [f"{d.kind} of {d.name}" if d.name else d.kind for d in cause.differences]
            kernel = f"{entry.source.name} ({shown_place(file, line)})"
            yield [kernel, " and ".join(parts) or "first compilation"]
