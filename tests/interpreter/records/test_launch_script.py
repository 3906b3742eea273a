"""Scripts of recorded launches: a new process that runs such a script computes the same bits."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from tests.forked_python import PYTHON

from ttools.core.errors import UsageError
from ttools.core.records.launch_record import Filling
from ttools.interpreter.records.launch_recorder import record
from ttools.interpreter.records.tensor_recipes import Contents, recipe_of

HEAD = """\
import enum, sys
from typing import NamedTuple
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
from ttools.interpreter.records.launch_recorder import record


def bits_of(tensor):
    return tensor.contiguous().flatten().view(torch.uint8).clone()


def kept(**tensors):
    return {
        name: (tensor.dtype, tensor.shape, tensor.stride(), bits_of(tensor))
        for name, tensor in tensors.items()
    }
"""
#: Runs a script in a process that has nothing else of the program, and saves the tensors.
RUN = f"""\
{HEAD}
from ttools.interpreter import interpret
sys.path.insert(0, sys.argv[2])
with interpret():
    import written
    runs = [run for name, run in vars(written).items() if name.startswith("launch")]
    torch.save([kept(**run()) for run in (*runs, *runs)], sys.argv[1])
"""
PLAIN = """
@triton.jit(do_not_specialize=["n"])
def double(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)  # the lanes, "ä"
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(x_ptr + offsets, x * 2, mask=offsets < n)


def launches():
    x = torch.arange(40, dtype=torch.float32)
    double[(1,)](x, 20, BLOCK=32, num_warps=2)
    return [kept(x_ptr=x)]
"""
HELPERS = """
import helpers as h
from helpers import first
import more as m
from more import twice

SCALE = tl.constexpr(5)
acc = 1  # the kernel has a local variable of this name
EARLY = tl.constexpr(7)


@triton.jit
def sums(x_ptr, out_ptr, MODE: tl.constexpr, B: tl.constexpr = h.BLOCK):
    acc = tl.zeros((B,), h.DTYPE)
    scale = first(x_ptr, tl.arange(0, B))
    acc += scale * SCALE + h.scale(scale) + h.half(B) + h.SIZES[1]
    EARLY = EARLY + 1  # reads the global
    acc += EARLY
    if MODE == m.Mode.TWICE and m.Mode.ONCE.value == 1:
        acc = twice(acc)
    tl.store(out_ptr + tl.arange(0, B), tl.math.floor(acc))


def launches():
    torch.manual_seed(11)
    x, out = torch.rand(8), torch.zeros(8)
    sums[(1,)](x, out, m.Mode.TWICE)
    return [kept(x_ptr=x, out_ptr=out)]
"""
HELPERS_FILES = {
    "helpers": """
        from __future__ import annotations
        import triton
        import triton.language as L
        from more import twice as doubled

        DTYPE, SIZES, BLOCK = L.float32, (1, 2), 8
        SCALE = L.constexpr(3)


        @triton.jit
        def first(p, k: L.tensor):
            return doubled(L.load(p + k))


        @triton.jit
        def scale(x):
            return x * SCALE


        @triton.constexpr_function
        def third(n):
            return n // 3


        @triton.constexpr_function
        def half(n):
            return third(n) + BLOCK
        """,
    "more": """
        import enum
        import triton


        class Mode(enum.Enum):
            ONCE = 1
            TWICE = 2


        @triton.jit
        def twice(x):
            return x + x
        """,
}
TUNED = """
@triton.autotune([triton.Config({"BLOCK": 16}, num_warps=2)], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def add(x_ptr, y_ptr, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = None if EVEN else offsets < n
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + 1, mask=mask)


def launches():
    x, y = torch.arange(3000, dtype=torch.float64).sin(), torch.empty(3000).fill_(2.5)
    add[lambda meta: (triton.cdiv(2999, meta["BLOCK"]),)](x, y, 2999)
    return [kept(x_ptr=x, y_ptr=y)]
"""
DESCRIPTORS = """
@triton.jit
def copy(source, out_ptr, M: tl.constexpr, N: tl.constexpr):
    tile = source.load([0, 0])
    target = tl.make_tensor_descriptor(out_ptr, [M, N], [N, 1], [M, N])
    target.store([0, 0], tile)


def launches():
    triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8))
    out = torch.ones(4, 8, dtype=torch.float16)
    x = torch.arange(64, dtype=torch.float16).reshape(4, 16)
    copy[(1,)](TensorDescriptor(x, [4, 10], [16, 1], [4, 8]), out, 4, 8)
    return [kept(source=x, out_ptr=out)]
"""
VIEWS = """
@triton.jit
def mix(a, b, c, missing, pair, flag, f, B: tl.constexpr):
    offsets = tl.arange(0, B)
    x = tl.load(a + offsets * 3) + tl.load(b + offsets).to(tl.float32) + f
    if missing is not None:
        x += tl.load(missing)
    if flag:
        x += tl.load(pair[0] + offsets) + pair[1]
    tl.store(c + offsets, x)


