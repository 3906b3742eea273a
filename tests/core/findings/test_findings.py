"""Tests that equal findings of launches and configurations are merged."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ttools.core.findings.findings import Finding, merge, merge_in_launch
from ttools.core.location import SourceLocation
from ttools.core.spec import ArgumentSpec

CONFIGS: list[Any] = [None, {"BLOCK": 32}, {"BLOCK": 64}, {"BLOCK": 64, "num_warps": 8}]


def finding(line: int = 3, argument: str = "x_ptr", **fields: Any) -> Finding:
    defaults: dict[str, Any] = {"kind": "oob_load", "check": "memcheck", "message": "m"}
    return Finding(
        severity="error",
        kernel="kernel",
        location=SourceLocation("kernel.py", line, 5) if line else None,
        argument=ArgumentSpec(name=argument),
        **{**defaults, **fields},
    )


@given(
    st.lists(
        st.builds(
            finding,
            line=st.integers(0, 2),
            argument=st.sampled_from(["x_ptr", "y_ptr"]),
            kind=st.sampled_from(["oob_load", "oob_store"]),
            message=st.sampled_from(["4 bytes", "8 bytes"]),
            config=st.sampled_from(CONFIGS),
            launch=st.sampled_from(["bench.py:1", "bench.py:2"]),
            count=st.integers(1, 9),
            programs=st.integers(1, 9),
        )
    )
)
def test_findings_of_the_same_site_are_merged(findings: list[Finding]) -> None:
    merged = merge(findings)
    sites = list(dict.fromkeys(finding.site for finding in findings))
    assert [total.site for total in merged] == sites
    for total in merged:
        same = [finding for finding in findings if finding.site == total.site]
        assert total.count == sum(finding.count for finding in same)
        assert total.programs == sum(finding.programs for finding in same)
        assert (total.launch, total.message) == (same[0].launch, same[0].message)
        configs = [str(other.config) for other in same if other.config is not None]
        assert [str(config) for config in total.configs] == list(dict.fromkeys(configs))
    assert merge(merged) == merged
    for in_launch, total in zip(merge_in_launch(findings), merged, strict=True):
        copies = [o for o in findings if (o.site, o.message) == (total.site, total.message)]
        programs, count = max(o.programs for o in copies), sum(o.count for o in copies)
        # The two functions order configurations differently.
        assert sorted(map(str, in_launch.configs)) == sorted(map(str, total.configs))
        alike = replace(in_launch, config=total.config, other_configs=total.other_configs)
        assert alike == replace(total, programs=programs, count=count)


def test_findings_without_a_location_are_distinguished_by_message() -> None:
    findings = [finding(0, message="a"), finding(0, message="b"), finding(0, message="a")]
    assert Counter(total.message for total in merge(findings)) == {"a": 1, "b": 1}
    assert len(merge([finding(3, message="a"), finding(3, message="b")])) == 1


def test_findings_of_different_checks_are_not_merged() -> None:
    alike = [finding(3, check=check) for check in ("numeric", "accuracy")]
    assert [total.check for total in merge(alike)] == ["numeric", "accuracy"]
    assert len(merge_in_launch(alike)) == 2
