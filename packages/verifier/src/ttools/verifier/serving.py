"""Runs a verification in this process, which must be new, because it forks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ttools.core.errors import UsageError
from ttools.core.process.channel import Channel
from ttools.verifier.options import Progress, VerifyOptions
from ttools.verifier.result import Verification


def verify_here(
    subject: dict[str, str],
    options: VerifyOptions,
    write_tests: Path | None = None,
    report_progress: Progress = lambda tried, failing, activity: None,
) -> Verification:
    """Verify in this process; the candidate and the reference run in forks of it.

    Args:
        subject: `candidate`, `reference` and `inputs`, as `FILE.py:NAME`.
        options: Limits and choices of the verification.
        write_tests: Folder for test files; None to write none.
        report_progress: Called before each call with the number of cases that were run, the number
            of cases that failed, and the current activity after the cases; the activity is empty
            while cases are run.

    Raises:
        UsageError: The reference or the inputs cannot be loaded.
    """
    from ttools.verifier.run.processes import Subject
    from ttools.verifier.run.verification_run import VerificationRun
    from ttools.verifier.workers.warm_up import warm_up

    warm_up()
    return VerificationRun(Subject(**subject), options, write_tests, report_progress).run()


def serve(channel: Channel) -> None:
    """Answer one request of `verify()`."""
    request = channel.receive()
    folder = request["write_tests"]
    answer: dict[str, Any]
    try:
        verification = verify_here(
            request["subject"],
            VerifyOptions(**request["options"]),
            None if folder is None else Path(folder),
        )
        answer = verification.as_dict()
    except UsageError as error:
        answer = {"usage": str(error)}
    channel.send(answer)
