"""`ttools inspect`: shows how a kernel is compiled for a GPU, which need not be present.

With `--lock`, the costs of kernels are written to a file, or compared with those in a file.
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
from ttools.cli.inspect.matrix import compile_all, matrices_by, matrix_status, write_matrix
from ttools.cli.inspect.modes import selected_mode
from ttools.cli.inspect.reduce import ReduceOptions, reduce_kernel
from ttools.cli.inspect.specialisations import report_specialisations, require_script
from ttools.cli.kernel_file import load_decorated, load_kernel
from ttools.cli.progress import State, progress
from ttools.cli.targets import RECORD_SUFFIX, TTIR_SUFFIX, is_kernel, read_target
from ttools.cli.work import run_work, take_over_from_upstream
from ttools.core.errors import UsageError, file_errors

if TYPE_CHECKING:
    from ttools.cli.inspect.other_triton import OtherTriton
    from ttools.core.compilation.config_matrix import Configured
    from ttools.core.compilation.inspection import Inspection
    from ttools.core.compilation.kernel_source import KernelSource
    from ttools.core.compilation.lock import RunCosts
    from ttools.core.gpus.devices import Gpu
    from ttools.profiler import Profile
    from ttools.tuner.cost.every_config import ConfigCollector

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
        help="One entry per parameter, separated by commas: *fp32:16 (divisible by 16), i32, 1024 "
        "(a constant).",
    ),
]
GpuOption = Annotated[
    list[str] | None,
    _compilation(
        *("--gpu", "--target"),
        metavar="GPU",
        autocompletion=completion.gpus,
        help="Compile for h100, a100, rtx4090, mi300x, …, or for an architecture such as sm_90; "
        "repeatable. By default, this machine's GPU.",
    ),
]
StageOption = Annotated[
    list[str] | None,
    _compilation(
        "--stage",
        metavar="STAGE",
        autocompletion=completion.stages,
        help="Show ast, ttir, ttgir, llir, ptx, sass or amdgcn by source line; repeatable.",
    ),
]
InspectedOnlyOption = Annotated[
    list[str] | None,
    _compilation(
        "--only",
        metavar="KERNEL",
        autocompletion=completion.kernels,
        help="Inspect only kernels of this name among those that a script launches; repeatable.",
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
        autocompletion=completion.gpus,
        help="Compare with another kernel (FILE.py:KERNEL, FILE.ttir) or another GPU.",
    ),
]
InspectionFormatOption = Annotated[
    Literal["text", "json", "html", "markdown"],
    _report("--format", help="Format of the report; markdown only with --specialisations."),
]
SpecialisationsOption = Annotated[
    bool,
    _report(
        *("--specialisations", "--specializations"),
        help="For a script: report every compilation, what caused it, what it cost, and what "
        "avoids it.",
    ),
]
WarmupFileOption = Annotated[
    Path | None,
    _report(
        "--warmup-file",
        metavar="FILE",
        help="Write a script that compiles every variant of a run ahead of time; includes "
        "--specialisations.",
    ),
]
OutputDirOption = Annotated[
    Path | None, _report("--output-dir", metavar="DIR", help="Save all stages as files.")
]
LockOption = Annotated[
    Path | None,
    _report(
        "--lock",
        metavar="FILE",
        help="Write registers, spills, shared memory, instructions and counts to a performance "
        "baseline.",
    ),
]
CheckLockOption = Annotated[
    bool,
    _report(
        "--check",
        help="Compare with the --lock file instead of writing it; exit with 1 if a limit is "
        "exceeded.",
    ),
]
AllConfigsOption = Annotated[
    bool,
    _compilation(
        "--all-configs",
        help="Compile all configurations of autotuned kernels for each --gpu, and show which ones "
        "fit.",
    ),
]
TritonOption = Annotated[
    list[str] | None,
    _compilation(
        "--triton",
        metavar="ENVIRONMENT",
        help="With --all-configs: compare with the Triton of another environment, given by its "
        "folder, its Python interpreter or its version, such as 3.6.0; repeatable.",
    ),
]
FailOnOption = Annotated[
    Literal["kernel", "config", "never"] | None,
    _report(
        "--fail-on",
        show_default=False,
        help="With --all-configs: exit with 1 if a kernel has no configuration that can be "
        "launched on a GPU (kernel, the default), or if any configuration cannot (config).",
    ),
]
ReduceOption = Annotated[
    bool,
    _report(
        "--reduce",
        help="Reduce a kernel that does not compile to the smallest one that fails in the same "
        "way; write a script that shows it with Triton only.",
    ),
]
ReduceTimeoutOption = Annotated[
    float | None,
    _report(
        "--timeout",
        min=0,
        metavar="SECONDS",
        help="With --reduce, the time limit of the search, 300 by default; 0 for no limit.",
    ),
]
CompileTimeoutOption = Annotated[
    float | None,
    _report(
        "--compile-timeout",
        min=0.1,
        metavar="SECONDS",
        help="With --reduce, seconds after which a compilation counts as failed; 30 by default.",
    ),
]


def map_by_default(gpu: Gpu) -> str | None:
    """Return a device map under which a script makes the same launches as on the GPU.

    Persistent kernels launch as many programs as the device has multiprocessors, which would
    otherwise be the number of this machine's processors. The result is None if the environment
    defines the device, if there is a GPU, or if no GPU with that architecture is known.
    """
    from ttools.core.configuration import read
    from ttools.core.device_map.map_option import map_of_gpu
    from ttools.core.device_map.mapping import VARIABLE
    from ttools.core.environment import gpu_usable

    if gpu.device is None or gpu.target.backend != "cuda" or read(VARIABLE) or gpu_usable():
        return None
    return str(map_of_gpu(gpu))


def lock_or_check(inspections: Sequence[Inspection], path: Path, check: bool, costs: Costs) -> int:
    """Carry out `--lock` and `--check`; return the exit status.

    Args:
        inspections: Inspections of all compiled kernels.
        path: File of the performance baseline.
        check: If True, compare with the file instead of writing it.
        costs: Returns the costs of a kernel's launches; None if they were not counted.

    Raises:
        UsageError: The baseline cannot be read or written, or has none of these kernels.
    """
    from ttools.core.compilation.lock import entry_of, write_lock

    if check:
        return _check(inspections, path, costs)
    total = write_lock(path, (entry_of(item, costs(item)) for item in inspections))
    say("note", f"{path} holds {total} {'compilation' if total == 1 else 'compilations'}")
    return exit_codes.OK


def _check(inspections: Sequence[Inspection], path: Path, costs: Costs) -> int:
    from ttools.core.compilation import lock_check
    from ttools.core.compilation.lock import read_lock
    from ttools.core.triton_versions.version import installed_triton

    if not path.exists():
        raise UsageError(f"there is no file `{path}`; omit --check to write it")
    lock = read_lock(path)
    result = lock_check.compare(
        lock, [lock_check.current_costs(item, costs(item)) for item in inspections]
    )
    for entry in result.unknown:
        say("note", f"{entry.kernel} for {entry.target} is not in {path}, so it is not compared")
    if not result.compared:
        locked = ", ".join(sorted({item.triton for item in lock.kernels})) or "no version"
        raise UsageError(
            f"{path} has no entries for these kernels with their current specialisations and "
            f"Triton {installed_triton()} (it was written with {locked}); omit --check to write it "
            "again"
        )
    for item in result.regressions:
        say("error", str(item))
    if not result.regressions:
        compared = f"{result.compared} of {len(inspections)} compilations"
        say("note", f"{compared} are within the limits of {path}")
    return exit_codes.FINDINGS if result.regressions else exit_codes.OK


_NO_GPU = "sm_90"


def inspect_command(
    words: InspectedArgument = None,
    module: options.ModuleOption = None,
    code: options.CodeOption = None,
    signature: SignatureOption = None,
    gpu: GpuOption = None,
    stage: StageOption = None,
    only: InspectedOnlyOption = None,
    num_warps: NumWarpsOption = None,
    num_stages: NumStagesOption = None,
    against: AgainstOption = None,
    device_map: options.DeviceMapOption = None,
    form: InspectionFormatOption = "text",
    output: options.OutputOption = None,
    output_dir: OutputDirOption = None,
    specialisations: SpecialisationsOption = False,
    warmup_file: WarmupFileOption = None,
    lock: LockOption = None,
    check: CheckLockOption = False,
    all_configs: AllConfigsOption = False,
    triton: TritonOption = None,
    fail_on: FailOnOption = None,
    reduce: ReduceOption = False,
    timeout: ReduceTimeoutOption = None,
    compile_timeout: CompileTimeoutOption = None,
) -> None:
    """Show the compiler's results for kernels: stages, registers, occupancy, accesses, layouts.

    The input is FILE.py:KERNEL with a signature, a .ttir file, a record, or a script, whose
    launches are captured while it runs. No GPU is needed. With --reduce, a kernel that does not
    compile is reduced to the smallest one that fails in the same way. The exit status is the
    script's own; 1 if a kernel does not compile, or costs more than --lock allows.
    """
    from ttools.core.compilation.inspection import inspect_sources
    from ttools.core.compilation.stages import CompilationError, read_stages
    from ttools.core.gpus.devices import gpu_names

    mode = selected_mode(
        {
            "--specialisations": specialisations,
            "--warmup-file": warmup_file,
            "--all-configs": all_configs,
            "--triton": triton,
            "--fail-on": fail_on,
            "--reduce": reduce,
            "--timeout": timeout,
            "--compile-timeout": compile_timeout,
            "--signature": signature,
            "--stage": stage,
            "--num-warps": num_warps,
            "--num-stages": num_stages,
            "--against": against,
            "--output-dir": output_dir,
            "--lock": lock,
            "--check": check,
        },
        form,
    )
    script = require_script(words or [], module, code) if mode == "--specialisations" else None
    stages = read_stages(stage or [])
    gpus = _gpus(gpu or [])
    if len(gpus) > 1 and mode in ("--specialisations", "--reduce"):
        raise UsageError(f"{mode} compiles for one GPU; give one --gpu")
    require_folder(output, lock, warmup_file)
    # With --reduce, the report is a script on standard output; with --lock, there may be no report.
    if mode != "--reduce" and (lock is None or output is not None):
        keep_stdout_for_report(form, output)
    if check and lock is None:
        raise UsageError("--check needs --lock FILE, the file to compare with")
    if script is not None:
        status = report_specialisations(
            script,
            gpus[0].target,
            only=only or [],
            device_map=device_map,
            form=form,
            output=output,
            warmup_file=warmup_file,
        )
        raise typer.Exit(status)
    environments = _environments(triton or [])
    launch = {
        name: value
        for name, value in (("num_warps", num_warps), ("num_stages", num_stages))
        if value is not None
    }
    if mode == "--reduce":
        chosen = ReduceOptions(
            signature=signature,
            launch=launch,
            only=only or [],
            target=gpus[0].target,
            device_map=device_map,
            timeout=timeout,
            compile_timeout=compile_timeout,
            form=form,
            output=output,
        )
        raise typer.Exit(reduce_kernel(words or [], module, code, chosen))
    with TemporaryDirectory(prefix="ttools-inspect-") as folder:
        inspected = _Inspected(
            Path(folder),
            signature,
            launch,
            only or [],
            lock is not None,
            _collector(all_configs, only),
        )
        if lock is not None:
            device_map = device_map or map_by_default(gpus[0])
        status, sources = _sources(words or [], module, code, inspected, device_map)
        say_interrupted(status, "the report")
        if lock is not None and status == exit_codes.INTERRUPTED:
            say("error", f"{lock} was neither written nor compared: some kernels may be missing")
            raise typer.Exit(status)
        if inspected.collector is not None:
            matrix = compile_all(
                inspected.launches or inspected.collector.launches(sources),
                gpu_names(gpus),
            )
            again = _words_again(words or [], module, code, signature, launch, only, device_map)
            others = matrices_by(environments, again, [*matrix.targets])
            write_matrix(matrix, form, output, others)
            raise typer.Exit(matrix_status(matrix, fail_on or "kernel") or status)
        try:
            inspections: list[Inspection] = []
            targets = gpu_names(gpus)
            total = len(sources) * len(targets)
            with progress(lambda: _compiled(len(inspections), total), shared=False):
                for target, name in targets.items():
                    inspect_sources(sources, target, inspections, name)
            beside = None
            if against is not None:
                beside = _against(against, inspections, inspected)
            if output_dir is not None:
                _save(inspections, output_dir)
            if lock is not None:
                status = lock_or_check(inspections, lock, check, inspected.costs) or status
            if lock is None or output is not None:
                _write(inspections, beside, stages, form, output)
        except CompilationError as error:
            say("error", str(error))
            raise typer.Exit(exit_codes.FINDINGS) from None
    raise typer.Exit(status)


def _compiled(done: int, total: int) -> State:
    return State(what="compiled", done=done, total=total, unit="kernels")


@dataclass(frozen=True)
class _Inspected:
    """Settings for reading the input.

    Attributes:
        folder: Folder for files that are needed during compilation.
        signature: Signature of a kernel in a file.
        launch: Launch options such as num_warps.
        only: Names of the kernels to inspect.
        counted: If True, the launches of a script are counted.
        collector: Collects all configurations of a script's launches; None if they are not needed.
        profiles: Profiles of the launches, if they were counted.
        launches: All configurations of a kernel in a file, if they are needed.
    """

    folder: Path
    signature: str | None
    launch: dict[str, int]
    only: Sequence[str]
    counted: bool = False
    collector: ConfigCollector | None = None
    profiles: list[Profile] = field(default_factory=list)
    launches: list[list[Configured]] = field(default_factory=list)

    def costs(self, inspection: Inspection) -> RunCosts | None:
        """Return the costs of a kernel's launches, if they were counted."""
        candidates = (profiled.costs_of(inspection) for profiled in self.profiles)
        return next((profiled for profiled in candidates if profiled is not None), None)

    def running(self) -> AbstractContextManager[object]:
        """Return a context in which kernels run, and are counted if required."""
        if self.counted:
            from ttools.profiler import profile

            self.profiles.append(profile(on="cpu", line_times=False))
            return self.profiles[-1]
        if self.collector is not None:
            from ttools.interpreter import interpret

            return interpret(first_config=True, tune=self.collector.tune)
        from ttools.sanitizer.api import sanitize

        # Scripts may depend on results; an invalid access must not terminate the process.
        return sanitize(checks="memcheck", first_config=True)


