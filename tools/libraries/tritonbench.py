"""Converts kernels of TritonBench's set G to files for `ttools verify --batch`.

`python -m tools.libraries.tritonbench CHECKOUT FOLDER` reads a checkout of
https://github.com/thunlp/TritonBench. Each file of the set contains kernels with their host
functions and, below a line of `#`, a test. For each kernel of `KERNELS`, a file without the test is
written, together with a reference in torch and a domain of sizes from 1 on.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from string import Template


@dataclass(frozen=True)
class Kernel:
    """A kernel with its reference.

    Attributes:
        call: Expression that calls the host function.
        right: Expression of the correct result.
        arguments: Shapes of the tensors by name, as expressions of the sizes.
        sizes: Smallest and largest value of each size, by name.
        contiguous: Arguments that the kernel requires to be contiguous, since it uses no strides.
        finite: Arguments with finite values, since norms and products of other values are
            unspecified.
        has_gradients: If True, gradients are compared, too.
    """

    call: str
    right: str
    arguments: dict[str, str]
    sizes: dict[str, tuple[int, int]]
    contiguous: tuple[str, ...] = ()
    finite: tuple[str, ...] = ()
    has_gradients: bool = False


_ROWS = {"M": (1, 40), "N": (1, 600)}
_MATRIX = {"x": "M, N"}
_VECTOR, _LENGTH = {"x": "N"}, {"N": (1, 5000)}

#: Kernels by the name of their file.
KERNELS = {
    "cosine_compute": Kernel("cos(x)", "torch.cos(x)", _MATRIX, _ROWS, ("x",)),
    "l2_norm_triton1": Kernel(
        "_l2_norm_fwd(x)",
        "x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)",
        _MATRIX,
        _ROWS,
        finite=("x",),
    ),
    "layer_norm_triton": Kernel(
        "layer_norm(x, w.shape, w, b, 1e-5)",
        "F.layer_norm(x, w.shape, w, b, 1e-5)",
        {"x": "M, N", "w": "N", "b": "N"},
        _ROWS,
        ("x", "w", "b"),
        ("x", "w", "b"),
        has_gradients=True,
    ),
    "log_softmax": Kernel("log_softmax(x, 1)", "torch.log_softmax(x, 1)", _MATRIX, _ROWS),
    "logsumexp_fwd": Kernel(
        "logsumexp_fwd(x)", "torch.logsumexp(x, -1)", _MATRIX, _ROWS, ("x",), ("x",)
    ),
    "matrix_vector_multip": Kernel(
        "mv(x, y)", "torch.mv(x, y)", {"x": "M, N", "y": "N"}, _ROWS, finite=("x", "y")
    ),
    "mean_reduction": Kernel("mean_dim(x, 1)", "torch.mean(x, 1)", _MATRIX, _ROWS),
    "rmsnorm_triton": Kernel(
        "rmsnorm_triton_wrapper(x, w)",
        "x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w",
        {"x": "B, M, N", "w": "N"},
        {"B": (1, 3), **_ROWS},
        finite=("x", "w"),
    ),
    "softmax_triton1": Kernel("softmax(x)", "torch.softmax(x, 1)", _MATRIX, _ROWS, ("x",)),
    "swiglu_fwd": Kernel(
        "_swiglu_fwd(x)",
        "F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]",
        {"x": "M, 2 * N"},
        _ROWS,
        finite=("x",),
    ),
    "triton_mul2": Kernel("triton_mul2(x)", "2 * x", _VECTOR, _LENGTH, ("x",)),
    "vector_addition": Kernel("add(x, y)", "x + y", {"x": "N", "y": "N"}, _LENGTH, ("x", "y")),
}
FILE = Template(
    """$kernel

import torch
import torch.nn.functional as F

DOMAIN = $domain
CONTIGUOUS = $contiguous
FINITE = $finite


def inputs($sizes, seed$grad):
    g = torch.Generator().manual_seed(seed)
    shapes = $shapes
    return {name: torch.randn(shape, generator=g)$requires for name, shape in shapes.items()}


def reference($names):
    return $right


def candidate($names):
    return $call
"""
)


def candidate_file(kernel: Kernel, text: str) -> str:
    """Return the text of a file with `candidate`, `reference`, `inputs` and `DOMAIN`.

    Args:
        kernel: The kernel.
        text: Text of the file in TritonBench.
    """
    lines = text.splitlines()
    test = next(number for number, line in enumerate(lines) if line.startswith("####"))
    shapes = ", ".join(f"{name!r}: ({shape},)" for name, shape in kernel.arguments.items())
    grad = kernel.has_gradients
    return FILE.substitute(
        kernel="\n".join(lines[:test]).strip(),
        domain=kernel.sizes | ({"grad": [False, True]} if grad else {}),
        contiguous=list(kernel.contiguous),
        finite=list(kernel.finite),
        sizes=", ".join(kernel.sizes),
        grad=", grad" if grad else "",
        requires=".requires_grad_(grad)" if grad else "",
        shapes=f"{{{shapes}}}",
        names=", ".join(kernel.arguments),
        right=kernel.right,
        call=kernel.call,
    )


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="checkout of TritonBench")
    parser.add_argument("folder", type=Path, help="folder for the files")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, kernel in KERNELS.items():
        text = (options.checkout / f"data/TritonBench_G_v1/{name}.py").read_text("utf-8")
        (options.folder / f"{name}.py").write_text(candidate_file(kernel, text), "utf-8")


if __name__ == "__main__":
    main()
