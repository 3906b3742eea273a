"""Tests of the functions that the programs in `tools/` share."""

from __future__ import annotations

import subprocess
import sys

from tools.harness import end_process


def test_a_process_that_another_thread_has_waited_for_can_be_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    process.wait()
    # This is what `poll` returns while another thread is inside `wait`.
    process.poll = lambda: None  # type: ignore[method-assign]
    end_process(process)
    assert process.returncode == 0
