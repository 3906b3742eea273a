"""What the exit status of a `ttools` command means. A failing script's own status comes first."""

from __future__ import annotations

OK = 0
FINDINGS = 1
USAGE = 2
TOOL_FAILURE = 3
INTERRUPTED = 130
