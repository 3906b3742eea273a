"""How the kernels of a run are emitted on this machine.

Must not know which kernels, nor what their arguments decide.
"""

from __future__ import annotations

from ttools.interpreter.abi.module import EmitOptions
from ttools.interpreter.native import jit
from ttools.interpreter.run.interpretation import Run, dot_mode


def emit_options(*, run: Run | None, fp_fusion: bool, debug: bool) -> EmitOptions:
    """Emit options for this machine.

    Args:
        run: what the launch belongs to, if anything.
        fp_fusion: the launch option `enable_fp_fusion`.
        debug: whether `device_assert` acts.
    """
    return EmitOptions(
        schedule=run.schedule if run else "fused",
        fp_fusion=fp_fusion,
        debug=debug,
        lanes=jit.host_lanes(),
        dot=dot_mode(run),
    )
