"""`ttools inspect`: what the compiler makes of a kernel, for GPUs that need not be there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ttools.cli import inspect_options, options
from ttools.cli.console import require_folder, say, write_text
from ttools.cli.kernel_file import load_kernel
from ttools.cli.targets import TTIR_SUFFIX, is_kernel, read_target
from ttools.cli.work import run_work, take_over_from_upstream
from ttools.core.errors import UsageError

if TYPE_CHECKING:
    from ttools.core.compilation.inspection import Inspection
    from ttools.core.compilation.kernel_source import KernelSource
    from ttools.core.compilation.targets import Target

_NO_GPU = "sm_90"


def inspect_command(
    words: inspect_options.InspectedArgument = None,
    module: options.ModuleOption = None,
    code: options.CodeOption = None,
    signature: inspect_options.SignatureOption = None,
    target: inspect_options.TargetOption = None,
    stage: inspect_options.StageOption = None,
    only: inspect_options.InspectedOnlyOption = None,
    num_warps: inspect_options.NumWarpsOption = None,
    num_stages: inspect_options.NumStagesOption = None,
    against: inspect_options.AgainstOption = None,
    device_map: options.DeviceMapOption = None,
    form: inspect_options.InspectionFormatOption = inspect_options.InspectionFormat.TEXT,
    output: options.OutputOption = None,
    output_dir: inspect_options.OutputDirOption = None,
) -> None:
    """Show what the compiler makes of kernels: stages, registers, occupancy, accesses, layouts.

    What is inspected is FILE.py:KERNEL with a signature, a .ttir file, or a script, whose launches
    are captured while it runs. No GPU is needed. The exit status is the script's own; 1 if a kernel
    does not compile.
    """
    from ttools.core.compilation.inspection import inspect_sources
    from ttools.core.compilation.stages import CompilationError, read_stages

    stages = read_stages(stage or [])
    targets = _targets(target or [])
    require_folder(output)
    launch = {
        name: value
        for name, value in (("num_warps", num_warps), ("num_stages", num_stages))
        if value is not None
    }
    status, sources = _sources(words or [], module, code, signature, launch, only or [], device_map)
    try:
        found = [each for name in targets for each in inspect_sources(sources, name)]
        beside = None
        if against is not None:
            beside = _against(against, found, signature, launch)
        if output_dir is not None:
            _save(found, output_dir)
        _write(found, beside, stages, form, output)
    except CompilationError as error:
        say("error", str(error))
        raise typer.Exit(1) from None
    raise typer.Exit(status)


def _targets(names: Sequence[str]) -> list[Target]:
    from ttools.core.compilation import targets

    if names:
        return [targets.read_target(name) for name in names]
    machine = targets.target_of_machine()
    if machine is None:
        say("note", f"no GPU here: compiling for {_NO_GPU} (--target names others)")
    return [machine or targets.read_target(_NO_GPU)]


def _sources(
    words: Sequence[str],
    module: str | None,
    code: str | None,
    signature: str | None,
    launch: dict[str, int],
    only: Sequence[str],
    device_map: options.DeviceMap | None,
) -> tuple[int, list[KernelSource]]:
    """The script's exit status, and what is to be compiled."""
    if module is None and code is None and words:
        named = _named(words[0], signature, launch)
        if named is not None:
            if len(words) > 1:
                raise UsageError(f"`{words[0]}` takes no arguments, but got `{words[1]}`")
            return 0, [named]
    if signature is not None:
        raise UsageError("--signature is for FILE.py:KERNEL; a script's launches have their own")
    if launch:
        raise UsageError("--num-warps and --num-stages are for FILE.py:KERNEL and .ttir files")
    work = read_target(words, module, code)
    take_over_from_upstream("ttools captures launches")
    from ttools.core.compilation.specialisation import captured
    from ttools.sanitizer.api import sanitize

    # Kernels run, since scripts go by their results; a wrong one must not end the process.
    with captured(names=only) as sources, sanitize(checks="memcheck", first_config=True):
        status = run_work(work, device_map)
    if not sources:
        which = f" named {', '.join(only)}" if only else ""
        raise UsageError(f"no kernel{which} was launched, so there is nothing to inspect")
    return status, sources


def _named(word: str, signature: str | None, launch: dict[str, int]) -> KernelSource | None:
    """A kernel in a file, or a .ttir file; None for a script."""
    from ttools.core.compilation.kernel_source import source_of_file, source_of_signature

    if word.endswith(TTIR_SUFFIX):
        return source_of_file(Path(word), launch)
    if not is_kernel(word):
        return None
    function = load_kernel(word)
    if signature is None:
        names = ", ".join(function.arg_names)
        raise UsageError(
            f"`{word}` needs --signature, an entry for each of {names}: "
            "'*fp32:16,i32,1024' for a pointer divisible by 16, an integer and a constant"
        )
    return source_of_signature(function, signature, launch)


def _against(
    other: str, found: Sequence[Inspection], signature: str | None, launch: dict[str, int]
) -> tuple[Inspection, Inspection]:
    """The one inspected and what it is compared with: another kernel, or another target."""
    from ttools.core.compilation import targets
    from ttools.core.compilation.inspection import inspect_sources

    if len(found) != 1:
        kernels = ", ".join(sorted({each.source.name for each in found}))
        raise UsageError(
            f"--against compares one kernel, but there are {len(found)} compilations ({kernels}); "
            "name one with --only and one --target"
        )
    base = found[0]
    source = _named(other, signature, launch)
    if source is not None:
        return base, inspect_sources([source], base.target)[0]
    return base, inspect_sources([base.source], targets.read_target(other))[0]


def _save(found: Sequence[Inspection], folder: Path) -> None:
    """Writes each stage to a file; equal names get numbers."""
    from ttools.core.compilation.annotation import SUFFIXES

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for inspection, stem in zip(found, _stems(found), strict=True):
            for stage in inspection.compilation.stages:
                text = inspection.compilation.text(stage)
                (folder / f"{stem}.{SUFFIXES.get(stage, stage)}").write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"cannot write to `{folder}`: {error.strerror}") from error
    say("note", f"the stages of {len(found)} compilations are in {folder}")


def _stems(found: Sequence[Inspection]) -> Iterator[str]:
    used: dict[str, int] = {}
    for inspection in found:
        stem = f"{inspection.source.name}.{inspection.target.name}"
        used[stem] = used.get(stem, 0) + 1
        yield stem if used[stem] == 1 else f"{stem}.{used[stem]}"


def _write(
    found: Sequence[Inspection],
    beside: tuple[Inspection, Inspection] | None,
    stages: Sequence[str],
    form: inspect_options.InspectionFormat,
    output: Path | None,
) -> None:
    from ttools.core.compilation import html, text

    if form is inspect_options.InspectionFormat.JSON:
        data = {
            "schema": "ttools.inspection/1",
            "kernels": [each.as_dict(stages) for each in found],
            "against": beside[1].as_dict(stages) if beside else None,
        }
        write_text(json.dumps(data, indent=2, default=str) + "\n", output)
    elif form is inspect_options.InspectionFormat.HTML:
        shown = [*found, beside[1]] if beside else found
        write_text(html.write_page(shown, stages, beside), output)
    elif beside is not None:
        write_text(text.write_comparison(*beside), output)
    else:
        write_text("\n".join(text.write(each, stages) for each in found), output)
