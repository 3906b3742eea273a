"""Tests of compiling and loading: relocatable objects, external functions, targets and errors."""

from __future__ import annotations

import ctypes
import platform
import threading
from pathlib import Path

import llvmlite.binding
import pytest
from tests.forked_python import PYTHON

from ttools.core.errors import TtoolsError, UsageError
from ttools.interpreter.native import jit
from ttools.interpreter.native.object_file import undefined_symbols
from ttools.interpreter.runtime.support.native_runtime import runtime_ir

SINE = """
@table = private constant [2 x double] [double 1.0, double 2.0]
declare double @sin(double)
declare double @llvm.cos.f64(double)
define void @ttools_run(ptr %launch, ptr %arena) {
  %x = load double, ptr %launch
  %a = call double @sin(double %x)
  %b = call double @llvm.cos.f64(double %x)
  %i = fptosi double %x to i64
  %at = getelementptr double, ptr @table, i64 %i
  %v = load double, ptr %at
  %c = fadd double %a, %b
  %d = fadd double %c, %v
  store double %d, ptr %launch
  ret void
}
"""
SINE_OF_1 = 0.8414709848078965 + 0.5403023058681398 + 2.0


def sine(code: jit.NativeCode) -> float:
    value = ctypes.c_double(1.0)
    code.function(ctypes.addressof(value), None)
    return value.value


@pytest.mark.parametrize("opt", [0, 1, 2, 3])
@pytest.mark.parametrize("header", ["", f"{jit.QUICK}\n"])
def test_compile_and_run_with_functions_of_libm(opt: int, header: str) -> None:
    assert sine(jit.load(jit.compile_ir(header + SINE, opt=opt))) == pytest.approx(
        SINE_OF_1, abs=1e-15
    )


@pytest.mark.parametrize("attribute", ["", "alwaysinline", "noinline"])
def test_calls_of_internal_functions(attribute: str) -> None:
    text = f"""
define internal double @twice(double %x) {attribute} {{
  %y = fadd double %x, %x
  ret double %y
}}
define void @ttools_run(ptr %launch, ptr %arena) {{
  %x = load double, ptr %launch
  %y = call double @twice(double %x)
  store double %y, ptr %launch
  ret void
}}
"""
    assert sine(jit.load(jit.compile_ir(text))) == 2.0
    with llvmlite.binding.create_context() as context:
        module = llvmlite.binding.parse_assembly(text, context)
        with module:
            decided_by_llvm = {f.name: jit._may_be_inlined(f) for f in module.functions}
    assert decided_by_llvm == {"twice": not attribute, "ttools_run": False}


def test_phases_are_timed() -> None:
    phases: dict[str, float] = {}
    jit.compile_ir(SINE, phases=phases)
    assert set(phases) == {"parse", "optimise", "codegen"}
    assert all(seconds > 0 for seconds in phases.values())


def test_an_object_runs_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "sine.o"
    path.write_bytes(jit.compile_ir(SINE))
    script = f"""
import ctypes, pathlib
from ttools.interpreter.native import jit
value = ctypes.c_double(1.0)
jit.load(pathlib.Path({str(path)!r}).read_bytes()).function(ctypes.addressof(value), None)
print(value.value)
"""
    completed = PYTHON.run(["-c", script])
    assert completed.returncode == 0, completed.stderr
    assert float(completed.stdout) == pytest.approx(SINE_OF_1, abs=1e-15)


def test_undefined_symbols() -> None:
    symbols = undefined_symbols(jit.compile_ir(SINE))
    assert {"sin", "cos"} <= set(symbols)
    assert "ttools_run" not in symbols


@pytest.mark.parametrize("data", [b"", b"\x7fELF\x02\x01", b"nonsense" * 40])
def test_invalid_objects_are_errors(data: bytes) -> None:
    with pytest.raises(ValueError, match="ELF"):
        jit.load(data)


def test_a_truncated_object_is_an_error() -> None:
    data = jit.compile_ir(SINE)
    for size in range(64, len(data), 97):
        with pytest.raises(ValueError, match=r"damaged|linked"):
            jit.load(data[:size])


