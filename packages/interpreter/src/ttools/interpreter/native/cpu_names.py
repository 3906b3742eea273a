"""Checks that LLVM supports a CPU name, and that this machine can run code for the CPU.

LLVM terminates the process for some unknown names, ignores others, and does not report the features
of a CPU. Therefore a child process compiles a few operations for the CPU, once normally and once
with the features disabled that this machine lacks. If the results differ, the code uses a feature
that this machine does not have.
"""

from __future__ import annotations

import re
from typing import Any

from ttools.core.errors import UsageError
from ttools.core.process.channel import Channel, WorkerSlowError
from ttools.core.process.worker import Limits, spawn_worker

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_NEWER = 3
_PATIENCE_S = 60
#: Operations for which newer CPUs have special instructions.
_PROBED = """
define <64 x i8> @bytes(<64 x i8> %a, <64 x i8> %b) {
  %c = add <64 x i8> %a, %b
  %d = call <64 x i8> @llvm.bitreverse.v64i8(<64 x i8> %c)
  %e = call <64 x i8> @llvm.ctpop.v64i8(<64 x i8> %d)
  ret <64 x i8> %e
}
define <16 x float> @floats(<16 x float> %a, <16 x float> %b) {
  %c = call <16 x float> @llvm.fma.v16f32(<16 x float> %a, <16 x float> %b, <16 x float> %a)
  ret <16 x float> %c
}
define <8 x i64> @words(<8 x i64> %a, <8 x i64> %b) {
  %c = mul <8 x i64> %a, %b
  %d = call <8 x i64> @llvm.ctpop.v8i64(<8 x i64> %c)
  %e = call <8 x i64> @llvm.fshl.v8i64(<8 x i64> %d, <8 x i64> %a, <8 x i64> %b)
  ret <8 x i64> %e
}
define <16 x half> @halves(<16 x half> %a, <16 x half> %b) {
  %c = fmul <16 x half> %a, %b
  ret <16 x half> %c
}
define <16 x bfloat> @brain(<16 x float> %a) {
  %c = fptrunc <16 x float> %a to <16 x bfloat>
  ret <16 x bfloat> %c
}
define i32 @products(<32 x i8> %a, <32 x i8> %b) {
  %c = zext <32 x i8> %a to <32 x i32>
  %d = sext <32 x i8> %b to <32 x i32>
  %e = mul <32 x i32> %c, %d
  %f = call i32 @llvm.vector.reduce.add.v32i32(<32 x i32> %e)
  ret i32 %f
}
define i64 @scalars(i64 %a, i64 %b) {
  %c = call i64 @llvm.ctpop.i64(i64 %a)
  %d = call i64 @llvm.ctlz.i64(i64 %c, i1 false)
  %e = shl i64 %d, %b
  %f = xor i64 %e, -1
  %g = and i64 %f, %a
  ret i64 %g
}
declare <64 x i8> @llvm.bitreverse.v64i8(<64 x i8>)
declare <64 x i8> @llvm.ctpop.v64i8(<64 x i8>)
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
declare <8 x i64> @llvm.ctpop.v8i64(<8 x i64>)
declare <8 x i64> @llvm.fshl.v8i64(<8 x i64>, <8 x i64>, <8 x i64>)
declare i32 @llvm.vector.reduce.add.v32i32(<32 x i32>)
declare i64 @llvm.ctpop.i64(i64)
declare i64 @llvm.ctlz.i64(i64, i1)
"""


def features_here(cpu: str, llvm: Any) -> str:
    """Return the text that disables, in LLVM, the features of a CPU that this machine lacks.

    Args:
        cpu: LLVM name of a CPU, from `TTOOLS_CPU`.
        llvm: The initialised module `llvmlite.binding`.

    Raises:
        UsageError: There is no such CPU, or this machine lacks one of its features.
    """
    unknown = UsageError(
        f"TTOOLS_CPU={cpu!r}: LLVM has no such CPU for this machine; unset it, or set it to a CPU "
        "such as x86-64-v3"
    )
    if _NAME.fullmatch(cpu) is None:
        raise unknown
    features = llvm.get_host_cpu_features().items()
    without = ",".join(f"-{name}" for name, present in sorted(features) if not present)
    worker = spawn_worker(f"{__name__}:compare_code", (cpu, without), Limits(errors="kept"))
    try:
        code = worker.wait(_PATIENCE_S)
    except WorkerSlowError:
        raise unknown from None
    finally:
        worker.end()
    if code == _NEWER:
        raise UsageError(
            f"TTOOLS_CPU={cpu}: this machine ({llvm.get_host_cpu_name()}) cannot run code for that "
            "CPU, because it lacks some of its instructions; unset TTOOLS_CPU to compile for this "
            "machine"
        )
    if code or "not a recognized processor" in worker.errors:
        raise unknown
    return without


def compare_code(_: Channel, cpu: str, without: str) -> int:
    """Compile with and without the missing features, and return the exit status of the process.

    Args:
        _: The channel to the parent process, which is not used.
        cpu: LLVM name of the CPU.
        without: Text that disables the features that this machine lacks.
    """
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    with llvm.create_context() as context:
        plain, bounded = (
            _assembly(target, cpu, disabled, context, llvm) for disabled in ("", without)
        )
    return 0 if plain == bounded else _NEWER


def _assembly(target: Any, cpu: str, features: str, context: Any, llvm: Any) -> str:
    with (
        llvm.parse_assembly(_PROBED, context) as module,
        target.create_target_machine(cpu=cpu, features=features, opt=2) as machine,
    ):
        return str(machine.emit_assembly(module))
