"""launch: launches that a GPU refuses."""

from __future__ import annotations

from typing import ClassVar

from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.sanitizer.checks.check import Check, Kind, Kinds


class LaunchRules(Check):
    """The rules of CUDA and Triton for a launch: its grid, its options, the devices of its tensors.

    They are those of the table in `ttools.core.gpus.launch_rules`, for the GPU that a device map
    names. Without one they are those of CUDA that no GPU exceeds.
    """

    name = "launch"
    kinds: ClassVar[Kinds] = {
        "refused_launch": Kind(
            severity="error",
            meaning="A GPU refuses the launch: the grid is too long, a program has too many "
            "threads or blocks or needs too much memory, or a tensor is in the host's memory.",
        ),
    }

    def prepare(self, options: LaunchOptions) -> LaunchOptions:
        """Report the rules that the launch breaks before it is refused, if it is."""
        for each in self.checked.launch.violations:
            message = f"a GPU refuses this launch: {each.message}"
            found = self.finding("refused_launch", message, help=each.help)
            self.checked.findings.append(found)
        return options
