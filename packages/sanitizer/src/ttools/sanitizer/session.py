"""A sanitizer run: the checks it switches on at each launch, and the findings they make.

Owns the life of the checks. Must not know how findings are written.
"""

from __future__ import annotations

from ttools.core.findings import Finding, LaunchEntry
from ttools.core.reports.tensor_map import TensorMap
from ttools.sanitizer.options import SanitizeOptions


class Session:
    """Everything one run owns; entered by `ttools.sanitizer.sanitize`.

    Attributes:
        options: what is checked.
        findings: merged by site, in order of appearance.
        launches: what ran.
        maps: which programs touched what of the tensors that findings concern.
    """

    def __init__(self, options: SanitizeOptions) -> None:
        self.options = options
        self.findings: list[Finding] = []
        self.launches: list[LaunchEntry] = []
        self.maps: list[TensorMap] = []
