"""The few functions of the runtime that must not hold Python's lock, as LLVM IR.

A worker's waiting loop, the hand-out of a launch to workers, the program-by-program driver of
kernels that wait on memory, and what a waiting program does meanwhile. They are compiled by the
same JIT as the kernels, so no C compiler is needed, and bound here as ctypes functions. Policy
(who runs what, when to give up) is not here but in `pool` and `parking`.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ttools.interpreter import jit
from ttools.interpreter.object_store import object_store


class Mailbox(ctypes.Structure):
    """How a job reaches one worker; `state` is a futex word on a cache line of its own."""

    _fields_ = [
        ("state", ctypes.c_int32),  # 0 idle, 1 has a job, 2 must exit
        ("sleeping", ctypes.c_int32),
        ("entry", ctypes.c_void_p),
        ("launch", ctypes.c_void_p),
        ("arena", ctypes.c_void_p),
        ("pending", ctypes.c_void_p),
        ("_pad", ctypes.c_int64 * 3),
    ]


class Runner(ctypes.Structure):
    """One thread's part of a launch whose programs wait for each other.

    Begins with a `Launch` of a single program, which is what the kernel sees; the rest says which
    program that is and how long it has been waiting where. Written by native code only.
    """

    _fields_ = [
        ("launch", ctypes.c_int64 * 8),
        ("shared", ctypes.c_void_p),  # the launch that programs are taken from
        ("entry", ctypes.c_void_p),
        ("program", ctypes.c_int64),  # its linear id, -1 between programs
        ("position", ctypes.c_int64),  # its place in the order of starting
        ("calls", ctypes.c_int64),  # calls of the current wait; 0: not known to wait
        ("instance", ctypes.c_int64),  # waits begun so far, by all programs
        ("finished", ctypes.c_int64),  # programs
        ("site", ctypes.c_int64),
        ("iterations", ctypes.c_int64),
        ("callback", ctypes.c_void_p),  # for prints and asserts
        ("_pad", ctypes.c_int64 * 6),
    ]


#: Offsets of our own fields in `Launch`: unfinished jobs (i32), nanoseconds a wait may sleep (i64).
PENDING, LONGEST_SLEEP = 64, 72

# Offsets of `Launch` (the ABI) and of the structures above, for the text below.
_OFFSETS = {
    "COUNT": 8,
    "ORDER": 16,
    "ABORT": 36,
    "LONGEST_SLEEP": LONGEST_SLEEP,
    **{f"BOX_{name.upper()}": getattr(Mailbox, name).offset for name, *_ in Mailbox._fields_},
    **{f"RUN_{name.upper()}": getattr(Runner, name).offset for name, *_ in Runner._fields_},
}

_SYS_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
_FUTEX_WAIT_PRIVATE, _FUTEX_WAKE_PRIVATE = 128, 129
_PAUSE = {
    "x86_64": ("@llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()"),
    "aarch64": ("@llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)"),
}

_IR = """
declare i64 @syscall(i64, ...)
declare i32 @sched_yield()
declare i32 @nanosleep(ptr, ptr)

; ---- a worker: waits for a job, runs it, says so; busy for a moment before it sleeps
define ptr @worker(ptr %box) {
entry:
  %sleeping = getelementptr i8, ptr %box, i64 BOX_SLEEPING
  br label %idle
idle:
  %turn = phi i64 [ 0, %entry ], [ %next, %busy ], [ 0, %sleep ], [ 0, %done ], [ 0, %finished ]
  %state = load atomic i32, ptr %box acquire, align 64
  switch i32 %state, label %work [ i32 0, label %wait  i32 2, label %exit ]
wait:
  %next = add i64 %turn, 1
  %patient = icmp ult i64 %next, SPINS
  br i1 %patient, label %busy, label %sleep
busy:
  call void PAUSE
  br label %idle
sleep:
  store atomic i32 1, ptr %sleeping seq_cst, align 4
  %slept = call i64 (i64, ...) @syscall(i64 SYS_FUTEX, ptr %box, i64 FUTEX_WAIT, i64 0, ptr null)
  store atomic i32 0, ptr %sleeping seq_cst, align 4
  br label %idle
work:
  %entry.at = getelementptr i8, ptr %box, i64 BOX_ENTRY
  %run = load ptr, ptr %entry.at
  %launch.at = getelementptr i8, ptr %box, i64 BOX_LAUNCH
  %launch = load ptr, ptr %launch.at
  %arena.at = getelementptr i8, ptr %box, i64 BOX_ARENA
  %arena = load ptr, ptr %arena.at
  %pending.at = getelementptr i8, ptr %box, i64 BOX_PENDING
  %pending = load ptr, ptr %pending.at
  call void %run(ptr %launch, ptr %arena)
  ; Idle before the count says so: the launcher may give us the next job at once.
  store atomic i32 0, ptr %box seq_cst, align 64
  %left = atomicrmw sub ptr %pending, i32 1 seq_cst
  %last = icmp eq i32 %left, 1
  br i1 %last, label %done, label %finished
done:
  %woken = call i64 (i64, ...) @syscall(i64 SYS_FUTEX, ptr %pending, i64 FUTEX_WAKE, i64 1)
  br label %idle
finished:
  br label %idle
exit:
  ret ptr null
}

