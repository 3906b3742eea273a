"""Converts the Triton kernels of gpuemu's corpus to files for `ttools verify --batch`.

`python -m tools.libraries.gpuemu CHECKOUT FOLDER` writes one file for each kernel into the folder.
The host code of a kernel uses NumPy arrays; conversions from and to them are replaced by torch. The
references of the corpus, which are NumPy scripts, are replaced by torch expressions. The domain is
the range of each size in the corpus. Entries without a Triton kernel are skipped.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from string import Template
from typing import Any

#: Replacements in host code: regular expressions with the replacement.
CONVERSIONS = (
    (r"torch\.from_numpy\((.*?)\)\.to\(", r"(\1).to("),
    (r"np\.ascontiguousarray\((\w+)\)", r"\1.contiguous()"),
    (r"\.detach\(\)\.cpu\(\)\.numpy\(\)", ".detach()"),
    (r"_TORCH_DT\[str\((\w+)\)\]", r"str(\1).removeprefix('torch.')"),
    (r"\.astype\(dt\)", ".to(dt)"),
    (r"\bflat\.size\b", "flat.numel()"),
)
#: References of the corpus as f64 expressions, by the operator's name.
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
    """Return the text of a file with `candidate`, `reference`, `inputs` and `DOMAIN`.

    Args:
        meta: Contents of an operator's `meta.json`.
        kernel: Text of the operator's `kernel.py`.
    """
    for pattern, replacement in CONVERSIONS:
        kernel = re.sub(pattern, replacement, kernel)
    schema = meta["op_schema"]
    domain: dict[str, Any] = {
        item["name"]: (min(item["candidates"]), max(item["candidates"])) for item in schema["dims"]
    }
    names = [item["name"] for item in schema["inputs"]]
    shapes = ", ".join(
        f"{item['name']!r}: ({', '.join(item['dims'])},)" for item in schema["inputs"]
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
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="checkout of gpuemu-corpus")
    parser.add_argument("folder", type=Path, help="folder for the files")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(options.checkout.glob("gpuemu_corpus/data/*_triton*/meta.json")):
        meta = json.loads(file.read_text("utf-8"))
        text = candidate_file(meta, (file.parent / "kernel.py").read_text("utf-8"))
        (options.folder / f"{meta['name']}.py").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
