"""The pytest plugin: the fixture `ttools_verify` and the marker `ttools_reproducible`.

Every pytest run in an environment with this package loads this module. Therefore it imports only
pytest until a test uses the fixture or has the marker.

    def test_softmax(ttools_verify):
        ttools_verify("softmax.py:softmax", "softmax.py:reference", "softmax.py:inputs")

    @pytest.mark.ttools_reproducible(batch="x")
    def test_rows(x):
        return softmax(x)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ttools.verifier.reproducibility.result import Question

_MARKER = "ttools_reproducible"
_QUESTIONS: tuple[Question, ...] = ("runs", "configs")
_OPTIONS = (*_QUESTIONS, "batch", "devices", "gpu", "require_proof")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(batch=None, runs=False, configs=False, devices=(), gpu='sm_90', "
        "require_proof=False): fail the test if, on a GPU, the bits of its results may differ "
        "between executions; the arguments are those of ttools reproduce",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Compare several executions of a test that has the marker, instead of calling it once."""
    marker = pyfuncitem.get_closest_marker(_MARKER)
    if marker is None:
        return None
    options = dict(marker.kwargs)
    if marker.args or set(options) - set(_OPTIONS):
        listed = ", ".join(f"{name}=..." for name in _OPTIONS)
        pytest.fail(f"@pytest.mark.{_MARKER} accepts only {listed}", pytrace=False)
    from ttools.core.errors import TtoolsError
    from ttools.verifier.reproducibility.api import reproduce

    requires_proof = options.pop("require_proof", False)
    asked: list[Question] = [name for name in _QUESTIONS if options.pop(name, False)]
    if not asked and not options.get("batch") and not options.get("devices"):
        asked = list(_QUESTIONS)
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    try:
        result = reproduce(pyfuncitem.obj, arguments, questions=asked, **options)
    except TtoolsError as error:
        pytest.fail(f"@pytest.mark.{_MARKER}: {error}", pytrace=False)
    unproved = result.verdict == "unknown"
    if result.verdict == "differs" or (unproved and requires_proof):
        pytest.fail(result.to("text").rstrip(), pytrace=False)
    if unproved:
        reasons = dict.fromkeys((*(answer.reason for answer in result.failures), *result.notes))
        pytest.skip(f"unknown: {'; '.join(reasons)}")
    return True


@pytest.fixture
def ttools_verify() -> Callable[..., Any]:
    """Return a function that verifies a candidate and fails the test if the verdict is `fail`.

    If the verdict is `inconclusive`, the test is skipped with the reason. The function has the
    arguments of `ttools.verifier.verify` and returns its result.
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