; ---- sets the state of workers and wakes those that sleep
define void @post(ptr %boxes, i64 %n, i32 %state) {
entry:
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %each, label %exit
each:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %box.at = getelementptr ptr, ptr %boxes, i64 %i
  %box = load ptr, ptr %box.at
  store atomic i32 %state, ptr %box seq_cst, align 64
  %sleeping.at = getelementptr i8, ptr %box, i64 BOX_SLEEPING
  %sleeping = load atomic i32, ptr %sleeping.at seq_cst, align 4
  %asleep = icmp ne i32 %sleeping, 0
  br i1 %asleep, label %wake, label %next
wake:
  %woken = call i64 (i64, ...) @syscall(i64 SYS_FUTEX, ptr %box, i64 FUTEX_WAKE, i64 1)
  br label %next
next:
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %n
  br i1 %more, label %each, label %exit
exit:
  ret void
}

; ---- waits until no job is pending, but not past `tick` nanoseconds (< 1 s) or a signal;
; ---- returns how many are left
define i32 @await(ptr %pending, i64 %tick) {
entry:
  %time = alloca [2 x i64], align 8
  store i64 0, ptr %time
  %fraction = getelementptr i8, ptr %time, i64 8
  store i64 %tick, ptr %fraction
  br label %look
look:
  %turn = phi i64 [ 0, %entry ], [ %next, %busy ]
  %left = load atomic i32, ptr %pending acquire, align 4
  %none = icmp eq i32 %left, 0
  br i1 %none, label %exit, label %wait
wait:
  %next = add i64 %turn, 1
  %patient = icmp ult i64 %next, SPINS
  br i1 %patient, label %busy, label %sleep
busy:
  call void PAUSE
  br label %look
sleep:
  %slept = call i64 (i64, ...) @syscall(i64 SYS_FUTEX, ptr %pending, i64 FUTEX_WAIT,
                                        i32 %left, ptr %time)
  %rest = load atomic i32, ptr %pending acquire, align 4
  ret i32 %rest
exit:
  ret i32 0
}

; ---- hands `n` workers a launch each, `stride` bytes apart (0: all the same one), takes part in
; ---- the first unless `arena` is null, then awaits them
define i32 @share(ptr %boxes, i64 %n, ptr %run, ptr %launch, i64 %stride, ptr %arena,
                  ptr %pending, i64 %tick) {
entry:
  %n32 = trunc i64 %n to i32
  %already = atomicrmw add ptr %pending, i32 %n32 seq_cst
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %i1, %fill ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %fill, label %filled
fill:
  %box.at = getelementptr ptr, ptr %boxes, i64 %i
  %box = load ptr, ptr %box.at
  %entry.at = getelementptr i8, ptr %box, i64 BOX_ENTRY
  store ptr %run, ptr %entry.at
  %launch.at = getelementptr i8, ptr %box, i64 BOX_LAUNCH
  %offset = mul i64 %i, %stride
  %own = getelementptr i8, ptr %launch, i64 %offset
  store ptr %own, ptr %launch.at
  %pending.at = getelementptr i8, ptr %box, i64 BOX_PENDING
  store ptr %pending, ptr %pending.at
  %i1 = add i64 %i, 1
  br label %each
filled:
  call void @post(ptr %boxes, i64 %n, i32 1)
  %bystander = icmp eq ptr %arena, null
  br i1 %bystander, label %wait, label %take
take:
  call void %run(ptr %launch, ptr %arena)
  br label %wait
wait:
  %rest = call i32 @await(ptr %pending, i64 %tick)
  ret i32 %rest
}

