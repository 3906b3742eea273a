"""Kernels written in LLVM IR by hand, for tests of the runtime without the emitter."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache

from ttools.core.location import SourceLocation
from ttools.interpreter.abi.module import CallbackKind, EmittedModule, Site
from ttools.interpreter.native import jit
from ttools.interpreter.runtime.launch import Kernel

# The code that the emitter puts around a program: it takes batches of programs until none is left.
_DRIVER = """
define void @ttools_run(ptr %launch, ptr %arena) {
entry:
  %count.at = getelementptr i8, ptr %launch, i64 8
  %count = load i64, ptr %count.at
  %order.at = getelementptr i8, ptr %launch, i64 16
  %order = load ptr, ptr %order.at
  %params.at = getelementptr i8, ptr %launch, i64 40
  %params = load ptr, ptr %params.at
  %batch.at = getelementptr i8, ptr %launch, i64 56
  %batch = load i64, ptr %batch.at
  %natural = icmp eq ptr %order, null
  br label %take
take:
  %abort.at = getelementptr i8, ptr %launch, i64 36
  %abort = load atomic i32, ptr %abort.at monotonic, align 4
  %stop = icmp ne i32 %abort, 0
  br i1 %stop, label %done, label %next
next:
  %first = atomicrmw add ptr %launch, i64 %batch monotonic
  %end = add i64 %first, %batch
  %last = call i64 @llvm.smin.i64(i64 %end, i64 %count)
  br label %each
each:
  %at = phi i64 [ %first, %next ], [ %following, %ran ]
  %more = icmp slt i64 %at, %last
  br i1 %more, label %start, label %batch_done
start:
  br i1 %natural, label %go, label %ordered
ordered:
  %cell = getelementptr i64, ptr %order, i64 %at
  %listed = load i64, ptr %cell
  br label %go
go:
  %id = phi i64 [ %at, %start ], [ %listed, %ordered ]
  %status = call i32 @program(ptr %launch, i64 %id, ptr %params, ptr %arena)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %done, label %ran
ran:
  %following = add i64 %at, 1
  br label %each
batch_done:
  %all = icmp sge i64 %first, %count
  br i1 %all, label %done, label %take
done:
  ret void
}
declare i64 @llvm.smin.i64(i64, i64)

define internal ptr @pointer(ptr %params, i64 %n) alwaysinline {
  %at = getelementptr ptr, ptr %params, i64 %n
  %p = load ptr, ptr %at
  ret ptr %p
}

define internal i32 @program(ptr %launch, i64 %id, ptr %params, ptr %arena) {
entry:
"""

# Each program adds 1 to its own counter.
COUNT = """
  %out = call ptr @pointer(ptr %params, i64 0)
  %cell = getelementptr i32, ptr %out, i64 %id
  %old = atomicrmw add ptr %cell, i32 1 monotonic
  ret i32 0
}
"""

# Programs append their ids to a log; parameters: cursor, log.
LOG = """
  %cursor = call ptr @pointer(ptr %params, i64 0)
  %log = call ptr @pointer(ptr %params, i64 1)
  %at = atomicrmw add ptr %cursor, i64 1 seq_cst
  %cell = getelementptr i64, ptr %log, i64 %at
  store i64 %id, ptr %cell
  ret i32 0
}
"""

# out[16 * id:][:16] = x + y, computed in the arena, which must exist and be aligned.
ADD = """
  %x = call ptr @pointer(ptr %params, i64 0)
  %y = call ptr @pointer(ptr %params, i64 1)
  %out = call ptr @pointer(ptr %params, i64 2)
  %x.at = getelementptr <16 x float>, ptr %x, i64 %id
  %y.at = getelementptr <16 x float>, ptr %y, i64 %id
  %out.at = getelementptr <16 x float>, ptr %out, i64 %id
  %a = load <16 x float>, ptr %x.at, align 4
  %b = load <16 x float>, ptr %y.at, align 4
  %c = fadd <16 x float> %a, %b
  store volatile <16 x float> %c, ptr %arena, align 64
  %d = load volatile <16 x float>, ptr %arena, align 64
  store <16 x float> %d, ptr %out.at, align 4
  ret i32 0
}
"""

# A busy loop of `turns` iterations, then the code of COUNT; parameters: out, turns.
WORK = """
  %out = call ptr @pointer(ptr %params, i64 0)
  %turns.at = getelementptr i64, ptr %params, i64 1
  %turns = load i64, ptr %turns.at
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %n1, %loop ]
  store volatile i64 %n, ptr %arena
  %n1 = add i64 %n, 1
  %again = icmp slt i64 %n1, %turns
  br i1 %again, label %loop, label %end
end:
  %cell = getelementptr i32, ptr %out, i64 %id
  %old = atomicrmw add ptr %cell, i32 1 monotonic
  ret i32 0
}
"""

# Waits for flags[targets[id]] unless the target is negative, then sets flags[id]; parameters: both.
# The waiting loop calls back in every 64th iteration, with the number of iterations.
WAIT = """
  %flags = call ptr @pointer(ptr %params, i64 0)
  %targets = call ptr @pointer(ptr %params, i64 1)
  %callback.at = getelementptr i8, ptr %launch, i64 48
  %callback = load ptr, ptr %callback.at
  %target.at = getelementptr i64, ptr %targets, i64 %id
  %target = load i64, ptr %target.at
  %free = icmp slt i64 %target, 0
  %flag = getelementptr i32, ptr %flags, i64 %target
  br i1 %free, label %set, label %spin
