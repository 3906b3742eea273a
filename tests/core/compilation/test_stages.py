"""Tests of the stages, resources and instructions of compiled kernels, for several GPUs."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import triton
from tests.core.compilation.compiled_kernels import copy_kernel, inspected, line_of, matmul_kernel

from ttools.core.compilation import stages
from ttools.core.compilation.annotation import annotate
from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.kernel_source import KernelSource, source_of_signature
from ttools.core.compilation.resources import Resources, occupancy
from ttools.core.compilation.specialisation import source_by_kernel
from ttools.core.compilation.stages import (
    Assembled,
    Compilation,
    CompilationError,
    compile_for,
    read_stages,
)
from ttools.core.errors import UsageError
from ttools.core.gpus.targets import ARCHITECTURES, read_target

TARGETS = ["sm_80", "sm_90", "sm_100", "gfx942"]


@pytest.mark.parametrize("target", TARGETS)
def test_each_stage_names_the_lines_of_the_kernel(target: str) -> None:
    compilation = inspected("copy", target).compilation
    loads, stores = line_of(copy_kernel, "tl.load"), line_of(copy_kernel, "tl.store")
    for stage in compilation.stages:
        lines = annotate(stage, compilation.text(stage))
        numbers = {line.location.line for line in lines if line.location}
        assert {loads, stores} <= numbers, stage
        files = {line.location.file for line in lines if line.location} - {""}
        assert all(file.endswith("compiled_kernels.py") for file in files), stage
        # Lines that only define locations are not shown.
        assert not any(re.match(r"#loc|\s*\.loc |\s*//## File", line.text) for line in lines)


def test_an_instruction_is_under_its_line() -> None:
    compilation = inspected("copy", "sm_80").compilation
    for stage, load, store in (
        ("ttgir", "tt.load", "tt.store"),
        ("ptx", "ld.global", "st.global"),
        ("sass", "LDG", "STG"),
    ):
        for word, text in ((load, "tl.load"), (store, "tl.store")):
            numbers = {
                line.location.line
                for line in annotate(stage, compilation.text(stage))
                if re.search(rf"\b{re.escape(word)}\b", line.text) and line.location
            }
            assert numbers == {line_of(copy_kernel, text)}, (stage, word)


@pytest.mark.parametrize(
    ("kernel", "load", "store"),
    [("copy", 128, 128), ("strided copy", 32, 128), ("unaligned copy", 32, 32)],
)
@pytest.mark.parametrize("target", TARGETS)
def test_width_of_accesses(kernel: str, load: int, store: int, target: str) -> None:
    accesses = inspected(kernel, target).accesses
    assert {(a.kind, a.bits) for a in accesses} == {("load", load), ("store", store)}
    by_kind = {a.kind: a.location.line for a in accesses if a.location}
    assert by_kind["load"] == line_of(copy_kernel, "tl.load")
    assert by_kind["store"] == line_of(copy_kernel, "tl.store")


@pytest.mark.parametrize(
    ("target", "name"),
    [("sm_80", "mma."), ("sm_90", "wgmma."), ("sm_100", "tcgen05.mma"), ("gfx942", "v_mfma")],
)
def test_matrix_units(target: str, name: str) -> None:
    inspection = inspected("matmul", target)
    assert {instruction.name.startswith(name) for instruction in inspection.matrix} == {True}
    dot = line_of(matmul_kernel, "tl.dot")
    assert {
        instruction.location.line for instruction in inspection.matrix if instruction.location
    } == {dot}
    assert inspection.plain_dots == []


def test_a_product_without_matrix_units_is_named() -> None:
    inspection = inspected("float matmul", "sm_75")
    assert inspection.matrix == []
    (location,) = inspection.plain_dots
    assert location is not None
    assert location.line == line_of(matmul_kernel, "tl.dot")


def test_resources() -> None:
    few, many = inspected("matmul", "sm_80"), inspected("matmul", "sm_80", num_warps=8)
    assert (few.resources.threads, many.resources.threads) == (128, 256)
    assert few.resources.registers > 32
    assert few.resources.shared >= 64 * 32 * 2 * 2  # at least one stage of both operands
    assert few.resources.spilled == 0
    amd = inspected("matmul", "gfx942").resources
    assert (amd.threads, amd.warps) == (256, 4)
    assert amd.registers > 16


@pytest.mark.parametrize(
    ("target", "registers", "shared", "warps", "blocks", "limited_by"),
    [
        # Computed by hand from the table of compute capabilities in the CUDA programming guide.
        ("sm_80", 32, 0, 4, 16, "warps"),
        ("sm_80", 64, 0, 8, 4, "registers"),
        ("sm_80", 255, 0, 4, 2, "registers"),
        ("sm_80", 40, 48 * 1024, 4, 3, "shared memory"),
        ("sm_80", 16, 0, 1, 32, "blocks"),
        ("sm_80", 16, 164 * 1024, 4, 0, "shared memory"),
        ("sm_86", 32, 0, 4, 12, "warps"),
        ("sm_90", 168, 200 * 1024, 12, 1, "shared memory"),
        ("sm_120", 128, 64 * 1024, 4, 1, "shared memory"),
        ("gfx942", 128, 0, 4, 4, "registers"),
        ("gfx942", 64, 64 * 1024, 4, 1, "shared memory"),
    ],
)
def test_occupancy(
    target: str, registers: int, shared: int, warps: int, blocks: int, limited_by: str
) -> None:
    limits = ARCHITECTURES[target]
    assert limits is not None
    threads = warps * read_target(target).threads
    own = Resources(
        registers=registers,
        spilled=0,
        spill_instructions=0,
        shared=shared,
        warps=warps,
        threads=threads,
    )
    result = occupancy(own, limits)
    assert (result.blocks, result.limited_by) == (blocks, limited_by)
    assert result.warps == blocks * warps <= result.most_warps


def test_kernels_with_many_registers() -> None:
    inspection = inspected("matmul", "sm_90", num_warps=1)
    # One warp has accumulators of 64x64 and the addresses of all loads: more than 255 registers.
    assert inspection.resources.registers >= 128


def test_unknown_targets() -> None:
    for text, close in (("sm_91", "sm_90"), ("gfx941", "gfx942")):
        with pytest.raises(UsageError, match=close):
            read_target(text)
    assert {read_target(t).name for t in ("90", "sm90", "SM_90", "cuda:90", "sm_90a")} == {"sm_90"}


def test_stages_by_name() -> None:
    assert read_stages(["sass", "ttir"]) == ["ttir", "sass"]
    with pytest.raises(UsageError, match="there is no stage `spirv`; choose from ast, ttir"):
        read_stages(["spirv"])
    with pytest.raises(UsageError, match="gfx942 has no stage `ptx`; choose from ast, ttir"):
        inspected("copy", "gfx942").compilation.text("ptx")


def test_compiler_errors_are_reported() -> None:
    source = source_of_signature(copy_kernel, "*fp32,*fp32,i32,1,1000", {})
    with pytest.raises(CompilationError, match=r"(?s)`copy_kernel` does not compile.*power of 2"):
        compile_for(source, read_target("sm_80"))


def test_a_launched_kernel_is_not_compiled_again_for_its_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compile with Triton without a launch, which needs no GPU, and inspect the result."""
    source = source_of_signature(copy_kernel, "*fp32:16,*fp32:16,i32:16,1,64", {})
    target = read_target("sm_90")
    # `maxnreg` is an option that only the compiled kernel contains, not the source.
    options = {"num_warps": 8, "maxnreg": 64}
    compiled = triton.compile(source.compilable(), target=target.gpu_target(), options=options)
    (launched,) = source_by_kernel([compiled]).values()
    with monkeypatch.context() as patched:
        patched.setattr(
            "triton.compile", lambda *_, **__: pytest.fail("the kernel was compiled again")
        )
        inspection = Inspection(compile_for(launched, target))
        assert inspection.compilation.binary == compiled.asm["cubin"]
        assert ".maxnreg 64" in inspection.compilation.text("ptx")
        assert inspection.resources.warps == 8
        # The PTX is assembled again, with line information, which results in the same code.
        assert inspection.machine_code is not None
    other = compile_for(launched, read_target("sm_80"))
    assert other.binary != compiled.asm["cubin"]
    monkeypatch.delitem(compiled.asm, "ptx")  # TRITON_STORE_BINARY_ONLY=1 omits it
    assert ".maxnreg" not in compile_for(launched, target).text("ptx")


@pytest.mark.parametrize(
    ("signature", "sentence"),
    [
        ("*fp32,*fp32,i32", "has 3 entries, but `copy_kernel` has 5 parameters"),
        ("*fp32,*fp32,i32,i32,BLOCK", "`BLOCK` for `BLOCK` is neither a type"),
        ("*fp32:8,*fp32,i32,i32,64", "must be :16 or :1"),
    ],
)
def test_invalid_signatures(signature: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=re.escape(sentence)):
        source_of_signature(copy_kernel, signature, {})


def test_threads_assemble_and_disassemble_concurrently(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    barrier = threading.Barrier(2, timeout=60)

    def assemble(*_: object) -> Assembled:
        barrier.wait()
        return Assembled(b"", "")

    def disassemble(_: bytes) -> str:
        barrier.wait()
        return "code"

    monkeypatch.setattr(stages, "assemble", assemble)
    monkeypatch.setattr(stages, "disassemble", disassemble)
    monkeypatch.setattr(stages, "same_code", lambda *_: True)
    source, target = KernelSource(name="k"), read_target("sm_90")
    compiled = [Compilation(source, target, {"ptx": ""}, b"", {}) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda compilation: compilation.sass, compiled)) == ["code", "code"]
