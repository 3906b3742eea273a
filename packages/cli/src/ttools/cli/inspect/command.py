"""`ttools inspect`: shows what the compiler makes of a kernel, for GPUs that need not be there.

With `--lock`, what kernels cost is written to a file, or compared with one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ttools.cli import completion, exit_codes, options
from ttools.cli.console import (
    keep_stdout_for_report,
    require_folder,
    say,
    say_interrupted,
    write_json,
    write_text,
)
from ttools.cli.kernel_file import load_kernel
from ttools.cli.progress import State, progress
from ttools.cli.targets import RECORD_SUFFIX, TTIR_SUFFIX, is_kernel, read_target
from ttools.cli.work import run_work, take_over_from_upstream
from ttools.core.errors import UsageError, file_errors

if TYPE_CHECKING:
    from ttools.core.compilation.inspection import Inspection
    from ttools.core.compilation.kernel_source import KernelSource
    from ttools.core.compilation.lock import RunCosts
    from ttools.core.gpus.targets import Target
    from ttools.profiler import Profile

    Costs = Callable[[Inspection], RunCosts | None]


_report = partial(typer.Option, rich_help_panel="Report")
_compilation = partial(typer.Option, rich_help_panel="Compilation")

InspectedArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE.py:KERNEL | FILE.ttir | SCRIPT [ARGS]...",
        show_default=False,
        help="A kernel of a file, a .ttir file, or a script and its arguments.",
    ),
]
SignatureOption = Annotated[
    str | None,
    _compilation(
        "--signature",
        metavar="TYPES",
        help="An entry per parameter: *fp32:16 (divisible by 16), i32, 1024 (a constant).",
    ),
]
TargetOption = Annotated[
    list[str] | None,
    _compilation(
        "--target",
        metavar="GPU",
        autocompletion=completion.architectures,
        help="sm_80, sm_90, sm_100, gfx942, …; repeatable. By default this machine's.",
    ),
]
StageOption = Annotated[
    list[str] | None,
    _compilation(
        "--stage",
        metavar="STAGE",
        help="Show ast, ttir, ttgir, llir, ptx, sass or amdgcn by source line; repeatable.",
    ),
]
InspectedOnlyOption = Annotated[
    list[str] | None,
    _compilation(
        "--only",
        metavar="KERNEL",
        help="Inspect only kernels of this name among those a script launches; repeatable.",
    ),
]
NumWarpsOption = Annotated[
    int | None, _compilation("--num-warps", min=1, metavar="N", help="Warps per block.")
]
NumStagesOption = Annotated[
    int | None, _compilation("--num-stages", min=1, metavar="N", help="Stages of pipelined loops.")
]
AgainstOption = Annotated[
    str | None,
    _report(
        "--against",
        metavar="OTHER",
        help="Compare with another kernel (FILE.py:KERNEL, FILE.ttir) or another target.",
    ),
]
InspectionFormatOption = Annotated[
    Literal["text", "json", "html"], _report("--format", help="Format of the report.")
]
OutputDirOption = Annotated[
    Path | None, _report("--output-dir", metavar="DIR", help="Save all stages as files.")
]
LockOption = Annotated[
    Path | None,
    _report(
        "--lock",
        metavar="FILE",
        help="Record registers, spills, shared memory, instructions, counts in a file.",
    ),
]
CheckLockOption = Annotated[
    bool,
    _report("--check", help="Compare with the --lock file instead; exit with 1 beyond its limits."),
]


def map_of_target(target: Target) -> str | None:
    """The device map that makes scripts launch what they would on a target.

    Kernels that loop over their work launch as many programs as there are multiprocessors, which
    here would be as many as this machine has processors. None where the environment says what the
    device is to be, where there is a GPU, or where no GPU with that target is known.
    """
    from ttools.core.configuration import read
    from ttools.core.device_map.mapping import VARIABLE
    from ttools.core.device_map.request import DeviceMap
    from ttools.core.environment import gpu_usable
    from ttools.core.gpus.devices import device_of

    device = device_of(target.name)
    if device is None or target.backend != "cuda" or read(VARIABLE) or gpu_usable():
        return None
    number = int(target.name.removeprefix("sm_"))
    return str(DeviceMap(capability=divmod(number, 10), sms=device.multiprocessors))


def lock_or_check(found: Sequence[Inspection], path: Path, check: bool, costs: Costs) -> int:
    """Does as `--lock` and `--check` say; returns the exit status.

    Args:
        check: whether to compare with it.
        costs: of a launch of each, None where it has none that can be compared.

    Raises:
        UsageError: the lock cannot be read or written, or has none of these kernels.
    """
    from ttools.core.compilation.lock import entry_of, write_lock

    if check:
        return _check(found, path, costs)
    total = write_lock(path, (entry_of(each, costs(each)) for each in found))
    say("note", f"{path} holds {total} {'compilation' if total == 1 else 'compilations'}")
    return exit_codes.OK


def _check(found: Sequence[Inspection], path: Path, costs: Costs) -> int:
    from ttools.core.compilation import lock_check
    from ttools.core.compilation.lock import read_lock
    from ttools.core.triton_versions.version import installed_triton

    if not path.exists():
        raise UsageError(f"there is no `{path}`; write it with --lock and without --check")
    lock = read_lock(path)
    result = lock_check.compare(lock, [lock_check.found(each, costs(each)) for each in found])
    for entry in result.unknown:
        say("note", f"{entry.kernel} for {entry.target} is not in {path}, so it is not compared")
    if not result.compared:
        locked = ", ".join(sorted({each.triton for each in lock.kernels})) or "no version"
        raise UsageError(
            f"{path} has none of these kernels as they are specialised now for Triton "
            f"{installed_triton()} (it was written with {locked}); write it again with --lock"
        )
    for each in result.regressions:
        say("error", str(each))
    if not result.regressions:
        compared = f"{result.compared} of {len(found)} compilations"
        say("note", f"{compared} are within the limits of {path}")
    return exit_codes.FINDINGS if result.regressions else exit_codes.OK


_NO_GPU = "sm_90"


def inspect_command(
    words: InspectedArgument = None,
    module: options.ModuleOption = None,
    code: options.CodeOption = None,
    signature: SignatureOption = None,
    target: TargetOption = None,
    stage: StageOption = None,
    only: InspectedOnlyOption = None,
    num_warps: NumWarpsOption = None,
    num_stages: NumStagesOption = None,
    against: AgainstOption = None,
    device_map: options.DeviceMapOption = None,
    form: InspectionFormatOption = "text",
    output: options.OutputOption = None,
    output_dir: OutputDirOption = None,
    lock: LockOption = None,
    check: CheckLockOption = False,
) -> None:
    """Show what the compiler makes of kernels: stages, registers, occupancy, accesses, layouts.

    What is inspected is FILE.py:KERNEL with a signature, a .ttir file, a record, or a script, whose
    launches are captured while it runs. No GPU is needed. The exit status is the script's own; 1 if
    a kernel does not compile, or has become dearer than --lock allows.
    """
    from ttools.core.compilation.inspection import inspect_sources
    from ttools.core.compilation.stages import CompilationError, read_stages

    stages = read_stages(stage or [])
    targets = _targets(target or [])
    require_folder(output, lock)
    if lock is None or output is not None:  # else there is no report
        keep_stdout_for_report(form, output)
    if check and lock is None:
        raise UsageError("--check compares with a file; name it by --lock")
    launch = {
        name: value
        for name, value in (("num_warps", num_warps), ("num_stages", num_stages))
        if value is not None
    }
    with TemporaryDirectory(prefix="ttools-inspect-") as folder:
        inspected = _Inspected(Path(folder), signature, launch, only or [], lock is not None)
        if lock is not None:
            device_map = device_map or map_of_target(targets[0])
        status, sources = _sources(words or [], module, code, inspected, device_map)
        say_interrupted(status, "the report")
        if lock is not None and status == exit_codes.INTERRUPTED:
            say("error", f"{lock} is neither written nor compared with: not all kernels were seen")
            raise typer.Exit(status)
        try:
            found: list[Inspection] = []
            of = len(sources) * len(targets)
            with progress(lambda: _compiled(len(found), of), shared=False):
                for name in targets:
                    inspect_sources(sources, name, found)
            beside = None
            if against is not None:
                beside = _against(against, found, inspected)
            if output_dir is not None:
                _save(found, output_dir)
            if lock is not None:
                status = lock_or_check(found, lock, check, inspected.costs) or status
            if lock is None or output is not None:
                _write(found, beside, stages, form, output)
        except CompilationError as error:
            say("error", str(error))
            raise typer.Exit(exit_codes.FINDINGS) from None
    raise typer.Exit(status)


def _compiled(done: int, of: int) -> State:
    return State(what="compiled", done=done, total=of, unit="kernels")


@dataclass(frozen=True)
class _Inspected:
    """How what is inspected is to be read.

    Attributes:
        folder: for files that are needed while it is compiled.
        signature: of a kernel in a file.
        only: names of kernels.
        counted: whether launches of a script are counted.
    """

    folder: Path
    signature: str | None
    launch: dict[str, int]
    only: Sequence[str]
    counted: bool = False
    profiles: list[Profile] = field(default_factory=list)

    def costs(self, inspection: Inspection) -> RunCosts | None:
        """What a launch of a compiled kernel does, if launches were counted."""
        found = (each.costs_of(inspection) for each in self.profiles)
        return next((each for each in found if each is not None), None)

    def running(self) -> AbstractContextManager[object]:
        """Runs kernels, and counts what they do if that is wanted."""
        if self.counted:
            from ttools.profiler import profile

            self.profiles.append(profile(on="cpu", line_times=False))
            return self.profiles[-1]
        from ttools.sanitizer.api import sanitize

        # Scripts go by their results; a wrong kernel must not end the process.
        return sanitize(checks="memcheck", first_config=True)


def _targets(names: Sequence[str]) -> list[Target]:
    from ttools.core.gpus import targets

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
    inspected: _Inspected,
    device_map: str | None,
) -> tuple[int, list[KernelSource]]:
    """The script's exit status, and what is to be compiled."""
    if module is None and code is None and words:
        named = _named(words[0], inspected)
        if named:
            if len(words) > 1:
                raise UsageError(f"`{words[0]}` takes no arguments, but got `{words[1]}`")
            return 0, named
    if inspected.signature is not None:
        raise UsageError("--signature is for FILE.py:KERNEL; a script's launches have their own")
    if inspected.launch:
        raise UsageError(
            "--num-warps and --num-stages are for FILE.py:KERNEL, .ttir files and records"
        )
    work = read_target(words, module, code)
    take_over_from_upstream("ttools captures launches")
    from ttools.core.compilation.specialisation import captured

    seen = progress(
        lambda: State(
            what="captured",
            done=len(sources),
            unit="compilations that launches need",
            one="compilation that launches need",
        )
    )
    with captured(names=inspected.only) as sources, inspected.running(), seen:
        status = run_work(work, device_map)
    if not sources:
        which = f" named {', '.join(inspected.only)}" if inspected.only else ""
        raise UsageError(f"no kernel{which} was launched, so there is nothing to inspect")
    return status, sources


