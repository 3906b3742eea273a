"""Operations, columns, callers and parameters of the source lines that compute-sanitizer names."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from tests.specs import tensor_argument

from ttools.core.location import SourceLocation
from ttools.core.spec import LaunchSpec
from ttools.sanitizer.gpu.findings import UnseenWrites, is_scratch
from ttools.sanitizer.gpu.launch_log import LogEntry
from ttools.sanitizer.gpu.output import Frame, Record
from ttools.sanitizer.gpu.sites import Site, find_site

HERE = Path(__file__)


@triton.jit
def first_of(ptr):
    return tl.load(ptr)


@triton.jit(noinline=True)
def put(ptr, value):
    tl.store(ptr, value)


@triton.jit
def kernel(x_ptr, y_ptr, table_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    both = tl.load(x_ptr + offs) + tl.load(y_ptr + offs)
    tl.atomic_add(out_ptr + offs, both + first_of(y_ptr))
    put(x_ptr, 1.0)
    far = tl.load(table_ptr).to(tl.pointer_type(tl.float32))
    tl.store(far, 1.0)
    total = tl.sum(both)
    out = tl.make_tensor_descriptor(out_ptr, [64], [1], [BLOCK])
    out.store([0], both + total)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tensors = [torch.zeros(64), torch.zeros(64), torch.zeros(1, dtype=torch.int64), torch.zeros(64)]
    compiled = kernel.warmup(*tensors, BLOCK=64, grid=(1,))
    path = tmp_path_factory.mktemp("ttir") / "kernel.ttir"
    path.write_text(compiled.asm["ttir"])
    return path


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(HERE.read_text().splitlines(), 1) if text in line)


def site(source: Path, access: str, text: str) -> Site:
    return find_site(source, access, f"/elsewhere/{HERE.name}", line_of(text))


def test_one_operation_of_a_line(source: Path) -> None:
    operation = site(source, "atomic", "tl.atomic_add(out_ptr")
    assert operation.parameters == {"out_ptr"}
    assert operation.location is not None
    assert operation.location.column > 1
    assert operation.location.file == str(HERE)


def test_several_operations_of_a_line_share_its_location(source: Path) -> None:
    operation = site(source, "read", "both = tl.load(x_ptr")
    assert operation.parameters == {"x_ptr", "y_ptr"}
    assert operation.location == SourceLocation(str(HERE), line_of("both = tl.load(x_ptr"), 0)


def test_calls(source: Path) -> None:
    inlined, apart = (
        site(source, "read", "return tl.load(ptr)"),
        site(source, "write", "tl.store(ptr, value)"),
    )
    for operation, parameter, caller in (
        (inlined, "y_ptr", "first_of(y"),
        (apart, "x_ptr", "put(x_ptr"),
    ):
        assert operation.parameters == {parameter}
        assert operation.location is not None
        assert [call.line for call in operation.location.callers] == [line_of(caller)]


def test_pointer_from_memory_has_no_parameter(source: Path) -> None:
    operation = site(source, "write", "tl.store(far")
    assert operation.parameters == frozenset()
    assert operation.location is not None
    assert operation.location.column > 1


def test_operation_that_is_no_access(source: Path) -> None:
    operation = site(source, "", "total = tl.sum")
    assert operation.location is not None
    assert (operation.location.line, operation.is_inserted) == (line_of("total = tl.sum"), False)


def test_without_ttir_only_the_line_is_known(tmp_path: Path) -> None:
    (tmp_path / "broken.ttir").write_text("module { what is this")
    for path in (None, tmp_path / "missing.ttir", tmp_path / "broken.ttir"):
        assert find_site(path, "read", "k.py", 3) == Site(SourceLocation("k.py", 3, 0))
    assert find_site(None, "read", None, 0) == Site()


# --- errors that may be false -------------------------------------------------------------------


def launch(source: Path) -> LogEntry:
    out = tensor_argument("out_ptr", storage=1000, storage_bytes=256)
    x = tensor_argument("x_ptr", storage=2000, storage_bytes=256)
    spec = LaunchSpec(kernel="kernel", grid=(1, 1, 1), arguments=(out, x))
    return LogEntry(spec=spec, function="kernel", source=source.name, begin=50, end=60)


def read(address: int, position: int = 55) -> Record:
    return Record(
        position=position, text="", space="global", access="read", address=address, frame=Frame("k")
    )


def test_memory_written_through_descriptors() -> None:
    # Use TTIR recorded on a GPU, since descriptors are rewritten for the CPU.
    recorded = sorted((HERE.parent / "recorded/initcheck-descriptors").glob("*.ttir"))
    source = next(path for path in recorded if "tt.descriptor_store" in path.read_text())
    unseen = UnseenWrites([launch(source)], source.parent)
    assert unseen.hold(read(1000, 80))
    assert unseen.hold(read(1255))
    assert not unseen.hold(read(1000, 40))  # before the written part
    assert not unseen.hold(read(1256, 80))
    assert not unseen.hold(read(2000, 80))  # `x_ptr` is written by plain stores


def test_scratch_memory_of_the_compiler(source: Path) -> None:
    descriptor = site(source, "read", "out = tl.make_tensor_descriptor")
    assert descriptor.is_inserted
    assert is_scratch(read(5000), launch(source), descriptor)
    assert not is_scratch(read(1000), launch(source), descriptor)  # in an argument
    assert not is_scratch(read(5000), launch(source), site(source, "read", "return tl.load(ptr)"))
    assert not is_scratch(read(5000), None, descriptor)
