"""The `math` dialect's functions: polynomials for f32 and shorter, libm for f64."""

from __future__ import annotations

from ttools.interpreter.elementwise.floating import via_f32
from ttools.interpreter.elementwise.transcendental import apply
from ttools.interpreter.elementwise.vector import Lowering, Vector


def _function(name: str) -> Lowering:
    def evaluate(value: Vector) -> Vector:
        if value.scalar == "double":
            return value.lanes.intrinsic(name, value)
        return apply(name, value)

    return via_f32(evaluate)


MATHEMATICS: dict[str, Lowering] = {
    f"math.{name}": _function(name) for name in ("exp", "exp2", "log")
}
