"""Tests of versions of torch whose device hooks are not supported: an error, and no map."""

from __future__ import annotations

import pytest
import torch
from tests.forked_python import PYTHON

from ttools.core.device_map import aliases, hooks
from ttools.core.device_map.mapping import map_devices

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
#: Builds of torch for CUDA have a device guard, and their hooks derive from those of the headers.
_CPU = pytest.mark.skipif(
    torch.version.cuda is not None, reason="needs a build of torch for the CPU"
)

_CODE = """
import torch
{change}
from ttools.core.device_map.mapping import map_devices
from ttools.core.errors import UnsupportedError
with map_devices({{"cuda": "cpu"}}):
    for _ in range(2):
        try:
            torch.ones(2, device="cuda")
        except UnsupportedError as error:
            print(error.message)
    x = torch.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    print(x.grad.sum().item())
"""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param("del torch._C._acc.DeviceGuard", "no attribute 'DeviceGuard'", marks=_CPU),
        ("torch.cuda._initialized = True", "a process that has already used a GPU"),
    ],
)
def test_scripts_get_an_error_and_the_cpu_works(change: str, words: str) -> None:
    completed = PYTHON.run(["-c", _CODE.format(change=change)])
    assert completed.returncode == 0, completed.stderr
    first, second, total = completed.stdout.splitlines()
    assert words in first
    assert first == second
    assert total == "6.0"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("_INTERFACE", "N2at5OtherE", "are of the type N2at18CUDAHooksInterfaceE"),
        ("_HOOKED", ("launch",), "have no launch"),
        pytest.param("_entries", lambda _: 3, "have 3 functions, but its headers", marks=_CPU),
    ],
)
def test_unexpected_hooks_are_errors(
    name: str, value: object, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with map_devices({"cuda": "cpu"}):
        pass  # the first map replaces the table of hooks by one that no symbol names
    monkeypatch.setattr(hooks, name, value)
    with pytest.raises(LookupError, match=words):
        hooks._hooks()


def test_headers_declare_the_hooks() -> None:
    functions = hooks._virtual_functions("AcceleratorHooksInterface.h")
    assert functions[0] == functions[1] == "~AcceleratorHooksInterface"
    assert {*hooks._HOOKED, hooks._PINNED} <= {*functions}
    aliases.check_capsules()
