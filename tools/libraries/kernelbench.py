"""Converts Triton solutions of KernelBench's first level to files for `ttools verify --batch`.

`python -m tools.libraries.kernelbench CHECKOUT FOLDER` reads a checkout of
https://github.com/Alisehen/LLMKernel. It contains kernels that language models wrote for the
problems, with an evaluation of each attempt. For each problem, the fastest attempt that the
evaluation calls correct is written into the folder, together with a reference in torch and a domain
of sizes from 1 on. Inputs are contiguous, as in the problems.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from string import Template


@dataclass(frozen=True)
class Problem:
    """A problem and its reference.

    Attributes:
        arguments: Expressions of tensors by name, from the sizes and the generator `g`.
        right: Expression of the correct result.
        sizes: Smallest and largest value of each size, by name.
        made_with: Arguments of the model's constructor, as in the problem.
    """

    arguments: dict[str, str]
    right: str
    sizes: dict[str, tuple[int, int]]
    made_with: str = ""


_ROWS = {"M": (1, 40), "N": (1, 3000)}
_IMAGE = {"M": (1, 4), "H": (1, 20), "W": (1, 20)}
_MATRICES = {"M": (1, 70), "N": (1, 70), "K": (1, 130)}
_DRAWN = {"x": "torch.randn(M, N, generator=g)"}
_CUBE = {"x": "torch.randn(M, 13, N, generator=g)"}
_PAIR = {"x": _DRAWN["x"], "y": "torch.randn(M, N, generator=g)"}


def _rows(right: str) -> Problem:
    return Problem(_DRAWN, right, _ROWS)


def _cube(right: str) -> Problem:
    return Problem(_CUBE, right, {"M": (1, 5), "N": (1, 300)}, "1")


def _product(one: str, other: str, right: str) -> Problem:
    shapes = {"x": one, "y": other}
    drawn = {name: f"torch.randn({shape}, generator=g)" for name, shape in shapes.items()}
    return Problem(drawn, right, _MATRICES)


PROBLEMS = {
    "1_Square_matrix_multiplication_": _product("M, M", "M, M", "x @ y"),
    "2_Standard_matrix_multiplication_": _product("M, K", "K, N", "x @ y"),
    "3_Batched_matrix_multiplication": _product("3, M, K", "3, K, N", "x @ y"),
    "4_Matrix_vector_multiplication_": _product("M, K", "K, 1", "x @ y"),
    "12_Matmul_with_diagonal_matrices_": _product("M", "M, N", "x[:, None] * y"),
    "16_Matmul_with_transposed_A": _product("K, M", "K, N", "x.T @ y"),
    "17_Matmul_with_transposed_B": _product("M, K", "N, K", "x @ y.T"),
    "19_ReLU": _rows("torch.relu(x)"),
    "20_LeakyReLU": _rows("F.leaky_relu(x, 0.01)"),
    "21_Sigmoid": _rows("torch.sigmoid(x)"),
    "22_Tanh": _rows("torch.tanh(x)"),
    "23_Softmax": _rows("torch.softmax(x, 1)"),
    "24_LogSoftmax": _rows("torch.log_softmax(x, 1)"),
    "25_Swish": _rows("x * torch.sigmoid(x)"),
    "26_GELU_": _rows("F.gelu(x)"),
    "27_SELU_": _rows("torch.selu(x)"),
    "28_HardSigmoid": _rows("F.hardsigmoid(x)"),
    "29_Softplus": _rows("F.softplus(x)"),
    "30_Softsign": _rows("x / (1 + torch.abs(x))"),
    "31_ELU": _rows("F.elu(x)"),
    "32_HardTanh": _rows("F.hardtanh(x)"),
    "36_RMSNorm_": Problem(
        {"x": "torch.randn(M, 64, H, W, generator=g)"},
        "x / torch.sqrt(torch.mean(x**2, 1, keepdim=True) + 1e-5)",
        _IMAGE,
        "64",
    ),
    "37_FrobeniusNorm_": _rows("x / torch.norm(x, p='fro')"),
    "38_L1Norm_": _rows("x / torch.mean(torch.abs(x), 1, keepdim=True)"),
    "39_L2Norm_": _rows("x / torch.norm(x, p=2, dim=1, keepdim=True)"),
    "47_Sum_reduction_over_a_dimension": _cube("torch.sum(x, 1, keepdim=True)"),
    "48_Mean_reduction_over_a_dimension": _cube("torch.mean(x, 1)"),
    "49_Max_reduction_over_a_dimension": _cube("torch.max(x, 1).values"),
    "51_Argmax_over_a_dimension": _cube("torch.argmax(x, 1)"),
    "52_Argmin_over_a_dimension": _cube("torch.argmin(x, 1)"),
    "53_Min_reduction_over_a_dimension": _cube("torch.min(x, 1).values"),
    "88_MinGPTNewGelu": _rows("F.gelu(x, approximate='tanh')"),
    "94_MSELoss": Problem(_PAIR, "F.mse_loss(x, y)", _ROWS),
    "95_CrossEntropyLoss": Problem(
        {"x": _DRAWN["x"], "y": "torch.randint(0, N, (M,), generator=g)"},
        "F.cross_entropy(x, y)",
        _ROWS,
    ),
    "96_HuberLoss": Problem(_PAIR, "F.smooth_l1_loss(x, y)", _ROWS),
    "98_KLDivLoss": Problem(
        {name: f"{text}.softmax(1)" for name, text in _PAIR.items()},
        "F.kl_div(torch.log(x), y, reduction='batchmean')",
        _ROWS,
    ),
    "100_HingeLoss": Problem(
        {
            "x": "torch.rand(N, N, generator=g)",
            "y": "torch.randint(0, 2, (N,), generator=g).float() * 2 - 1",
        },
        "torch.mean(torch.clamp(1 - x * y, min=0))",
        {"N": (1, 90)},
    ),
}
FILE = Template(
    """$kernel