def _collector(all_configs: bool, only: Sequence[str] | None) -> ConfigCollector | None:
    if not all_configs:
        return None
    from ttools.tuner.cost.every_config import ConfigCollector

    return ConfigCollector(only or ())


def _environments(words: Sequence[str]) -> list[OtherTriton]:
    from ttools.cli.inspect.other_triton import find_environment

    return [find_environment(part) for word in words for part in word.split(",") if part]


def _words_again(
    words: Sequence[str],
    module: str | None,
    code: str | None,
    signature: str | None,
    launch: dict[str, int],
    only: Sequence[str] | None,
    device_map: str | None,
) -> list[str]:
    """Return the target and its options as words of a command line."""
    again: list[str] = []
    for name in only or ():
        again += ["--only", name]
    for name, value in (("--signature", signature), ("--device-map", device_map)):
        if value is not None:
            again += [name, value]
    for name, number in launch.items():
        again += [f"--{name.replace('_', '-')}", str(number)]
    if module is not None:
        again += ["-m", module]
    if code is not None:
        again += ["-c", code]
    return [*again, *words]


def _gpus(names: Sequence[str]) -> list[Gpu]:
    from ttools.core.gpus.devices import read_gpu
    from ttools.core.gpus.targets import target_of_machine

    if names:
        return [read_gpu(word) for name in names for word in name.split(",") if word]
    machine = target_of_machine()
    if machine is None:
        say("note", f"no GPU here: compiling for {_NO_GPU} (choose another with --gpu)")
    return [read_gpu(machine.name if machine else _NO_GPU)]


