"""Makes files for `ttools verify --batch` of the Triton kernels of gpuemu's corpus.

`python -m tools.libraries.gpuemu CHECKOUT FOLDER` writes one file for each into the folder. Host
code of a kernel takes and returns arrays of NumPy; what converts them is replaced by the same of
torch, and the corpus' references, scripts in NumPy, are said in torch. Sizes are all that the
corpus' own ranges span. What has no Triton kernel is left out.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from string import Template
from typing import Any

#: Replaced in host code: a pattern, and what stands for it.
CONVERSIONS = (
    (r"torch\.from_numpy\((.*?)\)\.to\(", r"(\1).to("),
    (r"np\.ascontiguousarray\((\w+)\)", r"\1.contiguous()"),
    (r"\.detach\(\)\.cpu\(\)\.numpy\(\)", ".detach()"),
    (r"_TORCH_DT\[str\((\w+)\)\]", r"str(\1).removeprefix('torch.')"),
    (r"\.astype\(dt\)", ".to(dt)"),
    (r"\bflat\.size\b", "flat.numel()"),
)
#: What the corpus' references compute of `x` in f64, by the operator's name.
REFERENCES = {
    "attention": "torch.softmax(q @ k.T / q.shape[-1] ** 0.5, -1) @ v",
    "flash_attention": "torch.softmax(q @ k.T / q.shape[-1] ** 0.5, -1) @ v",
    "matmul": "a @ b",
    "softmax": "torch.softmax(x, -1)",
    "gelu": "0.5 * x * (1 + torch.tanh((2 / math.pi) ** 0.5 * (x + 0.044715 * x**3)))",
    "silu": "x / (1 + torch.exp(-x))",
    "relu": "torch.relu(x)",
    "sigmoid": "torch.sigmoid(x)",
    "tanh": "torch.tanh(x)",
    "elu": "torch.where(x >= 0, x, torch.exp(x) - 1)",
    "leaky_relu": "torch.where(x > 0, x, 0.01 * x)",
    "l2norm": "x / torch.sqrt((x * x).sum(-1, keepdim=True) + 1e-12)",
    "rmsnorm": "x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5)",
}
FILE = Template(
    """$kernel

import math

import torch

DOMAIN = $domain


def inputs($sizes, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    shapes = $shapes
    return {
        name: torch.randn(shape, generator=generator).to(getattr(torch, dtype))
        for name, shape in shapes.items()
    }


def reference($names):
    dtype = $first.dtype
    ($own,) = (each.float() for each in ($names,))
    return ($right).to(dtype)


def candidate($names):
    return run($passed)
"""
)


def candidate_file(meta: dict[str, Any], kernel: str) -> str:
    """The text of a file with `candidate`, `reference`, `inputs` and `DOMAIN`.

    Args:
        meta: what `meta.json` of an operator says.
        kernel: the text of its `kernel.py`.
    """
    for pattern, replacement in CONVERSIONS:
        kernel = re.sub(pattern, replacement, kernel)
    schema = meta["op_schema"]
    domain: dict[str, Any] = {
        each["name"]: (min(each["candidates"]), max(each["candidates"])) for each in schema["dims"]
    }
    names = [each["name"] for each in schema["inputs"]]
    shapes = ", ".join(
        f"{each['name']!r}: ({', '.join(each['dims'])},)" for each in schema["inputs"]
    )
    return FILE.substitute(
        kernel=kernel,
        sizes=", ".join(domain),
        domain=domain | {"dtype": meta["dtypes"]},
        shapes=f"{{{shapes}}}",
        names=", ".join(names),
        own="x" if len(names) == 1 else ", ".join(names),
        first=names[0],
        right=REFERENCES[meta["name"].removesuffix("_buggy").removesuffix("_triton")],
        passed=f"{{{', '.join(f'{name!r}: {name}' for name in names)}}}",
    )


def main() -> None:
    """Writes the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="of gpuemu-corpus")
    parser.add_argument("folder", type=Path, help="to write to")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(options.checkout.glob("gpuemu_corpus/data/*_triton*/meta.json")):
        meta = json.loads(file.read_text("utf-8"))
        text = candidate_file(meta, (file.parent / "kernel.py").read_text("utf-8"))
        (options.folder / f"{meta['name']}.py").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
