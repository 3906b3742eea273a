"""`ttools tune check`: finds useless, ambiguous and failing entries of configuration files.

Without a program, only the files are read. With a program, its launches show which entries are
used, and the configurations in these entries are tried: verified on this machine, or compiled for
GPUs.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ttools.cli import completion, exit_codes, options
from ttools.cli.console import (
    keep_stdout_for_report,
    require_folder,
    say,
    verbosity,
    write_findings,
    write_text,
)
from ttools.cli.targets import is_kernel, read_target
from ttools.cli.tune import options as tune_options
from ttools.cli.work import run_work, take_over_from_upstream
from ttools.core.errors import UsageError
from ttools.core.findings.findings import Finding

if TYPE_CHECKING:
    from ttools.core.gpus.devices import Gpu
    from ttools.interpreter.run.tuned_launch import TunedCall
    from ttools.tuner.configs.checks import AutotunedCall, AutotunedCalls
    from ttools.tuner.configs.entries import ConfigEntry, ConfigFile
    from ttools.tuner.run import TuningRun

_program = partial(typer.Option, rich_help_panel="Program")
_report = partial(typer.Option, rich_help_panel="Report")

FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="DIR|FILE...",
        show_default=False,
        help="Configuration files, or folders that contain such files.",
    ),
]
ProgramOption = Annotated[
    str | None,
    _program(
        "--program",
        metavar="PROGRAM",
        help="The program that uses the files: 'SCRIPT ARGS…', or FILE.py:KERNEL with --inputs.",
    ),
]
GpuOption = Annotated[
    list[str] | None,
    _program(
        "--gpu",
        metavar="GPU",
        autocompletion=completion.gpus,
        help="Compile the entries for this GPU (h100, sm_90), which need not be present; "
        "repeatable.",
    ),
]
FormOption = Annotated[
    Literal["text", "markdown", "json", "brief", "html", "sarif", "junit", "github"],
    _report("--format", help="Format of the report."),
]
FailOnOption = Annotated[
    Literal["error", "warning", "note"],
    _report("--fail-on", help="Exit with 1 on findings of at least this severity."),
]


def tune_check_command(
    files: FilesArgument = None,
    program: ProgramOption = None,
    inputs: tune_options.InputsOption = None,
    gpu: GpuOption = None,
    reference: tune_options.ReferenceOption = None,
    rtol: tune_options.RtolOption = None,
    timeout: tune_options.TimeoutOption = 60.0,
    form: FormOption = "text",
    output: options.OutputOption = None,
    fail_on: FailOnOption = "warning",
    threads: options.ThreadsOption = None,
    workers: tune_options.WorkersOption = None,
    device_map: options.DeviceMapOption = None,
) -> None:
    """Check configuration files that libraries ship, optionally against a program.

    Reads the files of vLLM, SGLang and FlagGems, results of triton.autotune, and lock files and
    stores of ttools. The exit status is 1 if there are findings of the severity --fail-on or above.
    """
    if not files:
        raise UsageError("give configuration files, or a folder: ttools tune check DIR|FILE…")
    if program is None:
        for option, value in (("--inputs", inputs), ("--reference", reference), ("--gpu", gpu)):
            if value:
                raise UsageError(f"{option} needs --program, because only a kernel can be tried")
    require_folder(output)
    keep_stdout_for_report(form, output)
    from ttools.core.gpus.devices import read_gpu
    from ttools.core.reports.registry import write_report
    from ttools.core.reports.report import Report, counted
    from ttools.tuner.configs.checks import check_files
    from ttools.tuner.configs.entries import RULES
    from ttools.tuner.configs.formats import read_config_files

    gpus = [read_gpu(name) for name in gpu or ()]
    read = read_config_files(files)
    findings = check_files(read)
    status = exit_codes.OK
    if program is not None:
        trial = _Trial(
            program=program,
            inputs=inputs,
            files=read,
            reference=reference or "",
            rtol=rtol,
            timeout=timeout,
            threads=threads,
            workers=workers,
            device_map=device_map,
        )
        status = trial.run(gpus)
        findings += trial.findings(is_complete=status == exit_codes.OK)
    entries = sum(len(file.entries) for file in read)
    report = Report(
        findings=tuple(findings),
        target=program or " ".join(map(str, files)),
        exit_code=status or None,
        fail_on=fail_on,
        rules=RULES,
        examined=f"{counted(len(read), 'file')} with {counted(entries, 'configuration')}",
    )
    text = write_report(report, form, verbose=verbosity() == "verbose")
    if form == "text" and output is None:
        write_findings(text)
    else:
        write_text(text, output)
    raise typer.Exit(status or (exit_codes.FINDINGS if report.failing else exit_codes.OK))


@dataclass(kw_only=True)
class _Trial:
    """Runs a program, records which files and keys it looks up, and tries entries on its launches.

    Attributes:
        program: The program as the user named it.
        inputs: The file with the inputs of a kernel, or None.
        files: The files whose entries are tried.
        reference: Function that computes the expected outputs; if empty, the first configuration
            does.
        rtol: Relative tolerance; None for that of the dtype.
        timeout: Time limit of a configuration in seconds.
        threads: Number of threads of a launch.
        workers: Number of processes that compile.
        device_map: Mapping of the CUDA devices that a script names.
    """

    program: str
    inputs: str | None
    files: Sequence[ConfigFile]
    reference: str
    rtol: float | None
    timeout: float
    threads: int | None
    workers: int | None
    device_map: str | None
    _asked: AutotunedCalls | None = None
    _found: list[Finding] = field(default_factory=list)
    _untried: dict[str, None] = field(default_factory=dict)

    def run(self, gpus: Sequence[Gpu]) -> int:
        """Run the program once for each GPU, or once if no GPU is given; return its exit status."""
        from ttools.tuner.configs.checks import AutotunedCalls

        take_over_from_upstream("ttools tries the configurations")
        self._asked = AutotunedCalls(program=self.program, is_kernel=is_kernel(self.program))
        if self._asked.is_kernel and self.inputs is None:
            raise UsageError(f"`{self.program}` needs --inputs FILE.py, which defines inputs()")
        if not self._asked.is_kernel and self.inputs is not None:
            raise UsageError("--inputs is for FILE.py:KERNEL; a script launches its own kernels")
        targets: Sequence[Gpu | None] = gpus or [None]
        for gpu in targets:
            status = self._run_for(gpu)
            if status != exit_codes.OK:
                return status
        for note in self._untried:
            say("note", note)
        return exit_codes.OK

    def findings(self, is_complete: bool) -> list[Finding]:
        """Return the entries that failed and those that are not used.

        Args:
            is_complete: True if the program ended normally, so that all of its launches are known.
        """
        from ttools.tuner.configs.checks import unused

        assert self._asked is not None
        if not is_complete:
            say("warning", "the program failed, so it is not known which entries are unused")
            return self._found
        findings, notes = unused(self.files, self._asked)
        for note in notes:
            say("note", note)
        return [*self._found, *findings]

    def _run_for(self, gpu: Gpu | None) -> int:
        from ttools.tuner.configs.formats import is_named
        from ttools.tuner.measure.checks import Checks
        from ttools.tuner.options import TuneOptions
        from ttools.tuner.run import TuningRun

        assert self._asked is not None
        chosen: dict[tuple[str, str], list[ConfigEntry]] = {}
        run = TuningRun(
            TuneOptions(
                search="exhaustive",
                timeout=self.timeout,
                workers=self.workers,
                checks=Checks(reference=self.reference, rtol=self.rtol),
            ),
            gpu=None if gpu is None else (gpu.device or gpu.target.name),
            threads=self.threads,
            starts_early=False,
            configs=lambda launch: self._configs(launch, gpu, chosen),
        )
        with run, self._lookups(is_named):
            status = self._launch(run)
        for result in run.results:
            entries = chosen.get((result.problem.kernel, result.problem.key), [])
            self._add_findings(result.entry(), entries, gpu)
        for warning in dict.fromkeys([*run.notes, *run.warnings]):
            say("warning", warning)
        for result in run.results:
            for note in result.notes:
                say("warning", f"{result.problem}: {note}")
        return status

    @contextmanager
    def _lookups(self, wanted: Callable[[str], bool]) -> Iterator[None]:
        from ttools.core.process.file_lookups import file_lookups

        assert self._asked is not None
        with ExitStack() as stack:
            if not self._asked.is_kernel:
                names = stack.enter_context(file_lookups(wanted))
                stack.callback(lambda: self._asked and self._asked.names.update(names))
            yield

    def _launch(self, run: TuningRun) -> int:
        """Run the program within a tuning run."""
        if not is_kernel(self.program):
            words = shlex.split(self.program)
            return run_work(read_target(words, None, None), self.device_map, quiet=True)
        from ttools.cli.tune.command import run_kernel

        assert self.inputs is not None
        configs = self._own_configs()
        status, failure = run_kernel(
            self.program, configs, self.inputs, self.device_map, on_gpu=run.on_gpu
        )
        if failure is not None:
            raise failure
        return status

    def _own_configs(self) -> list[Any] | None:
        """Return the first usable entry as a space if the kernel has no autotuner, else None."""
        from ttools.cli.kernel_file import load_decorated
        from ttools.core.compilation.kernel_source import kernel_within
        from ttools.tuner.configs.checks import unknown_parameters
        from ttools.tuner.configs.entries import entry_finding

        kernel = load_decorated(self.program)
        parameters = frozenset(kernel_within(kernel).arg_names)
        usable = []
        for file in self.files:
            for entry in file.entries:
                names = unknown_parameters(entry, parameters)
                if names:
                    self._found.append(
                        entry_finding(
                            *("config_unknown_parameter", entry),
                            f"`{self.program}` has no parameter `{names[0]}`",
                        )
                    )
                elif not entry.failure:
                    usable.append(entry)
        if getattr(kernel, "configs", None) is not None:
            return None
        if not usable:
            raise UsageError(f"no entry of the files can be used for `{self.program}`")
        return [usable[0].triton_config()]

    def _configs(
        self,
        launch: TunedCall,
        gpu: Gpu | None,
        chosen: dict[tuple[str, str], list[ConfigEntry]],
    ) -> Sequence[Any]:
        """Return the first configuration of a launch's autotuner, and those of matching entries."""
        from ttools.tuner.configs.checks import applicable, autotuned_call, gpus_of

        assert self._asked is not None
        asked = autotuned_call(launch)
        self._asked.add(asked)
        entries: list[ConfigEntry] = []
        for file in self.files:
            if gpu is not None and not gpus_of(file, [gpu]):
                continue
            entries += applicable(self._entries_for(file, asked), asked)
        for file in self.files:
            self._note_untried(file, asked)
        chosen[asked.kernel, asked.key] = entries
        first = launch.configs[0]
        distinct = {entry.config: entry for entry in entries}
        return [first, *(entry.triton_config(first.pre_hook) for entry in distinct.values())]

    def _entries_for(self, file: ConfigFile, asked: AutotunedCall) -> Sequence[ConfigEntry]:
        """Return the entries of a file that a launch may use."""
        from ttools.tuner.configs.checks import chosen_for, has_key
        from ttools.tuner.configs.entries import ConfigEntry

        if file.form == "named":
            selected = chosen_for(file, asked)
            if selected is None:
                return file.entries
            return [selected] if isinstance(selected, ConfigEntry) else []
        if file.form == "flaggems":
            return file.entries
        return [entry for entry in file.entries if has_key(entry, file, asked)]

    def _note_untried(self, file: ConfigFile, asked: AutotunedCall) -> None:
        from ttools.tuner.configs.entries import OTHER_OPTIONS

        names = {name for entry in file.entries for name in entry.values if name in OTHER_OPTIONS}
        if names:
            self._untried.setdefault(
                f"entries of `{file.path}` with {', '.join(sorted(names))} were not tried: only "
                "backends for other GPUs have these options"
            )

    def _add_findings(self, tuning: Any, entries: Sequence[ConfigEntry], gpu: Gpu | None) -> None:
        """Add findings on the entries that failed."""
        from ttools.tuner.configs.checks import trial_findings
        from ttools.tuner.configs.entries import normalised
        from ttools.tuner.space.candidate import config_key
        from ttools.tuner.store.failing import failure_conditions

        statuses = {
            config_key(normalised(trial.values)): (trial.status, trial.reason)
            for trial in tuning.trials
        }
        conditions: dict[str, str] = {
            finding.status: str(finding) for finding in failure_conditions(tuning)
        }
        where = "" if gpu is None else f"on {gpu.target.name}"
        if gpu is not None and gpu.device is not None:
            where = f"on {gpu.device.name}"
        reported = {(finding.kind, finding.location, finding.message) for finding in self._found}
        for finding in trial_findings(statuses, entries, where, conditions):
            if (finding.kind, finding.location, finding.message) not in reported:
                self._found.append(finding)