def _sources(
    words: Sequence[str],
    module: str | None,
    code: str | None,
    inspected: _Inspected,
    device_map: str | None,
) -> tuple[int, list[KernelSource]]:
    """Return the script's exit status and the sources to compile."""
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

    bar = progress(
        lambda: State(
            what="captured",
            done=len(sources),
            unit="compilations that launches need",
            one="compilation that launches need",
        )
    )
    with captured(names=inspected.only) as sources, inspected.running(), bar:
        status = run_work(work, device_map)
    if not sources:
        which = f" named {', '.join(inspected.only)}" if inspected.only else ""
        raise UsageError(f"no kernel{which} was launched, so there is nothing to inspect")
    return status, sources


def _named(word: str, inspected: _Inspected) -> list[KernelSource]:
    """Return the sources if a word names a kernel, a .ttir file or a record; none for scripts."""
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
            f"`{word}` needs --signature, with an entry for each of {names}; for example, "
            "'*fp32:16,i32,1024' for a pointer divisible by 16, an integer and a constant"
        )
    source = source_of_signature(function, inspected.signature, inspected.launch)
    if inspected.collector is not None:
        from ttools.tuner.cost.every_config import configs_of_kernel

        inspected.launches.append(configs_of_kernel(load_decorated(word), source))
    return [source]


