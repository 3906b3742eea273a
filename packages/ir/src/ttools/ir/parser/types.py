"""Parser of types as MLIR and Triton print them; the text of a type is one token.

The same few types occur in most operations, so each text is parsed once per process.
"""

from __future__ import annotations

import re
from functools import lru_cache

import ttools.ir as ir
from ttools.ir.parser.floats import FORMATS

# `si8` and `ui8` appear only as elements of tensor descriptors, which are rewritten to pointers
# before anything runs; `index` is the type of bounds in hand-written loops.
_INTEGER = re.compile(r"[su]?i([1-9]\d*)")
_DIMENSIONS = re.compile(r"(?:\d+x)*")
_DIALECT_TYPE = re.compile(r"!([\w$.]+)(?:<(.*)>)?", re.DOTALL)
# Triton 3.9 writes `!tt.ptr<f32, "constant">` for `tl.const` pointers; that is global memory.
_ADDRESS_SPACE = re.compile(r'(.*?)(?:\s*,\s*(?:(\d+)|"\w+"))?', re.DOTALL)
_OPAQUE_PREFIXES = ("vector<", "memref<", "tuple<")


@lru_cache(maxsize=4096)
def parse_type(text: str) -> ir.Type | None:
    """Parse the text of a type; return None if it is not a type."""
    if text.startswith("tensor<"):
        return _tensor(text[len("tensor<") : -1])
    if text.startswith("!"):
        return _dialect_type(text)
    if match := _INTEGER.fullmatch(text):
        return ir.IntegerType(int(match[1]))
    if text in FORMATS:
        return ir.FloatType(text)
    if text == "index":
        return ir.IntegerType(64)
    if text == "none" or text.startswith(_OPAQUE_PREFIXES):
        return ir.OpaqueType(text)
    return None


def _tensor(body: str) -> ir.TensorType | None:
    """Parse `4x8xf32`; None if there is an encoding (TTGIR), a `?` or an unknown element type."""
    dimensions = _DIMENSIONS.match(body)
    end = dimensions.end() if dimensions else 0
    element = parse_type(body[end:].strip())
    if element is None:
        return None
    return ir.TensorType(tuple(int(size) for size in body[:end].split("x")[:-1]), element)


def _dialect_type(text: str) -> ir.Type | None:
    match = _DIALECT_TYPE.fullmatch(text)
    if match is None:
        return None
    name, body = match[1], match[2]
    if body is None:
        return ir.OpaqueType(text)
    if name == "tt.ptr":
        return _pointer(body)
    if name == "tt.tensordesc":
        return _descriptor(body)
    return ir.OpaqueType(text)


def _pointer(body: str) -> ir.PointerType | None:
    match = _ADDRESS_SPACE.fullmatch(body)
    pointee = parse_type(match[1].strip()) if match else None
    if match is None or pointee is None:
        return None
    return ir.PointerType(pointee, int(match[2] or 1))


def _descriptor(body: str) -> ir.TensorDescType | None:
    """Parse `tensor<8x8xf16>` up to Triton 3.7, `8x8xf16` from 3.8."""
    block = parse_type(body) if body.startswith("tensor<") else _tensor(body)
    return ir.TensorDescType(block) if isinstance(block, ir.TensorType) else None