; ---- takes programs one by one and runs each as a launch of its own
define void @run_each(ptr %runner, ptr %arena) {
entry:
  %shared.at = getelementptr i8, ptr %runner, i64 RUN_SHARED
  %shared = load ptr, ptr %shared.at
  %run.at = getelementptr i8, ptr %runner, i64 RUN_ENTRY
  %run = load ptr, ptr %run.at
  %program.at = getelementptr i8, ptr %runner, i64 RUN_PROGRAM
  %position.at = getelementptr i8, ptr %runner, i64 RUN_POSITION
  %calls.at = getelementptr i8, ptr %runner, i64 RUN_CALLS
  %site.at = getelementptr i8, ptr %runner, i64 RUN_SITE
  %finished.at = getelementptr i8, ptr %runner, i64 RUN_FINISHED
  %abort.at = getelementptr i8, ptr %shared, i64 ABORT
  %count.at = getelementptr i8, ptr %shared, i64 COUNT
  %count = load i64, ptr %count.at
  %limit.at = getelementptr i8, ptr %runner, i64 COUNT
  %order.at = getelementptr i8, ptr %shared, i64 ORDER
  %order = load ptr, ptr %order.at
  %natural = icmp eq ptr %order, null
  br label %take
take:
  %abort = load atomic i32, ptr %abort.at monotonic, align 4
  %stop = icmp ne i32 %abort, 0
  br i1 %stop, label %exit, label %next
next:
  %position = atomicrmw add ptr %shared, i64 1 seq_cst
  %more = icmp slt i64 %position, %count
  br i1 %more, label %start, label %exit
start:
  br i1 %natural, label %go, label %lookup
lookup:
  %id.at = getelementptr i64, ptr %order, i64 %position
  %listed = load i64, ptr %id.at
  br label %go
go:
  %id = phi i64 [ %position, %start ], [ %listed, %lookup ]
  store atomic i64 %position, ptr %position.at seq_cst, align 8
  store atomic i64 %id, ptr %program.at seq_cst, align 8
  store i64 %id, ptr %runner
  %limit = add i64 %id, 1
  store i64 %limit, ptr %limit.at
  call void %run(ptr %runner, ptr %arena)
  store atomic i64 -1, ptr %site.at seq_cst, align 8
  store atomic i64 0, ptr %calls.at seq_cst, align 8
  store atomic i64 -1, ptr %program.at seq_cst, align 8
  %finished = atomicrmw add ptr %finished.at, i64 1 seq_cst
  br label %take
exit:
  ret void
}

; ---- the callback of such launches: counts a wait and backs off; all else goes to Python
define i32 @callback(ptr %runner, i64 %program, i32 %kind, i32 %site, ptr %payload) {
entry:
  %spin = icmp eq i32 %kind, 3
  br i1 %spin, label %count, label %python
python:
  %callback.at = getelementptr i8, ptr %runner, i64 RUN_CALLBACK
  %callback = load ptr, ptr %callback.at
  %shared.at = getelementptr i8, ptr %runner, i64 RUN_SHARED
  %shared = load ptr, ptr %shared.at
  %verdict = call i32 %callback(ptr %shared, i64 %program, i32 %kind, i32 %site, ptr %payload)
  ret i32 %verdict
count:
  %calls.at = getelementptr i8, ptr %runner, i64 RUN_CALLS
  %site.at = getelementptr i8, ptr %runner, i64 RUN_SITE
  %iterations.at = getelementptr i8, ptr %runner, i64 RUN_ITERATIONS
  %instance.at = getelementptr i8, ptr %runner, i64 RUN_INSTANCE
  %iterations = ptrtoint ptr %payload to i64
  %before = load i64, ptr %iterations.at
  %site.before = load i64, ptr %site.at
  %site64 = zext i32 %site to i64
  store i64 %iterations, ptr %iterations.at
  %moved = icmp ne i64 %site.before, %site64
  %known = icmp ne i64 %iterations, 0
  %fewer = icmp ule i64 %iterations, %before
  %again = and i1 %known, %fewer
  %fresh = or i1 %moved, %again
  br i1 %fresh, label %begin, label %go_on
begin:
  store atomic i64 0, ptr %calls.at seq_cst, align 8
  store atomic i64 %site64, ptr %site.at seq_cst, align 8
  %instance = atomicrmw add ptr %instance.at, i64 1 seq_cst
  br label %go_on
go_on:
  %calls = atomicrmw add ptr %calls.at, i64 1 seq_cst
  call void @back_off(ptr %runner, i64 %calls)
  %abort.at = getelementptr i8, ptr %runner, i64 ABORT
  %abort = load atomic i32, ptr %abort.at monotonic, align 4
  ret i32 %abort
}

