"""Names of types in messages."""

from __future__ import annotations

import pytest

from ttools.ir import FloatType, IntegerType, PointerType, TensorType
from ttools.ir.core import OpaqueType, TensorDescType, Type
from ttools.ir.type_names import type_in_words

_I8, _F16 = IntegerType(8), FloatType("f16")


@pytest.mark.parametrize(
    ("type", "words"),
    [
        (IntegerType(1), "int1"),
        (IntegerType(32), "int32"),
        (FloatType("bf16"), "bfloat16"),
        (FloatType("f8E4M3FN"), "float8e4nv"),
        (FloatType("f8E5M2FNUZ"), "float8e5b16"),
        (PointerType(_I8), "pointer to int8"),
        (PointerType(PointerType(_I8)), "pointer to pointer to int8"),
        (TensorType((64, 32), _F16), "float16[64, 32]"),
        (TensorType((64,), PointerType(_F16)), "tensor [64] of pointers to float16"),
        (PointerType(TensorType((4, 8), _F16)), "block pointer to float16[4, 8]"),
        (TensorDescType(TensorType((4, 8), _F16)), "descriptor of float16[4, 8]"),
        (OpaqueType("!ttg.async.token"), "token"),
        (OpaqueType("none"), "none"),
    ],
)
def test_types_are_spelled_as_users_write_them(type: Type, words: str) -> None:
    assert type_in_words(type) == words
    assert not set("!<>") & set(words)