def launches():
    memory = torch.arange(60, dtype=torch.float32).cos()
    a, b, c = memory[5:53:3], memory.view(torch.int32)[1:9], memory[20:28]
    mix[(2, 1, 1)](a, b, c, None, (memory, 4), True, float("inf"), B=8)
    first = kept(a=a, b=b, c=c, **{"pair[0]": memory})
    wide = torch.eye(4, dtype=torch.bfloat16).t()[:, 1]
    mix[(1,)](c, wide.expand(8, 4)[:, 0], c, memory, (b, 1), False, 2.5, B=8)
    column = wide.expand(8, 4)[:, 0]
    return [first, kept(a=c, b=column, c=c, missing=memory, **{"pair[0]": b})]
"""
CLOSURE = """
class Pair(NamedTuple):
    scale: tl.constexpr
    shift: tl.constexpr


def make(size):
    BLOCK = tl.constexpr(size)

    @triton.jit
    def shifted(x_ptr, FUNCTION: tl.constexpr, DTYPE: tl.constexpr, pair):
        offsets = tl.arange(0, BLOCK)
        x = FUNCTION(tl.load(x_ptr + offsets).to(DTYPE))
        tl.store(x_ptr + offsets, x * pair.scale + pair.shift)

    return shifted


@triton.jit
def square(x):
    return x * x


@triton.jit
def cube(x):
    return x * x * x


def launches():
    small, large = make(4), make(8)
    x, y = torch.arange(9.0), torch.tensor([0.5, -0.0, float("nan"), 1e-40, 3, 4, 5, 6])
    small[(1,)](x, square, tl.float32, Pair(2, 1))
    large[(1,)](y, FUNCTION=cube, DTYPE=tl.float64, pair=Pair(3, 4))
    return [kept(x_ptr=x), kept(x_ptr=y)]
"""


def rerun(folder: Path, program: str, files: dict[str, str]) -> str:
    """Record the launches of a program in a script, and run the script in another process.

    The program defines `launches()`, which returns the tensors of each launch after the launch.
    The recorded contents are those before it, so the function makes no launch twice.

    Returns:
        The text of the script.
    """
    home, away = folder / "home", folder / "away"
    home.mkdir()
    away.mkdir()
    for name, text in files.items():
        (home / f"{name}.py").write_text(textwrap.dedent(text))
    script = away / "written.py"
    (home / "program.py").write_text(
        f"{HEAD}{program}\n"
        f"with record(script={str(script)!r}, launches='0:') as recorder:\n"
        "    expected = launches()\n"
        "assert not recorder.notes, recorder.notes\n"
        f"torch.save(expected, {str(folder / 'expected.pt')!r})\n"
    )
    made = PYTHON.run([str(home / "program.py")], cwd=home)
    assert made.returncode == 0, made.stderr
    made = PYTHON.run(["-c", RUN, str(folder / "made.pt"), str(away)], cwd=away)
    assert made.returncode == 0, made.stderr + script.read_text()
    return script.read_text()


@pytest.mark.parametrize(
    ("program", "files", "parts"),
    [
        pytest.param(
            PLAIN,
            {},
            ['the lanes, "ä"', "torch.arange(40, dtype=torch.float32)", "num_warps=2"],
            id="plain",
        ),
        pytest.param(
            HELPERS,
            HELPERS_FILES,
            ["manual_seed(11)", "torch.rand(8", "def scale_2(x):", "import triton.language as L"],
            id="helpers",
        ),
        pytest.param(
            TUNED, {}, ['DATA["x_ptr"]', "EVEN=False", "BLOCK=16", "torch.full("], id="tuned"
        ),
        pytest.param(
            DESCRIPTORS,
            {},
            ["TensorDescriptor(source, shape=[4, 10]", "triton.set_allocator("],
            id="descriptors",
        ),
        pytest.param(VIEWS, {}, ["missing=None", "as_strided((16,), (3,), 5)"], id="views"),
        pytest.param(CLOSURE, {}, ["FUNCTION=square", "pair=Pair(2, 1)"], id="closures"),
    ],
)
def test_a_new_process_gets_the_same_bits(
    tmp_path: Path, program: str, files: dict[str, str], parts: list[str]
) -> None:
    text = rerun(tmp_path, program, files)
    for part in parts:
        assert part in text
    code = "\n".join(map(ast.unparse, ast.parse(text).body[1:]))
    assert "ttools" not in code
    made, expected = (
        torch.load(tmp_path / f"{name}.pt", weights_only=False) for name in ("made", "expected")
    )
    assert len(made) == 2 * len(expected)  # each launch was made twice
    for results, tensors in zip(made, [*expected, *expected], strict=True):
        assert list(results) == list(tensors)
        for name, (*described, data) in tensors.items():
            assert list(results[name][:3]) == described
            assert torch.equal(results[name][3], data)


class Opaque:
    """An argument that no script can contain."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.dtype, self._tensor = tensor.dtype, tensor

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self._tensor.data_ptr()

    def __getattr__(self, name: str) -> object:
        return getattr(self._tensor, name)


