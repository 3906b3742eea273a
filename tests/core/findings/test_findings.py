"""How findings add up over launches and configurations."""

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
    known: dict[str, Any] = {"kind": "oob_load", "check": "memcheck", "message": "m"}
    return Finding(
        severity="error",
        kernel="kernel",
        location=SourceLocation("kernel.py", line, 5) if line else None,
        argument=ArgumentSpec(name=argument),
        **{**known, **fields},
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
def test_one_finding_for_each_site(found: list[Finding]) -> None:
    merged = merge(found)
    sites = list(dict.fromkeys(each.site for each in found))
    assert [each.site for each in merged] == sites
    for each in merged:
        same = [other for other in found if other.site == each.site]
        assert each.count == sum(other.count for other in same)
        assert each.programs == sum(other.programs for other in same)
        assert (each.launch, each.message) == (same[0].launch, same[0].message)
        configs = [str(other.config) for other in same if other.config is not None]
        assert [str(config) for config in each.configs] == list(dict.fromkeys(configs))
    assert merge(merged) == merged
    for alone, each in zip(merge_in_launch(found), merged, strict=True):
        copies = [o for o in found if (o.site, o.message) == (each.site, each.message)]
        programs, count = max(o.programs for o in copies), sum(o.count for o in copies)
        # The order of configurations is that of the messages.
        assert sorted(map(str, alone.configs)) == sorted(map(str, each.configs))
        alike = replace(alone, config=each.config, other_configs=each.other_configs)
        assert alike == replace(each, programs=programs, count=count)


def test_messages_tell_findings_without_a_place_apart() -> None:
    found = [finding(0, message="a"), finding(0, message="b"), finding(0, message="a")]
    assert Counter(each.message for each in merge(found)) == {"a": 1, "b": 1}
    assert len(merge([finding(3, message="a"), finding(3, message="b")])) == 1
