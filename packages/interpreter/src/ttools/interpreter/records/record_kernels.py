"""The kernels of a record as sources for a compiler.

A record is an untrusted file, so its text is passed to Triton's parser only after the parser of
ttools has accepted it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.errors import UsageError
from ttools.core.records.excerpts import show
from ttools.core.records.launch_record import LaunchRecord
from ttools.core.records.reading import read_record
from ttools.core.triton_versions import refuse_damaged_ttir
from ttools.interpreter.frontend.descriptors import without_marks
from ttools.ir import Module
from ttools.ir.parser import parse_foreign

_OPTIONS = ("num_warps", "num_stages")


def kernels_of_record(
    path: Path, folder: Path, options: Mapping[str, Any], only: Sequence[str] = ()
) -> list[KernelSource]:
    """Return the kernels of a record, with the specialisations with which they were compiled.

    The excerpts of their source in the record become available for messages.

    Args:
        path: Path of the record.
        folder: Directory to which the TTIR is written.
        options: Launch options, which override those of an autotuner's configuration.
        only: Names of kernels; all by default.

    Raises:
        UsageError: The file is not a record or is damaged, or no kernel has one of the names.
    """
    record = read_record(path)
    sources: dict[str, KernelSource] = {}
    for launch in record.launches:
        if launch.ttir in sources or (only and launch.spec.kernel not in only):
            continue
        show(record.excerpts, _module(path, launch).files())
        file = folder / f"{len(sources)}.ttir"
        file.write_text(without_marks(launch.ttir), "utf-8")
        sources[launch.ttir] = KernelSource(
            name=launch.spec.kernel,
            path=file,
            described=launch.specialisation,
            options={**_compiled_with(launch), **options},
            launched=launch.spec.site.line,
        )
    if not sources:
        listed = ", ".join(sorted({launch.spec.kernel for launch in record.launches}))
        raise UsageError(f"{path} has no kernel named {', '.join(only)}; it has {listed}")
    return list(sources.values())


def _compiled_with(launch: LaunchRecord) -> dict[str, int]:
    """Return `num_warps` and `num_stages` of the autotuner's configuration, if there was one."""
    block_options = {name: (launch.spec.site.config or {}).get(name) for name in _OPTIONS}
    return {name: value for name, value in block_options.items() if isinstance(value, int)}


def _module(path: Path, launch: LaunchRecord) -> Module:
    name = f"kernel `{launch.spec.kernel}` of {path}"
    module = parse_foreign(launch.ttir, name)
    refuse_damaged_ttir(launch.ttir, name)
    return module
