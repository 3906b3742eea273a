"""The `ttools` command: its subcommands, and the conversion of errors to exit statuses."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from ttools.cli import console, exit_codes
from ttools.cli.cache.command import cache_command
from ttools.cli.commands import Command, Group
from ttools.cli.console import say, show_error, stdout
from ttools.cli.defaults import defaults
from ttools.cli.doctor.command import doctor_command
from ttools.cli.inspect.command import inspect_command
from ttools.cli.interpret.command import interpret_command
from ttools.cli.lsp.command import lsp_command
from ttools.cli.profile.command import profile_command
from ttools.cli.profile.compare import SidesCommand, profile_compare_command
from ttools.cli.profile.sweep import profile_sweep_command
from ttools.cli.profile.view import profile_view_command
from ttools.cli.prove.command import prove_command
from ttools.cli.record.command import record_command
from ttools.cli.reproduce.command import reproduce_command
from ttools.cli.sanitize.command import sanitize_command
from ttools.cli.targets import REPLAY_HELP, ReplayCommand, TargetCommand
from ttools.cli.tune.check import tune_check_command
from ttools.cli.tune.command import TuneCommand, tune_command
from ttools.cli.tune.stores import (
    tune_diff_command,
    tune_export_command,
    tune_rules_command,
    tune_show_command,
)
from ttools.cli.verify.command import verify_command
from ttools.core.errors import TtoolsError, UsageError
from ttools.core.process.command_line import command_line
from ttools.core.process.process_end import leave_at_once, leave_if_interrupted
from ttools.core.process.script import working_folder
from ttools.core.settings import Settings, read_settings

app = typer.Typer(
    name="ttools",
    cls=Group,
    help="Run, check, profile, tune, inspect and record Triton kernels, with or without a GPU.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("interpret", cls=TargetCommand)(interpret_command)
app.command("replay", cls=ReplayCommand, help=REPLAY_HELP)(interpret_command)
app.command("sanitize", cls=TargetCommand)(sanitize_command)
app.command("prove", cls=TargetCommand)(prove_command)
app.command("profile", cls=TargetCommand)(profile_command)
app.command("profile compare", cls=SidesCommand)(profile_compare_command)
app.command("profile sweep", cls=Command)(profile_sweep_command)
app.command("profile view", cls=Command)(profile_view_command)
app.command("tune", cls=TuneCommand)(tune_command)
app.command("tune check", cls=Command)(tune_check_command)
app.command("tune show", cls=Command)(tune_show_command)
app.command("tune export", cls=Command)(tune_export_command)
app.command("tune diff", cls=Command)(tune_diff_command)
app.command("tune rules", cls=Command)(tune_rules_command)
app.command("inspect", cls=TargetCommand)(inspect_command)
app.command("record", cls=TargetCommand)(record_command)
app.command("verify", cls=Command)(verify_command)
app.command("reproduce", cls=Command)(reproduce_command)
app.command("lsp", cls=Command)(lsp_command)
app.command("cache", cls=Command)(cache_command)
app.command("doctor", cls=Command)(doctor_command)


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
