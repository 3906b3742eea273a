"""Names of types for messages, as users of Triton write them: `int8`, not `i8`."""

from __future__ import annotations

from ttools.ir.core import (
    FloatType,
    IntegerType,
    OpaqueType,
    PointerType,
    TensorDescType,
    TensorType,
    Type,
)

#: Names of float types in `triton.language`, by their MLIR names.
_FLOATS = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "f8E4M3FN": "float8e4nv",
    "f8E5M2": "float8e5",
    "f8E4M3FNUZ": "float8e4b8",
    "f8E5M2FNUZ": "float8e5b16",
    "f8E4M3B11FNUZ": "float8e4b15",
}


def type_in_words(type: Type) -> str:
    """Return a type for messages: `int32`, `pointer to int8`, `float16[64, 32]`.

    A type that users do not write, such as an asynchronous token, is described by its MLIR name
    without the dialect.
    """
    match type:
        case IntegerType(width=width):
            return f"int{width}"
        case FloatType(name=name):
            return _FLOATS.get(name, name)
        case PointerType(pointee=TensorType() as block):
            return f"block pointer to {type_in_words(block)}"
        case PointerType(pointee=pointee):
            return f"pointer to {type_in_words(pointee)}"
        case TensorType(shape=shape, element=PointerType() as element):
            return f"tensor {list(shape)} of pointers to {type_in_words(element.pointee)}"
        case TensorType(shape=shape, element=element):
            return f"{type_in_words(element)}{list(shape)}"
        case TensorDescType(block=block):
            return f"descriptor of {type_in_words(block)}"
        case OpaqueType(text=text):
            return text.removeprefix("!").split("<")[0].rpartition(".")[2]
