"""Program that records the results of a GPU for `ptx_cases`: `python record_ptx.py OUTPUT.json`.

Without a GPU it uses the active backend of Triton, with which the program itself can be tested.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from ptx_cases import CASES, COUNT, PtxCase, samples

_HEAD = "import triton\nimport triton.language as tl\n\n"
_NAMES = {
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
}


def kernel_text(index: int, case: PtxCase) -> str:
    """Return the source of a kernel that runs one case on `COUNT` elements."""
    inputs = [f"x{i}" for i in range(len(case.inputs))]
    outputs = [f"y{i}" for i in range(len(case.outputs))]
    types = ", ".join(f"tl.{_NAMES[kind]}" for kind in case.outputs)
    lines = [
        "@triton.jit",
        f"def kernel{index}({', '.join(inputs + outputs)}, N: tl.constexpr):",
        "    lanes = tl.arange(0, N)",
        *(f"    {x}_ = tl.load({x} + lanes)" for x in inputs),
        f"    {', '.join(f'{y}_' for y in outputs)}, = tl.inline_asm_elementwise(",
        f"        {case.asm!r}, {case.constraints!r}, [{', '.join(f'{x}_' for x in inputs)}],",
        f"        dtype=({types},), is_pure=True, pack={case.pack})",
        *(f"    tl.store({y} + lanes, {y}_)" for y in outputs),
    ]
    return "\n".join(lines) + "\n\n\n"


def run(kernel: Any, case: PtxCase, device: str) -> list[str]:
    """Run a case and return the bytes of its outputs in base64."""
    inputs = []
    for i, kind in enumerate(case.inputs):
        values = samples(case, i)
        raw = torch.from_numpy(values.view("int16") if kind == "bf16" else values)
        inputs.append(raw.view(getattr(torch, _NAMES[kind])).to(device))
    outputs = [
        torch.zeros(COUNT, dtype=getattr(torch, _NAMES[kind]), device=device)
        for kind in case.outputs
    ]
    kernel[(1,)](*inputs, *outputs, N=COUNT, num_warps=1)
    return [base64.b64encode(y.cpu().view(torch.uint8).numpy().tobytes()).decode() for y in outputs]


def main(path: str) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    text = _HEAD + "".join(kernel_text(i, case) for i, case in enumerate(CASES))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "recorded_kernels.py"
        file.write_text(text)
        spec = importlib.util.spec_from_file_location("recorded_kernels", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        records: dict[str, list[str] | None] = {}
        for i, case in enumerate(CASES):
            try:
                records[case.asm] = run(getattr(module, f"kernel{i}"), case, device)
            except Exception as error:  # noqa: BLE001 - what this GPU, or ptxas, does not have
                print(f"{case.asm}: {str(error)[-300:]}", file=sys.stderr)
    Path(path).write_text(json.dumps(records, indent=0))


if __name__ == "__main__":
    main(sys.argv[1])
