"""Names of C++ kernels in profiles."""

from __future__ import annotations

import sys

import pytest
import torch

from ttools.cli.profile import kernel_names
from ttools.cli.profile.kernel_names import readable_name

_MAX = "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_6MaxOpsIfEEjfLi4ELi4EEEEEvT1_"
_ABS = (
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_10AbsFunctorIfEESt5arrayIPcLm2EE"
    "EEviT0_T1_"
)
_NORMAL = (
    "_ZN2at6native54_GLOBAL__N__d8ceb000_21_DistributionNormal_cu_0c5b6e8543distribution_"
    "elementwise_grid_stride_kernelIfLi4EEEvT_"
)


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("softmax_kernel", "softmax_kernel"),
        ("_Z", "_Z"),
        ("_Znonsense", "_Znonsense"),
        ("_Z4copyPfS_i", "copy"),
        ("_ZN12_GLOBAL__N_14copyEPf", "copy"),
        (_NORMAL, "at::native::distribution_elementwise_grid_stride_kernel<float, 4>"),
    ],
)
def test_names(mangled: str, name: str) -> None:
    assert torch.__version__  # torch, which demangles the names, is installed
    assert readable_name(mangled) == name


def test_template_arguments_are_shown() -> None:
    shown = "at::native::vectorized_elementwise_kernel<4, at::native::AbsFunctor<float>, "
    assert readable_name(_ABS) == shown + "std::array<char*, 2ul> >"


def test_long_names_are_shortened() -> None:
    name = readable_name(_MAX)
    assert name.startswith("at::native::reduce_kernel<512, 1, ")
    assert name.endswith(", unsigned int, float, 4, 4> >")
    assert (len(name), name.count("…")) == (100, 1)


@pytest.mark.parametrize("name", [_ABS, _MAX, _NORMAL, "_Z4copyPfS_i", "_Z", "_Znonsense"])
def test_names_without_torch_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_torch = readable_name(name)
    monkeypatch.delitem(sys.modules, "torch")
    assert readable_name(name) == with_torch


def test_names_stay_mangled_without_a_demangler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(kernel_names, "_library", lambda: None)
    assert readable_name(_ABS) == _ABS