import torch
import torch.nn.functional as F

DOMAIN = $sizes
CONTIGUOUS = $listed
MODEL = ModelNew($made_with)


def inputs($names_of_sizes, seed):
    g = torch.Generator().manual_seed(seed)
    return {$drawn}


def reference($names):
    return $right


def candidate($names):
    return MODEL($names)
"""
)


def candidate_file(problem: Problem, kernel: str) -> str:
    """Return the text of a file with `candidate`, `reference`, `inputs` and `DOMAIN`.

    Args:
        problem: The problem.
        kernel: Text of an attempt, with a module `ModelNew`.
    """
    return FILE.substitute(
        kernel=kernel,
        sizes=problem.sizes,
        made_with=problem.made_with,
        names_of_sizes=", ".join(problem.sizes),
        drawn=", ".join(f"{key!r}: {value}" for key, value in problem.arguments.items()),
        names=", ".join(problem.arguments),
        listed=list(problem.arguments),
        right=problem.right,
    )


def best(folder: Path) -> Path | None:
    """Return the fastest attempt that was evaluated as correct; None if there is none."""
    kernels = sorted((folder / "code").glob("kernel_*.py"))
    scored = []
    for kernel, file in zip(kernels, sorted(folder.glob("evaluation/eval_*.json")), strict=False):
        evaluation = json.loads(file.read_text("utf-8"))
        if evaluation.get("runnable") and "triton.jit" in kernel.read_text("utf-8"):
            scored.append((float(evaluation.get("score") or 0), kernel))
    return max(scored)[1] if scored else None


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="checkout of LLMKernel")
    parser.add_argument("folder", type=Path, help="folder for the files")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, problem in PROBLEMS.items():
        kernel = best(options.checkout / "results/level1" / name)
        if kernel is None:
            print(f"{name}: no attempt is correct")
            continue
        text = candidate_file(problem, kernel.read_text("utf-8"))
        (options.folder / f"p{name}.py").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