; ---- busy at first, then yields, then sleeps 50 us, doubling every 8 calls up to what the
; ---- launch allows, which is more the more programs wait
define private void @back_off(ptr %runner, i64 %calls) {
entry:
  %time = alloca [2 x i64], align 8
  %early = icmp ult i64 %calls, 4
  br i1 %early, label %busy, label %later
busy:
  call void PAUSE
  ret void
later:
  %soon = icmp ult i64 %calls, 24
  br i1 %soon, label %yield, label %sleep
yield:
  %yielded = call i32 @sched_yield()
  ret void
sleep:
  %shared.at = getelementptr i8, ptr %runner, i64 RUN_SHARED
  %shared = load ptr, ptr %shared.at
  %limit.at = getelementptr i8, ptr %shared, i64 LONGEST_SLEEP
  %limit = load atomic i64, ptr %limit.at monotonic, align 8
  %beyond = sub i64 %calls, 24
  %doublings = lshr i64 %beyond, 3
  %few = call i64 @llvm.umin.i64(i64 %doublings, i64 10)
  %patience = shl i64 50000, %few
  %nanoseconds = call i64 @llvm.umin.i64(i64 %patience, i64 %limit)
  store i64 0, ptr %time
  %fraction = getelementptr i8, ptr %time, i64 8
  store i64 %nanoseconds, ptr %fraction
  %slept = call i32 @nanosleep(ptr %time, ptr null)
  ret void
}
declare i64 @llvm.umin.i64(i64, i64)
"""

#: Turns of the busy loops before a thread sleeps: some tens of microseconds.
_SPINS = 1000


@dataclass(frozen=True)
class NativeRuntime:
    """The compiled functions: addresses for native code, ctypes functions for Python.

    Attributes:
        worker: address of a thread's start routine, taking a `Mailbox`.
        run_each: address of the driver of kernels that wait, in the place of `ttools_run`.
        callback: address of the callback of such launches.
        post: `(boxes, n, state)`.
        share: `(boxes, n, entry, launch, stride, arena, pending, tick) -> jobs left`.
        await_jobs: `(pending, tick) -> jobs left`.
    """

    worker: int
    run_each: int
    callback: int
    post: Any
    share: Any
    await_jobs: Any
    code: jit.NativeCode


def runtime_ir(machine: str | None = None) -> str:
    """The text of the module for this machine."""
    machine = machine or platform.machine()
    pause, declaration = _PAUSE.get(
        machine, ("@sched_pause()", "define void @sched_pause() { ret void }")
    )
    words: dict[str, object] = {
        **_OFFSETS,
        "PAUSE": pause,
        "SPINS": _SPINS,
        "SYS_FUTEX": _SYS_FUTEX.get(machine, 98),
        "FUTEX_WAIT": _FUTEX_WAIT_PRIVATE,
        "FUTEX_WAKE": _FUTEX_WAKE_PRIVATE,
    }
    text = _IR
    for word in sorted(words, key=len, reverse=True):
        text = text.replace(word, str(words[word]))
    return f"{text}\n{declaration}\n"


def _code(exports: tuple[str, ...]) -> jit.NativeCode:
    text = runtime_ir()
    target = jit.host_target()
    parts = (text, jit.llvm_version(), target.cpu, target.features)
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    store = object_store()
    found = store.read(key) if store is not None else None
    if found is not None:
        try:
            return jit.load(found.object_code, exports)
        except ValueError:
            pass
    object_code = jit.compile_ir(text, name="the runtime", opt=1)
    if store is not None:
        store.write(key, {}, object_code)
    return jit.load(object_code, exports)


@lru_cache(maxsize=1)
def native_runtime() -> NativeRuntime:
    """The runtime's functions, compiled or read from the object cache at first use."""
    code = _code(("worker", "run_each", "callback", "post", "share", "await"))
    i32, i64, pointer = ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p
    signatures: dict[str, Any] = {
        "post": ctypes.CFUNCTYPE(None, pointer, i64, i32),
        "share": ctypes.CFUNCTYPE(i32, pointer, i64, pointer, pointer, i64, pointer, pointer, i64),
        "await": ctypes.CFUNCTYPE(i32, pointer, i64),
    }
    functions = {name: kind(code.symbols[name]) for name, kind in signatures.items()}
    return NativeRuntime(
        worker=code.symbols["worker"],
        run_each=code.symbols["run_each"],
        callback=code.symbols["callback"],
        post=functions["post"],
        share=functions["share"],
        await_jobs=functions["await"],
        code=code,
    )