def _named(word: str, inspected: _Inspected) -> list[KernelSource]:
    """A kernel in a file, a .ttir file, the kernels of a record; none for a script."""
    from ttools.core.compilation.kernel_source import source_of_file, source_of_signature

    if word.endswith(RECORD_SUFFIX):
        return _recorded(word, inspected)
    if word.endswith(TTIR_SUFFIX):
        return [source_of_file(Path(word), inspected.launch)]
    if not is_kernel(word):
        return []
    function = load_kernel(word)
    if inspected.signature is None:
        names = ", ".join(function.arg_names)
        raise UsageError(
            f"`{word}` needs --signature, an entry for each of {names}: "
            "'*fp32:16,i32,1024' for a pointer divisible by 16, an integer and a constant"
        )
    return [source_of_signature(function, inspected.signature, inspected.launch)]


def _recorded(word: str, inspected: _Inspected) -> list[KernelSource]:
    from ttools.interpreter.records.record_kernels import kernels_of_record

    if inspected.signature is not None:
        raise UsageError("--signature is for FILE.py:KERNEL; a record's kernels have their own")
    if not Path(word).is_file():
        raise UsageError(f"there is no file `{word}`")
    folder = Path(mkdtemp(dir=inspected.folder))
    sources = kernels_of_record(Path(word), folder, inspected.launch, inspected.only)
    if any("num_warps" not in each.options for each in sources):
        say("note", f"{word} does not say how many warps a block has: compiling with --num-warps 4")
    return sources


