"""The kernels of a record as sources for a compiler.

A record is an untrusted file, so its text is passed to Triton's parser only after the parser of
ttools has accepted it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.errors import UsageError
from ttools.core.records.excerpts import show
from ttools.core.records.launch_record import LaunchRecord
from ttools.core.records.reading import read_record
from ttools.core.spec import CompileOptions
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
    sources: dict[tuple[str, CompileOptions], KernelSource] = {}
    for launch in record.launches:
        key = launch.ttir, launch.spec.options
        if key in sources or (only and launch.spec.kernel not in only):
            continue
        show(record.excerpts, _module(path, launch).files())
        sources[key] = _source(launch, folder / f"{len(sources)}.ttir", options)
    if not sources:
        listed = ", ".join(sorted({launch.spec.kernel for launch in record.launches}))
        raise UsageError(f"{path} has no kernel named {', '.join(only)}; it has {listed}")
    return list(sources.values())


def _source(launch: LaunchRecord, file: Path, options: Mapping[str, Any]) -> KernelSource:
    """Write the module of a launch to a file, and return it as a source for a compiler."""
    file.write_text(without_marks(launch.ttir), "utf-8")
    return KernelSource(
        name=launch.spec.kernel,
        path=file,
        described=launch.specialisation,
        options={**_compiled_with(launch), **options},
        launched=launch.spec.site.line,
    )


def _compiled_with(launch: LaunchRecord) -> dict[str, int]:
    """Return the compilation options of the launch, as far as they were recorded."""
    if launch.has_options:
        own = launch.spec.options
        return {
            "num_warps": own.warps,
            "num_ctas": own.blocks,
            "num_stages": own.stages,
            "enable_fp_fusion": own.fp_fusion,
        }
    block_options = {name: (launch.spec.site.config or {}).get(name) for name in _OPTIONS}
    return {name: value for name, value in block_options.items() if isinstance(value, int)}


class RecordedKernel:
    """A kernel of a record, which is compared by identity.

    Args:
        path: Path of the record.
        launch: A launch of the kernel.
    """

    def __init__(self, path: Path, launch: LaunchRecord) -> None:
        self._path, self._launch = path, launch
        #: A message about what the record lacks for compilation; empty if it is complete.
        self.missing = ""
        if "num_warps" not in _compiled_with(launch):
            self.missing = (
                f"{path} was written by an earlier version of ttools and lacks num_warps; 4 is "
                "assumed, which affects registers, occupancy and projection"
            )

    @cached_property
    def source(self) -> KernelSource:
        """The kernel as a source for a compiler.

        Raises:
            UsageError: The record's text is not TTIR as Triton prints it.
        """
        _module(self._path, self._launch)
        self._folder = TemporaryDirectory(prefix="ttools-record-")
        return _source(self._launch, Path(self._folder.name) / "kernel.ttir", {})


def _module(path: Path, launch: LaunchRecord) -> Module:
    name = f"kernel `{launch.spec.kernel}` of {path}"
    module = parse_foreign(launch.ttir, name)
    refuse_damaged_ttir(launch.ttir, name)
    return module
