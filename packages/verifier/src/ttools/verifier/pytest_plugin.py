"""The pytest plugin: the fixture `ttools_verify`.

Loaded in every pytest run of an environment that has this package, so it imports nothing but pytest
until a test asks for the fixture.

    def test_softmax(ttools_verify):
        ttools_verify("softmax.py:softmax", "softmax.py:reference", "softmax.py:inputs")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def ttools_verify() -> Callable[..., Any]:
    """`ttools.verifier.verify`, which fails the test unless the verdict is `pass`.

    A verdict of `inconclusive` skips the test, with the reason. The arguments are those of
    `verify`; the verification is returned.
    """

    def check(candidate: Any, reference: Any, inputs: Any, **options: Any) -> Any:
        from ttools.verifier.api import verify
        from ttools.verifier.report.text import text_of

        verification = verify(candidate, reference, inputs, **options)
        name = candidate if isinstance(candidate, str) else candidate.__name__
        if verification.verdict == "fail":
            pytest.fail(text_of(verification, name), pytrace=False)
        if verification.verdict == "inconclusive":
            pytest.skip("; ".join(verification.notes) or "inconclusive")
        return verification

    return check
