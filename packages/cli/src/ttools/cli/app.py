"""The `ttools` command: its subcommands, and the conversion of errors to exit statuses."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from ttools.cli import console, exit_codes
from ttools.cli.commands import Group, LazyCommand
from ttools.cli.console import say, show_error, stdout
from ttools.cli.defaults import defaults
from ttools.core.errors import TtoolsError, UsageError
from ttools.core.process.command_line import command_line
from ttools.core.process.process_end import leave_at_once, leave_if_interrupted
from ttools.core.process.script import working_folder
from ttools.core.settings import Settings, read_settings

_TARGET, _COMMAND = "targets:TargetCommand", "commands:Command"

#: The commands in the order of the help. Their modules are imported when a command is used.
COMMANDS = {
    "interpret": LazyCommand(
        "interpret.command:interpret_command",
        _TARGET,
        "Run Triton kernels on the CPU, as native code or as Python.",
    ),
    "replay": LazyCommand(
        "interpret.command:interpret_command",
        "targets:ReplayCommand",
        "Run the launches of a record on the CPU again.",
        "`ttools replay FILE.tt` is `ttools interpret FILE.tt`, with the same options.",
    ),
    "sanitize": LazyCommand(
        "sanitize.command:sanitize_command",
        _TARGET,
        "Find memory defects, races and uninitialised values in Triton kernels.",
    ),
    "prove": LazyCommand(
        "prove.command:prove_command",
        _TARGET,
        "Prove launches correct for all sizes of a range, or find the smallest size with a defect.",
    ),
    "profile": LazyCommand(
        "profile.command:profile_command",
        _TARGET,
        "Count the work of Triton kernels, time them, and report what limits them.",
    ),
    "profile compare": LazyCommand(
        "profile.compare:profile_compare_command",
        "profile.compare:SidesCommand",
        "Compare profiles written by `ttools profile --format json --output FILE`.",
    ),
    "profile sweep": LazyCommand(
        "profile.sweep:profile_sweep_command",
        _COMMAND,
        "Time implementations side by side over shapes.",
    ),
    "profile view": LazyCommand(
        "profile.view:profile_view_command",
        _COMMAND,
        "Show files written by Proton: `.hatchet`, `.hatchet_msgpack`, `.chrome_trace`.",
    ),
    "tune": LazyCommand(
        "tune.command:tune_command",
        "tune.command:TuneCommand",
        "Find the best configuration of each autotuned kernel, and verify every configuration.",
    ),
    "tune check": LazyCommand(
        "tune.check:tune_check_command",
        _COMMAND,
        "Check configuration files that libraries ship, optionally against a program.",
    ),
    "tune show": LazyCommand(
        "tune.stores:tune_show_command",
        _COMMAND,
        "Show the tunings of a store: winners, trials, and which parameters matter.",
    ),
    "tune export": LazyCommand(
        "tune.stores:tune_export_command",
        _COMMAND,
        "Write the tunings of a store for other programs.",
    ),
    "tune diff": LazyCommand(
        "tune.stores:tune_diff_command", _COMMAND, "Compare the tunings of two stores."
    ),
    "tune rules": LazyCommand(
        "tune.stores:tune_rules_command",
        _COMMAND,
        "Derive rules from a store that choose configurations without tuning.",
    ),
    "inspect": LazyCommand(
        "inspect.command:inspect_command",
        _TARGET,
        "Show the compiler's results for kernels: stages, registers, occupancy, accesses, layouts.",
    ),
    "record": LazyCommand(
        "record.command:record_command",
        _TARGET,
        "Save launches of a program, to check or profile them elsewhere.",
    ),
    "verify": LazyCommand(
        "verify.command:verify_command",
        _COMMAND,
        "Verify a kernel against its reference, over all inputs that a caller may pass.",
    ),
    "reproduce": LazyCommand(
        "reproduce.command:reproduce_command",
        _COMMAND,
        "Determine whether results have equal bits on a GPU, from the order of evaluation.",
    ),
    "lsp": LazyCommand(
        "lsp.command:lsp_command",
        _COMMAND,
        "Show findings, witnesses and counts in an editor that supports the Language Server "
        "Protocol.",
    ),
    "cache": LazyCommand(
        "cache.command:cache_command",
        _COMMAND,
        "Show or clear the files kept on disk: compiled kernels, and measurements of @tune.",
    ),
    "doctor": LazyCommand(
        "doctor.command:doctor_command",
        _COMMAND,
        "Report versions, drivers, devices and caches, with remedies for problems.",
    ),
}


class _Commands(Group):
    lazy = COMMANDS


app = typer.Typer(
    name="ttools",
    cls=_Commands,
    help="Run, check, profile, tune, inspect and record Triton kernels, with or without a GPU.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        stdout().print(f"ttools {version('ttools-cli')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Do not write notes to standard error.")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Show all findings in full, which settings apply, and the tracebacks of errors.",
        ),
    ] = False,
) -> None:
    """Run, check, profile, tune, inspect and record Triton kernels, with or without a GPU."""
    if quiet and verbose:
        raise UsageError("--quiet and --verbose cannot be used together")
    if quiet:
        os.environ["TTOOLS_QUIET"] = "1"  # for processes that the script starts, too
    console.set_verbosity("quiet" if quiet else "verbose" if verbose else "normal")
    if verbose and (settings := read_settings()) is not None:
        say("note", _settings_text(settings))


def _settings_text(settings: Settings) -> str:
    variables = [f"{name}={value}" for name, value in settings.variables.items()]
    return f"settings of {settings.file}: " + ", ".join([*variables, *settings.commands])


def require_working_folder() -> None:
    """Check that the working directory exists; without it, torch would terminate the process.

    Raises:
        UsageError: The working directory was deleted.
    """
    if working_folder() is None:
        raise UsageError("the working folder was deleted; change to another one")


def _show(error: TtoolsError) -> None:
    try:
        show_error(error)
    except OSError:  # standard error is full; the exit status shows the failure
        console.drop_output(sys.stderr)


def require_usable_umask() -> None:
    """Check that this process may use the files and folders that it creates.

    Raises:
        UsageError: The umask removes permissions of the owner.
    """
    mask = os.umask(0)
    os.umask(mask)
    if mask & 0o700:
        raise UsageError(
            f"with the umask {mask:03o}, you have no access to the files that ttools and Triton "
            f"create; run `umask {mask & 0o077:03o}` first"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    Args:
        arguments: Words after `ttools`; by default `sys.argv[1:]`.

    Raises:
        SystemExit: Always, with the exit status.
    """
    # `app()` is not called, because it would replace sys.excepthook, which belongs to the user's
    # script.
    command = typer.main.get_command(app)
    words = list(sys.argv[1:] if arguments is None else arguments)
    console.replace_closed_streams()
    console.set_verbosity("normal")  # the options below may set another one
    former = command_line.set(("ttools", *words))
    try:
        require_working_folder()
        require_usable_umask()
        commands = getattr(command, "commands", {})
        settings = read_settings()
        if settings is not None:
            settings.take_effect()
        command.main(
            args=words,
            prog_name="ttools",
            default_map=defaults(commands, settings),
        )
    except TtoolsError as error:
        _show(error)
        raise SystemExit(exit_codes.of_error(error)) from None
    except (OSError, RuntimeError) as error:
        refusal = exit_codes.exhaustion(error)
        if refusal is None:
            raise
        console.drop_output(sys.stdout)
        _show(refusal)
        # Python's regular exit would need more of the exhausted resource.
        leave_at_once(exit_codes.of_error(refusal))
    except SystemExit as leaving:
        if isinstance(leaving.code, int):
            leave_if_interrupted(leaving.code)
        raise
    finally:
        command_line.reset(former)
        console.release_stdout()


if __name__ == "__main__":
    main()