def _recorded(word: str, inspected: _Inspected) -> list[KernelSource]:
    from ttools.interpreter.records.record_kernels import kernels_of_record

    if inspected.signature is not None:
        raise UsageError("--signature is for FILE.py:KERNEL; a record's kernels have their own")
    if not Path(word).is_file():
        raise UsageError(f"there is no file `{word}`")
    folder = Path(mkdtemp(dir=inspected.folder))
    sources = kernels_of_record(Path(word), folder, inspected.launch, inspected.only)
    if any("num_warps" not in source.options for source in sources):
        say("note", f"{word} does not contain the number of warps: compiling with --num-warps 4")
    return sources


def _against(
    other: str, inspections: Sequence[Inspection], inspected: _Inspected
) -> tuple[Inspection, Inspection]:
    """Return the inspected kernel and the one to compare it with: another kernel or GPU."""
    from ttools.core.compilation.inspection import inspect_sources
    from ttools.core.gpus.devices import gpu_names, read_gpu

    if len(inspections) != 1:
        kernels = ", ".join(sorted({item.source.name for item in inspections}))
        raise UsageError(
            f"--against compares one kernel, but there are {len(inspections)} compilations "
            f"({kernels}); select one with --only and give one --gpu"
        )
    base = inspections[0]
    named = _named(other, inspected)
    if len(named) > 1:
        kernels = ", ".join(sorted({item.name for item in named}))
        raise UsageError(f"--against compares one kernel, but {other} has {kernels}; use --only")
    if named:
        return base, inspect_sources(named, base.target, gpu=base.gpu)[0]
    ((target, name),) = gpu_names([read_gpu(other)]).items()
    return base, inspect_sources([base.source], target, gpu=name)[0]


