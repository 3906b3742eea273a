"""The pytest plugin: the marker `ttools_sizes`, which checks a test for all sizes at once.

pytest loads this plugin in every run in an environment that has this package. It therefore imports
nothing but pytest until a test has the marker.

    @pytest.mark.ttools_sizes(n=range(1, 1 << 20), require_proof=True)
    def test_softmax(n):
        softmax(torch.rand(n, 128))
"""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "ttools_sizes(n=range(...), require_proof=False, assume=None): check the test for "
        "all sizes in the ranges at once; it fails if a kernel that it launches is wrong at any of "
        "them",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test by its sizes, so that pytest does not look for fixtures of these names."""
    marker = metafunc.definition.get_closest_marker("ttools_sizes")
    if marker is not None:
        for name in marker.kwargs:
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, [None], ids=["all sizes"])


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Check a test for all sizes instead of calling it."""
    marker = pyfuncitem.get_closest_marker("ttools_sizes")
    if marker is None:
        return None
    from functools import partial

    from ttools.core.errors import UsageError
    from ttools.prove.api import prove

    arguments = {name: v for name, v in marker.kwargs.items() if name != "require_proof"}
    names = pyfuncitem._fixtureinfo.argnames
    fixtures = {n: pyfuncitem.funcargs[n] for n in names if n not in arguments}
    test = partial(pyfuncitem.obj, **fixtures)
    try:
        result = prove(test, target=pyfuncitem.name, **arguments)
    except UsageError as error:
        pytest.fail(f"@pytest.mark.ttools_sizes: {error}", pytrace=False)
    unproved = marker.kwargs.get("require_proof", False) and result.outcome != "passed"
    if result.report.failing or unproved:
        pytest.fail(str(result), pytrace=False)
    return True