@triton.jit
def increment(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr) + 1)


def test_a_launch_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    x = torch.zeros(4)
    with record(tmp_path / "a.tt", script=script) as recorder:
        increment[(1,)](Opaque(x))
    assert x[0] == 1
    assert (recorder.recorded, recorder.in_script) == (1, 0)
    (note,) = recorder.notes
    assert note == (
        f"`increment` is not in {script}: argument `x_ptr` is an object of type Opaque; a script "
        "contains tensors of torch only"
    )
    assert not script.exists()
    assert (tmp_path / "a.tt").exists()


@triton.jit
def negated(x):
    return -x


@triton.jit
def negate(negate, negated_ptr):  # parameters with the names of functions
    tl.store(negated_ptr, negated(tl.load(negate)))


@triton.jit
def store_length(x_ptr, TABLE: tl.constexpr):
    tl.store(x_ptr, negated(tl.load(x_ptr)))


def test_a_refused_launch_leaves_nothing_behind(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    x, y = torch.ones(1), torch.zeros(1)
    with record(script=script) as recorder:
        store_length[(1,)](x, complex(1, 2))
        negate[(1,)](x, y)
    assert (recorder.recorded, recorder.in_script) == (2, 1)
    assert "argument `TABLE` is or contains an object of type complex" in recorder.notes[0]
    text = script.read_text()
    assert "store_length" not in text
    assert "negate_2 = torch.full" in text
    ran = PYTHON.run(["-m", "ttools_entry", "interpret", "--device-map", "off", str(script)])
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "negate tensor([-1.])\nnegated_ptr tensor([1.])\n"


def test_a_script_replaces_only_earlier_scripts(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("x = 1\n")
    with pytest.raises(UsageError, match="exists and is not a script that ttools recorded"):
        record(script=tmp_path / "program.py")
    with pytest.raises(UsageError, match=r"the name must end in \.py"):
        record(script=tmp_path / "program.txt")
    with pytest.raises(UsageError, match="needs a path, or a script"):
        record()
    script = tmp_path / "again.py"
    for factor in (1, 2):
        with record(script=script):
            increment[(1,)](torch.arange(8.0) * factor)
    assert "torch.arange(0, 16, 2" in script.read_text()
    (tmp_path / "other.pt").write_bytes(b"")
    with (
        pytest.raises(UsageError, match=r"cannot write `.*other\.pt`: it exists"),
        record(script=tmp_path / "other.py"),
    ):
        increment[(1,)](torch.arange(5000.0).sin())
    assert (tmp_path / "other.pt").read_bytes() == b""


@pytest.mark.parametrize(
    ("tensor", "recipe"),
    [
        (torch.zeros(9, dtype=torch.bfloat16), "torch.zeros(9, dtype=torch.bfloat16)"),
        (torch.full((9,), -0.0), "torch.full((9,), -0.0, dtype=torch.float32)"),
        (torch.full((9,), float("inf")), "torch.full((9,), float('inf'), dtype=torch.float32)"),
        (torch.ones(9, dtype=torch.bool), "torch.ones(9, dtype=torch.bool)"),
        (torch.arange(90, 0, -3), "torch.arange(90, 0, -3, dtype=torch.int64)"),
        (
            torch.tensor([1, 5, 2**62]),
            "torch.tensor([1, 5, 4611686018427387904], dtype=torch.int64)",
        ),
        (torch.arange(5000).sin(), None),
        (torch.empty(0), "torch.empty(0, dtype=torch.float32)"),
    ],
)
def test_recipes_reproduce_the_bits(tensor: torch.Tensor, recipe: str | None) -> None:
    data = tensor.view(torch.uint8).numpy()
    dtype = str(tensor.dtype).removeprefix("torch.")
    contents = Contents(dtype=dtype, size=data.size, place=0, data=data, filling=None)
    assert recipe_of(contents) == recipe
    if recipe is not None:
        made = eval(recipe, {"torch": torch})
        assert np.array_equal(made.view(torch.uint8).numpy(), data)


@pytest.mark.parametrize(
    ("filling", "dtype"),
    [
        (Filling(kind="normal", dtype="float16", first=3.0, second=0.5, seed=1), torch.float16),
        (Filling(kind="uniform", dtype="int32", first=-2.0, second=7.0, seed=1), torch.int32),
        (Filling(kind="constant", dtype="float32", first=1.5), torch.float32),
    ],
)
def test_contents_that_are_not_recorded_are_similar(filling: Filling, dtype: torch.dtype) -> None:
    size = 4000 * dtype.itemsize
    contents = Contents(dtype=filling.dtype, size=size, place=0, data=None, filling=filling)
    recipe = recipe_of(contents)
    assert recipe is not None
    made = eval(recipe, {"torch": torch})
    assert (made.dtype, made.numel()) == (dtype, 4000)
    if filling.kind == "uniform":
        assert (made.min().item(), made.max().item()) == (-2, 7)
    else:
        assert made.float().mean().item() == pytest.approx(filling.first, abs=0.1)