def _save(inspections: Sequence[Inspection], folder: Path) -> None:
    """Write each stage to a file; files with equal names are numbered."""
    from ttools.core.compilation.annotation import SUFFIXES

    with file_errors(f"write to `{folder}`"):
        folder.mkdir(parents=True, exist_ok=True)
        for inspection, stem in zip(inspections, _stems(inspections), strict=True):
            for stage in inspection.compilation.stages:
                text = inspection.compilation.text(stage)
                (folder / f"{stem}.{SUFFIXES.get(stage, stage)}").write_text(text, "utf-8")
    say("note", f"the stages of {len(inspections)} compilations are in {folder}")


def _stems(inspections: Sequence[Inspection]) -> Iterator[str]:
    used: dict[str, int] = {}
    for inspection in inspections:
        stem = f"{inspection.source.name}.{inspection.target.name}"
        used[stem] = used.get(stem, 0) + 1
        yield stem if used[stem] == 1 else f"{stem}.{used[stem]}"


def _write(
    inspections: Sequence[Inspection],
    beside: tuple[Inspection, Inspection] | None,
    stages: Sequence[str],
    form: str,
    output: Path | None,
) -> None:
    from ttools.core.compilation import html
    from ttools.core.compilation.inspection import comparison_text, inspection_text
    from ttools.core.compilation.recompilations import recompilations

    repeated = recompilations(inspections)
    if form == "json":
        data = {
            "schema": "ttools.inspection/1",
            "kernels": [item.as_dict(stages) for item in inspections],
            "recompilations": [item.as_dict() for item in repeated],
            "against": beside[1].as_dict(stages) if beside else None,
        }
        write_json(data, output)
    elif form == "html":
        shown = [*inspections, beside[1]] if beside else inspections
        write_text(html.write_page(shown, stages, beside, repeated), output)
    elif beside is not None:
        write_text(comparison_text(*beside), output)
    else:
        texts = [inspection_text(item, stages) for item in inspections]
        texts += ["\n".join([*item.lines(), ""]) for item in repeated]
        write_text("\n".join(texts), output)
