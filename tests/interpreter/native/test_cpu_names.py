"""Tests of the names of CPUs in `TTOOLS_CPU`."""

from __future__ import annotations

import platform

import pytest

from ttools.core.errors import UsageError
from ttools.interpreter.native import jit

x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="tests names of x86-64 CPUs")


@pytest.mark.parametrize("name", ["nonsense", "a b", "x" * 500, "../x", "\u00e9", "-", "+avx2"])
def test_unknown_names_are_errors(name: str) -> None:
    with pytest.raises(UsageError, match="LLVM has no such CPU for this machine"):
        jit.host_target(name)


@x86
@pytest.mark.parametrize("name", ["i386", "pentium4"])
def test_32_bit_cpus_are_errors(name: str) -> None:
    with pytest.raises(UsageError, match="LLVM has no such CPU"):
        jit.host_target(name)


@x86
def test_cpus_with_more_features_are_errors() -> None:
    if jit._host_features().get("avx512fp16"):
        pytest.skip("this machine has the features of the newest CPUs")
    with pytest.raises(UsageError, match="it lacks some of its instructions"):
        jit.host_target("sapphirerapids")


@x86
@pytest.mark.parametrize("name", ["x86-64", "core2", "nehalem"])
def test_cpus_with_fewer_features_are_accepted(name: str) -> None:
    target = jit.host_target(name)
    assert target.cpu == name
    assert jit.compile_ir("define void @ttools_run(ptr %a, ptr %b) {\n ret void\n}", cpu=name)


def test_the_name_of_the_host() -> None:
    host = jit.host_target("")
    assert jit.host_target(host.cpu) == host