spin:
  %n = phi i64 [ 0, %entry ], [ %n1, %again ]
  %value = load atomic i32, ptr %flag acquire, align 4
  %ready = icmp ne i32 %value, 0
  br i1 %ready, label %set, label %turn
turn:
  %n1 = add i64 %n, 1
  %low = and i64 %n1, 63
  %due = icmp eq i64 %low, 0
  br i1 %due, label %call, label %again
call:
  %turns = inttoptr i64 %n1 to ptr
  %verdict = call i32 %callback(ptr %launch, i64 %id, i32 3, i32 0, ptr %turns)
  %stop = icmp ne i32 %verdict, 0
  br i1 %stop, label %stopped, label %again
again:
  br label %spin
set:
  %own = getelementptr i32, ptr %flags, i64 %id
  store atomic i32 1, ptr %own release, align 4
  ret i32 0
stopped:
  ret i32 1
}
"""

# Two programs alternate: in round r, program p waits until the cell is 2 * r + p, does some work,
# and adds 1; parameters: cell, rounds.
TAKE_TURNS = """
  %cell = call ptr @pointer(ptr %params, i64 0)
  %rounds.at = getelementptr i64, ptr %params, i64 1
  %rounds = load i64, ptr %rounds.at
  %callback.at = getelementptr i8, ptr %launch, i64 48
  %callback = load ptr, ptr %callback.at
  br label %round
round:
  %r = phi i64 [ 0, %entry ], [ %r1, %pass ]
  %twice = shl i64 %r, 1
  %mine = add i64 %twice, %id
  br label %spin
spin:
  %n = phi i64 [ 0, %round ], [ %n1, %again ]
  %value = load atomic i64, ptr %cell acquire, align 8
  %ready = icmp eq i64 %value, %mine
  br i1 %ready, label %work, label %turn
turn:
  %n1 = add i64 %n, 1
  %low = and i64 %n1, 63
  %due = icmp eq i64 %low, 0
  br i1 %due, label %call, label %again
call:
  %turns = inttoptr i64 %n1 to ptr
  %verdict = call i32 %callback(ptr %launch, i64 %id, i32 3, i32 0, ptr %turns)
  %stop = icmp ne i32 %verdict, 0
  br i1 %stop, label %stopped, label %again
again:
  br label %spin
work:
  %w = phi i64 [ 0, %spin ], [ %w1, %work ]
  store volatile i64 %w, ptr %arena
  %w1 = add i64 %w, 1
  %busy = icmp slt i64 %w1, 50000
  br i1 %busy, label %work, label %pass
pass:
  %following = add i64 %value, 1
  store atomic i64 %following, ptr %cell release, align 8
  %r1 = add i64 %r, 1
  %more = icmp slt i64 %r1, %rounds
  br i1 %more, label %round, label %finish
finish:
  ret i32 0
stopped:
  ret i32 1
}
"""

# Calls back with a kind and a payload; parameters: kind, payload, number of first programs that do
# not call back.
CALL = """
  %kind.at = getelementptr i64, ptr %params, i64 0
  %kind64 = load i64, ptr %kind.at
  %kind = trunc i64 %kind64 to i32
  %payload = call ptr @pointer(ptr %params, i64 1)
  %from.at = getelementptr i64, ptr %params, i64 2
  %from = load i64, ptr %from.at
  %callback.at = getelementptr i8, ptr %launch, i64 48
  %callback = load ptr, ptr %callback.at
  %early = icmp slt i64 %id, %from
  br i1 %early, label %none, label %some
none:
  ret i32 0
some:
  %verdict = call i32 %callback(ptr %launch, i64 %id, i32 %kind, i32 0, ptr %payload)
  ret i32 %verdict
}
"""

HERE = SourceLocation("kernel.py", 12, 5)
SPIN_SITE = Site(CallbackKind.SPIN, HERE)


@lru_cache(maxsize=16)
def _native(program: str) -> jit.NativeCode:
    return jit.load(jit.compile_ir(_DRIVER + program, opt=1))


def module(
    program: str, parameters: int, sites: Sequence[Site] = (), arena_bytes: int = 64
) -> EmittedModule:
    """Return the emitted module of a program."""
    return EmittedModule(
        name="handmade",
        llvm_ir=_DRIVER + program,
        arena_bytes=arena_bytes,
        parameters=("i64",) * parameters,
        sites=tuple(sites),
        spins=any(site.kind == CallbackKind.SPIN for site in sites),
    )


def kernel(
    program: str, parameters: int, sites: Sequence[Site] = (), arena_bytes: int = 64
) -> Kernel:
    """Return a kernel that has not been launched yet."""
    return Kernel(module(program, parameters, sites, arena_bytes), _native(program))


class Counters:
    """An array of int32 counters for `COUNT` and `WORK`."""

    def __init__(self, size: int) -> None:
        self.array = (ctypes.c_int32 * max(1, size))()
        self.address = ctypes.addressof(self.array)
        self.size = size

    def values(self) -> list[int]:
        return list(self.array[: self.size])
