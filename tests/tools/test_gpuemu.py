"""Candidate files of the gpuemu corpus."""

from __future__ import annotations

import torch
from tools.libraries.gpuemu import candidate_file

KERNEL = """import numpy as np
_TORCH_DT = {"float32": "float32"}
def run(inputs):
    x = inputs["input"]
    dt = x.dtype
    flat = np.ascontiguousarray(x).reshape(-1)
    assert flat.size == 6
    moved = torch.from_numpy(flat).to(device="cpu", dtype=getattr(torch, _TORCH_DT[str(dt)]))
    return torch.relu(moved).detach().cpu().numpy().reshape(x.shape).astype(dt)
"""
META = {
    "name": "relu_triton",
    "dtypes": ["float32"],
    "op_schema": {
        "dims": [{"name": "B", "candidates": [2, 1]}, {"name": "H", "candidates": [3]}],
        "inputs": [{"name": "input", "dims": ["B", "H"]}],
    },
}
MATMUL = {
    "name": "matmul_triton_buggy",
    "dtypes": ["float16"],
    "op_schema": {
        "dims": [{"name": "N", "candidates": [2]}],
        "inputs": [{"name": "a", "dims": ["N", "N"]}, {"name": "b", "dims": ["N", "N"]}],
    },
}


def test_references_compute_in_f32_and_return_the_type_of_arguments() -> None:
    namespace: dict[str, object] = {}
    exec(candidate_file(MATMUL, "def run(inputs): ..."), namespace)
    a, b = namespace["inputs"](2, "float16", 0).values()  # type: ignore[operator]
    result = namespace["reference"](a, b)  # type: ignore[operator]
    assert result.equal((a.float() @ b.float()).half())


def test_host_code_takes_tensors() -> None:
    namespace: dict[str, object] = {}
    exec(candidate_file(META, KERNEL), namespace)
    assert namespace["DOMAIN"] == {"B": (1, 2), "H": (3, 3), "dtype": ["float32"]}
    drawn = namespace["inputs"](2, 3, "float32", 0)  # type: ignore[operator]
    assert drawn["input"].shape == (2, 3)
    result, wanted = (namespace[name](**drawn) for name in ("candidate", "reference"))  # type: ignore[operator]
    assert isinstance(result, torch.Tensor)
    assert result.equal(wanted)