def _against(
    other: str, found: Sequence[Inspection], inspected: _Inspected
) -> tuple[Inspection, Inspection]:
    """The one inspected and what it is compared with: another kernel, or another target."""
    from ttools.core.compilation.inspection import inspect_sources
    from ttools.core.gpus import targets

    if len(found) != 1:
        kernels = ", ".join(sorted({each.source.name for each in found}))
        raise UsageError(
            f"--against compares one kernel, but there are {len(found)} compilations ({kernels}); "
            "name one with --only and one --target"
        )
    base = found[0]
    named = _named(other, inspected)
    if len(named) > 1:
        kernels = ", ".join(sorted({each.name for each in named}))
        raise UsageError(f"--against compares one kernel, but {other} has {kernels}; use --only")
    if named:
        return base, inspect_sources(named, base.target)[0]
    return base, inspect_sources([base.source], targets.read_target(other))[0]


def _save(found: Sequence[Inspection], folder: Path) -> None:
    """Writes each stage to a file; equal names get numbers."""
    from ttools.core.compilation.annotation import SUFFIXES

    with file_errors(f"write to `{folder}`"):
        folder.mkdir(parents=True, exist_ok=True)
        for inspection, stem in zip(found, _stems(found), strict=True):
            for stage in inspection.compilation.stages:
                text = inspection.compilation.text(stage)
                (folder / f"{stem}.{SUFFIXES.get(stage, stage)}").write_text(text, "utf-8")
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
    form: str,
    output: Path | None,
) -> None:
    from ttools.core.compilation import html
    from ttools.core.compilation.inspection import comparison_text, inspection_text

    if form == "json":
        data = {
            "schema": "ttools.inspection/1",
            "kernels": [each.as_dict(stages) for each in found],
            "against": beside[1].as_dict(stages) if beside else None,
        }
        write_json(data, output)
    elif form == "html":
        shown = [*found, beside[1]] if beside else found
        write_text(html.write_page(shown, stages, beside), output)
    elif beside is not None:
        write_text(comparison_text(*beside), output)
    else:
        write_text("\n".join(inspection_text(each, stages) for each in found), output)