def test_an_undefined_function_is_an_error() -> None:
    text = """
    declare void @no_such_function()
    define void @ttools_run(ptr %l, ptr %a) {
      call void @no_such_function()
      ret void
    }
    """
    with pytest.raises(TtoolsError, match="needs no_such_function"):
        jit.load(jit.compile_ir(text))


@pytest.mark.parametrize(
    "text",
    [
        "define void @ttools_run() { ret i32 0 }",
        # LLVM parses this, but the verifier rejects it: %x does not dominate its use.
        """define i32 @ttools_run(i1 %c) {
          br i1 %c, label %a, label %b
        a:
          %x = add i32 1, 2
          br label %b
        b:
          ret i32 %x
        }""",
    ],
)
def test_invalid_code_names_the_kernel(text: str) -> None:
    with pytest.raises(TtoolsError, match="generated for kernel `softmax` is not valid"):
        jit.compile_ir(text, name="softmax")


def test_compiling_from_several_threads() -> None:
    results: list[float] = []

    def work() -> None:
        results.append(sine(jit.load(jit.compile_ir(SINE))))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [pytest.approx(SINE_OF_1, abs=1e-15)] * 4


def test_lanes_of_named_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("tests names of x86 CPUs")
    assert jit.host_lanes("x86-64") == 4
    assert jit.host_lanes("nehalem") == 4
    if jit.host_lanes() >= 8:
        assert jit.host_lanes("x86-64-v3") == 8
        assert jit.host_lanes("haswell") == 8
        monkeypatch.setenv("TTOOLS_CPU", "x86-64-v3")
        assert jit.host_lanes() == 8
        assert sine(jit.load(jit.compile_ir(SINE))) == pytest.approx(SINE_OF_1, abs=1e-15)


def test_an_unsupported_level_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_host_features", lambda: {"avx2": True})
    jit._target.cache_clear()
    try:
        with pytest.raises(UsageError, match=r"TTOOLS_CPU=x86-64-v4: .* lacks avx512f"):
            jit.host_target("x86-64-v4")
    finally:
        jit._target.cache_clear()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64"])
def test_the_runtime_is_valid_for_every_machine(machine: str) -> None:
    llvm = jit._llvm()
    with (
        llvm.create_context() as context,
        llvm.parse_assembly(runtime_ir(machine), context) as module,
    ):
        module.verify()


class _Heap(ctypes.Structure):
    """`struct mallinfo2` of the GNU C library."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks"),
            *("uordblks", "fordblks", "keepcost"),
        )
    ]


@pytest.mark.parametrize("opt", [1, 2])
def test_compiling_frees_its_memory(opt: int) -> None:
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        pytest.skip("needs `mallinfo2` of the GNU C library")
    library.mallinfo2.restype = _Heap

    def compile_some(number: int) -> int:
        for n in range(number):
            jit.compile_ir(SINE.replace("2.0]", f"{n}.0]"), opt=opt)
        return int(library.mallinfo2().uordblks)

    before = compile_some(2)
    # A pass manager that is not freed takes 30 to 70 KiB.
    assert compile_some(20) - before < 20 * 8 * 1024


def test_code_does_not_depend_on_earlier_compilations() -> None:
    texts = [SINE, f"{jit.QUICK}\n{SINE}", f"{jit.QUICKEST}\n{SINE}"]
    cases = [(text, opt) for text in texts for opt in (0, 1, 2, 3)]
    alone = []
    for text, opt in cases:
        jit._machine.cache_clear()
        alone.append(jit.compile_ir(text, opt=opt))
    assert len(set(alone)) > 1, "levels or passes differ"
    for order in (cases, cases[::-1]):
        together = {case: jit.compile_ir(case[0], opt=case[1]) for case in order}
        assert [together[case] for case in cases] == alone


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="tests levels of x86-64")
def test_targets_have_different_code() -> None:
    wide = """define <8 x i32> @ttools_run(<8 x i32> %a) {
  %b = add <8 x i32> %a, %a
  ret <8 x i32> %b
}"""
    levels = ("x86-64-v3", "x86-64")
    first, second = (jit.compile_ir(wide, cpu=cpu) for cpu in levels)
    assert first != second
    assert [jit.compile_ir(wide, cpu=cpu) for cpu in levels] == [first, second]
