"""The pytest plugin: the fixture `ttools_verify`.

Every pytest run in an environment with this package loads this module. Therefore it imports only
pytest until a test uses the fixture.

    def test_softmax(ttools_verify):
        ttools_verify("softmax.py:softmax", "softmax.py:reference", "softmax.py:inputs")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def ttools_verify() -> Callable[..., Any]:
    """Return a function that verifies a candidate and fails the test if the verdict is `fail`.

    A verdict of `inconclusive` skips the test with the reason. The function has the arguments of
    `ttools.verifier.verify` and returns its result.
    """

    def check(candidate: Any, reference: Any = None, inputs: Any = None, **options: Any) -> Any:
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
