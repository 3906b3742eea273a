"""Launches restored from bytes: aliases, alignment, functions, sources."""

from __future__ import annotations

import pickle
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.forked_python import PYTHON

from ttools.interpreter.run.tuned_launch import TunedCall
from ttools.tuner.workers.serialized_launch import (
    CannotSendError,
    SerializedCall,
    deserialize,
    serialize,
)


@triton.jit
def nothing_kernel(x_ptr, BLOCK: tl.constexpr):
    pass


def launch_of(arguments: dict[str, Any], kernel: Any = nothing_kernel, **options: Any) -> Any:
    tuner = triton.autotune([triton.Config({"BLOCK": 8})], key=[], **options)(kernel)
    return TunedCall(
        kernel="nothing_kernel",
        tuner=tuner,
        configs=tuner.configs,
        arguments=arguments,
        run=lambda config: None,
        choose=lambda config: None,
        compiled=lambda config: None,
        key=(),
    )


def again(arguments: dict[str, Any]) -> dict[str, Any]:
    serialized = pickle.loads(pickle.dumps(serialize(launch_of(arguments))))
    assert isinstance(serialized, SerializedCall)
    return dict(deserialize(serialized).arguments)


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4), st.integers(1, 3)), max_size=4),
    st.sampled_from([torch.float32, torch.int8, torch.bfloat16, torch.float8_e4m3fn]),
)
def test_views_of_one_storage_share_a_storage_again(
    views: list[tuple[int, int, int]], dtype: torch.dtype
) -> None:
    base = torch.arange(32, dtype=torch.uint8).to(dtype)
    tensors = {
        f"t{n}": base.as_strided((size, 2), (stride, 1), offset)
        for n, (offset, size, stride) in enumerate(views)
    }
    restored = again({"base": base, "n": 3, **tensors})
    assert restored["n"] == 3
    address = restored["base"].data_ptr()
    assert address % 16 == 0
    assert restored["base"].view(torch.uint8).tolist() == base.view(torch.uint8).tolist()
    for name, tensor in tensors.items():
        shape = (tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype)
        own = restored[name]
        assert (own.shape, own.stride(), own.storage_offset(), own.dtype) == shape
        assert own.data_ptr() - address == tensor.data_ptr() - base.data_ptr()


def test_memory_is_copied() -> None:
    x = torch.ones(4)
    restored = again({"x": x, "none": None, "grid": (1, 2), "shape": x.shape})
    restored["x"].zero_()
    assert x.tolist() == [1.0] * 4
    assert (restored["none"], restored["grid"]) == (None, (1, 2))
    assert restored["shape"].numel() == 4


@pytest.mark.parametrize("whole", [True, False], ids=["here", "elsewhere"])
def test_much_memory_is_read_by_another_process_in_place(tmp_path: Path, whole: bool) -> None:
    x = torch.arange(1 << 19, dtype=torch.int64)
    serialized = serialize(launch_of({"x": x[3:], "y": x}))
    sent = serialized.for_other_machines() if whole else serialized
    payload = pickle.dumps(sent)
    assert (len(payload) > x.nbytes) == whole
    (tmp_path / "serialized").write_bytes(payload)
    x.zero_()  # the earlier contents are sent
    script = """
        import pickle, sys, torch
        from ttools.tuner.workers.serialized_launch import deserialize
        made = deserialize(pickle.load(open(sys.argv[1], "rb"))).arguments
        assert torch.equal(made["y"], torch.arange(1 << 19)) and made["x"][0] == 3
        made["y"].zero_()
        assert made["x"][-1] == 0
    """
    result = PYTHON.run(["-c", textwrap.dedent(script), str(tmp_path / "serialized")], timeout=240)
    assert result.returncode == 0, result.stderr
    again = deserialize(serialized).arguments["y"]
    assert int(again[5]) == 5, "the other process only changes its own copy"


def test_memory_without_contents_is_zero_and_aligned() -> None:
    x = torch.ones(70001, dtype=torch.uint8)
    restored = deserialize(serialize(launch_of({"x": x})).without_contents()).arguments["x"]
    assert restored.shape == x.shape
    assert not restored.any()
    assert restored.data_ptr() % 64 == 0


def test_arguments_that_cannot_be_sent_are_named() -> None:
    sparse = torch.eye(3).to_sparse()
    with pytest.raises(CannotSendError, match=r"nothing_kernel` cannot.*torch.sparse_coo"):
        serialize(launch_of({"x_ptr": sparse}))


def test_hooks_and_resets_are_sent() -> None:
    x = torch.ones(3)
    options = {"reset_to_zero": ["x_ptr"], "restore_value": ["x_ptr"]}
    tuner = deserialize(serialize(launch_of({"x_ptr": x}, **options))).tuner
    assert (tuner.reset_to_zero, tuner.restore_value) == (["x_ptr"], ["x_ptr"])
    own = deserialize(serialize(launch_of({}, pre_hook=lambda *a, **k: 5))).tuner
    assert own.pre_hook({}) == 5


def test_kernels_of_a_script_are_restored_without_running_it(tmp_path: Path) -> None:
    """Restore kernels whose file has changed, and that import neighbouring modules by name."""
    (tmp_path / "neighbour.py").write_text("def factor(): return 3\n")
    script = """
        import pickle, sys, torch, triton, triton.language as tl
        import neighbour
        from tests.tuner.workers.test_serialized_launch import launch_of
        from ttools.tuner.workers.serialized_launch import serialize

        WIDTH = tl.constexpr(4)

        @triton.jit
        def part(x): return x + WIDTH

        @triton.jit
        def kernel(x_ptr, BLOCK: tl.constexpr):
            tl.store(x_ptr, part(tl.load(x_ptr)))

        launch = launch_of(
            {"x_ptr": torch.ones(1), "grid": lambda meta: (neighbour.factor(),)}, kernel
        )
        open("serialized", "wb").write(pickle.dumps(serialize(launch)))
        open(__file__, "w").write("raise SystemExit('must not run')")
    """
    reader_script = """
        import pickle
        from ttools.interpreter import interpret
        from ttools.tuner.workers.serialized_launch import deserialize
        made = deserialize(pickle.load(open("serialized", "rb")))
        assert made.arguments["grid"]({}) == (3,)
        interpret(threads=1)(made.tuner.run)(**made.arguments, warmup=False)
        print(made.arguments["x_ptr"].item())
    """
    path = f"import sys\nsys.path.append({str(Path(__file__).parents[3])!r})\n"
    for name, text in (("script", script), ("made", reader_script)):
        file = tmp_path / f"{name}.py"
        file.write_text(path + textwrap.dedent(text))
        result = PYTHON.run([str(file)], cwd=tmp_path)
        assert result.returncode == 0, result.stderr
    assert result.stdout == "13.0\n", "each of three programs adds four, in order"
