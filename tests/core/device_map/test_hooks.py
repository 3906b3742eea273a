"""What becomes of a torch that takes no backend: a sentence, and nothing is changed."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from ttools.core.device_map import aliases, hooks
from ttools.core.device_map.mapping import map_devices

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there are real CUDA devices")
#: A torch for CUDA has a guard, and hooks derived from those that its headers have.
_CPU = pytest.mark.skipif(torch.version.cuda is not None, reason="needs a torch for the CPU")

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
        ("torch.cuda._initialized = True", "a process that has used a GPU"),
    ],
)
def test_scripts_get_a_sentence_and_the_cpu(change: str, words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CODE.format(change=change)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, second, total = done.stdout.splitlines()
    assert words in first
    assert first == second
    assert total == "6.0"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("_INTERFACE", "N2at5OtherE", "are of the type N2at18CUDAHooksInterfaceE"),
        ("_HOOKED", ("launch",), "have no launch"),
        pytest.param("_entries", lambda _: 3, "have 3 functions, its headers", marks=_CPU),
    ],
)
def test_other_hooks_are_recognised(
    name: str, value: object, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with map_devices({"cuda": "cpu"}):
        pass  # the table in place has no symbol of its own from now on
    monkeypatch.setattr(hooks, name, value)
    with pytest.raises(LookupError, match=words):
        hooks._hooks()


def test_headers_say_what_the_library_has() -> None:
    functions = hooks._virtual_functions("AcceleratorHooksInterface.h")
    assert functions[0] == functions[1] == "~AcceleratorHooksInterface"
    assert {*hooks._HOOKED, hooks._PINNED} <= {*functions}
    aliases.check_capsules()
