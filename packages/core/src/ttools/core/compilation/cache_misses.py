"""Explains why Triton's cache on disk lacked a compiled kernel.

Triton stores the options, the environment, the target and its version with each compiled kernel. To
explain a miss, this metadata is compared with that of the cache's other entries for the same
kernel. The cache is read after the run.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ttools.core.compilation.compilation_log import LoggedCompilation
from ttools.core.location import shown_path
from ttools.core.reports.report import counted
from ttools.core.triton_versions import disk_cache_folder

#: Metadata that Triton's compiler adds; all other metadata is part of the cache's key.
_RESULTS = frozenset(
    ("hash", "name", "shared", "tmem_size", "tensordesc_meta", "cluster_dims", "ptx_version")
)
#: If the cache has more entries than this, it is not searched.
_MOST_ENTRIES = 20_000
#: Names of metadata in reports, where they differ from Triton's names.
_NAMES = {"source_files": "the file", "triton_version": "Triton's version"}
_LONGEST_NAME = 150  # Triton truncates its file names to this length
_LOCATION = re.compile(r"\s*loc\([^)]*\)")


class CacheMisses:
    """Explains the cache misses of a run.

    Args:
        compilations: All compilations of the run; the cache entries that they stored are excluded
            from the comparison.
        folder: Folder of Triton's cache; by default the current one.
    """

    def __init__(
        self, compilations: Sequence[LoggedCompilation], folder: Path | None = None
    ) -> None:
        compiled = (entry for entry in compilations if not entry.cached)
        self._own = {str(entry.metadata.get("hash")) for entry in compiled}
        self._names = {entry.source.name[:_LONGEST_NAME] for entry in compilations}
        self._folder = folder or disk_cache_folder()

    def reason(self, entry: LoggedCompilation) -> str | None:
        """Return why the cache lacked a compiled kernel; None if it had one or was not searched."""
        if entry.cached is not False:
            return None
        if entry.always_compiles:
            return "TRITON_ALWAYS_COMPILE is set"
        if self._folder is None:
            return "unknown, because another cache manager is installed"
        if self._entries is None:
            return f"unknown, because the cache has more than {_MOST_ENTRIES:,} entries"
        entries = self._entries.get(entry.source.name[:_LONGEST_NAME], [])
        own = next((d for d in entries if d[1].get("hash") == entry.metadata.get("hash")), None)
        if own is None:
            return "unknown, because the cache no longer contains the kernel"
        others = [
            d
            for d in entries
            if d[1].get("hash") not in self._own and d[1].get("target") == own[1].get("target")
        ]
        if not others:
            return "the cache has no earlier entry of a kernel with this name for this target"
        same_file = [d for d in others if d[1].get("source_files") == own[1].get("source_files")]
        whose = "this kernel" if same_file else "a kernel with this name in another file"
        stored = f"{counted(len(others), 'entry', 'entries')} of {whose}"
        _, data = min(others, key=lambda d: len(_changed(d[1], own[1])))
        changed = _changed(data, own[1])
        if changed:
            listed = [
                f"{_NAMES.get(n, n)} is {_text(own[1], n)}, stored {_text(data, n)}"
                for n in changed[:3]
            ]
            return f"{stored}: the most similar one differs: {'; '.join(listed)}"
        headers = {header for folder, _ in others if (header := _header(folder, entry)) is not None}
        if _header(own[0], entry) in headers:
            return f"{stored}: the text of the kernel or a callee, a constant or the file changed"
        return f"{stored}: none has this specialisation"

    @cached_property
    def _entries(self) -> dict[str, list[tuple[Path, dict[str, Any]]]] | None:
        """Return folder and metadata of cache entries for the run's kernels; None if too many."""
        assert self._folder is not None
        entries_of: dict[str, list[tuple[Path, dict[str, Any]]]] = {}
        try:
            with os.scandir(self._folder) as entries:
                folders = [Path(entry.path) for entry in entries if entry.is_dir()]
        except OSError:
            return entries_of
        if len(folders) > _MOST_ENTRIES:
            return None
        for folder in folders:
            for name in self._names:
                data = _read(folder / f"{name}.json")
                if data is not None:
                    entries_of.setdefault(name, []).append((folder, data))
        return entries_of


def _read(path: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):  # another process may be writing or removing it
        return None
    return data if isinstance(data, dict) else None


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return [
        name
        for name in {**now, **before}
        if name not in _RESULTS
        and not name.startswith(("global_scratch", "profile_scratch"))
        and before.get(name) != now.get(name)
    ]


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    if isinstance(value, list):
        texts = map(str, value)
        return ", ".join(map(shown_path, texts) if name == "source_files" else texts) or "none"
    return "not set" if value is None else str(value)


def _header(folder: Path, entry: LoggedCompilation) -> str | None:
    """Return the line of a stored kernel that declares its parameters, with locations removed."""
    path = folder / f"{entry.source.name[:_LONGEST_NAME]}.source"
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return None
    return next((_LOCATION.sub("", line) for line in lines if "tt.func public" in line), None)
