"""Checks a candidate for all sizes of its domain at once, including sizes that exceed the memory.

The inputs and the candidate run with tensors that have no memory, so both are loaded into this
process. A candidate can falsify the answers of this process. Therefore these answers can add
failures to those that other processes find, but cannot remove any, and reports call the proofs in
these answers claims.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ttools.core.device_map.mapping import map_for_good
from ttools.core.findings.findings import Finding
from ttools.core.process.channel import Channel
from ttools.core.process.user_module import load_functions
from ttools.core.reports.sizes import Unproved, ranges_text
from ttools.interpreter.api import interpret
from ttools.prove.host.tensors import put_all_on
from ttools.verifier.cases.domain import entries_of
from ttools.verifier.workers import module


class AllSizes:
    """Answers requests about the sizes of one domain.

    Args:
        candidate: Candidate function as `FILE.py:NAME`.
        inputs: Function that draws the inputs, as `FILE.py:NAME`.
        device: Device of the candidate's tensors. If `cuda`, the CPU stands in for a GPU.
    """

    def __init__(self, candidate: str, inputs: str, device: str = "cpu") -> None:
        self._candidate, self._inputs, self._device = candidate, inputs, device
        self._function: Any = None
        self._draw: Any = None
        self._entries: dict[str, Any] = {}

    def serve(self, channel: Channel) -> None:
        """Answer requests until there are no more."""
        torch.set_num_threads(1)
        module.leave_out_compiler()
        while True:
            request = channel.receive()
            try:
                answer = self.answer(request)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - any code may raise it
                described = module.described(error)
                text = f"{described['kind']}: {described['text'].splitlines()[0]}"
                answer = {"error": text}
            channel.send(answer)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one request."""
        answers = {"load": self._load, "check": self._checked}
        return answers[request["do"]](request)

    def _load(self, _: dict[str, Any]) -> dict[str, Any]:
        if self._device == "cuda":
            map_for_good()
            put_all_on(torch.device("cuda", 0))
        with interpret():
            (_module, self._function), (drawing, self._draw) = load_functions(
                [self._candidate, self._inputs]
            )
            self._entries = entries_of(drawing, self._draw)
        return {}

    def _checked(self, request: dict[str, Any]) -> dict[str, Any]:
        """Check the whole domain for one value of each choice."""
        from ttools.prove.api import check_ranges

        others = {name: self._entries[name][n] for name, n in request["choices"].items()}
        if "seed" in inspect.signature(self._draw).parameters:
            others["seed"] = request["seed"]

        def run(**sizes: Any) -> None:
            self._function(**self._draw(**sizes, **others))

        ends = {name: (low, high) for name, (low, high) in request["sizes"].items()}
        late = request["late"]
        report = check_ranges(
            run, ends, seconds=request["seconds"], stretch=1.0, witnesses=False, late=late
        ).report
        sizes_report = report.sizes
        assert sizes_report is not None
        others_abstained = [e for e in sizes_report.abstained if e.phrase != late]
        return {
            "launches": bool(report.launches),
            "findings": [_finding(finding) for finding in report.findings],
            "sentences": list(sizes_report.sentences),
            "is_late": len(others_abstained) < len(sizes_report.abstained),
            "abstained": [_reason(unproved, sizes_report.checked) for unproved in others_abstained],
            "assumptions": list(sizes_report.assumptions),
        }


def _finding(finding: Finding) -> dict[str, Any]:
    location = finding.location
    tensor = None if finding.argument is None else finding.argument.tensor
    assert finding.sizes is not None
    return {
        "kind": finding.kind,
        "severity": finding.severity,
        "message": finding.message,
        "kernel": finding.kernel,
        "where": "" if location is None else str(location),
        "sizes": dict(finding.sizes),
        "bytes": 0 if tensor is None else tensor.storage_bytes,
    }


def _reason(each: Unproved, checked: Mapping[str, tuple[int, int]]) -> str:
    where = "" if each.file is None else f"{Path(each.file).name}:{each.line}: "
    about = f" (for {ranges_text(each.sizes)})" if each.sizes and each.sizes != checked else ""
    return f"{where}{each.reason}{about}"
