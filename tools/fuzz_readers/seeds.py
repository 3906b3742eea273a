"""Valid inputs of the readers, made by the project's own writers if there are any."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ttools.core.findings.baseline import write_baseline
from ttools.core.findings.findings import Finding
from ttools.core.location import SourceLocation
from ttools.core.records.launch_record import (
    Excerpt,
    LaunchRecord,
    Record,
    Storage,
)
from ttools.core.records.writing import write_record
from ttools.core.spec import ArgumentSpec, CallSite, LaunchSpec, TensorSpec
from ttools.tuner.measure.trial import Trial
from ttools.tuner.rules.document import rules_text
from ttools.tuner.rules.features import Feature
from ttools.tuner.rules.synthesis import KernelRules, Leaf, Regret, Split
from ttools.tuner.store.lock import Lock, lock_text
from ttools.tuner.store.problem import Problem
from ttools.tuner.store.store import TuningStore
from ttools.watch.trace.trace_format import TraceWriter

TTIR = """\
#loc = loc("/home/user/kernel.py":7:0)
module attributes {tt.note = [1 : i32, "x", array<i64: 1, 2>]} {
  tt.func public @scale(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("x"(#loc)),
                        %out: !tt.ptr<f32> loc("out"(#loc)), %n: i32 loc("n"(#loc))) {
    %c0 = arith.constant 0 : i32 loc(#loc1)
    %c1 = arith.constant 1 : i32 loc(#loc1)
    %c64 = arith.constant 64 : i32 loc(#loc1)
    %half = arith.constant dense<5.000000e-01> : tensor<64xf32> loc(#loc1)
    %pid = tt.get_program_id x : i32 loc(#loc2)
    %start = arith.muli %pid, %c64 : i32 loc(#loc2)
    %range = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32> loc(#loc2)
    %starts = tt.splat %start : i32 -> tensor<64xi32> loc(#loc2)
    %offsets = arith.addi %starts, %range : tensor<64xi32> loc(#loc2)
    %ns = tt.splat %n : i32 -> tensor<64xi32> loc(#loc2)
    %mask = arith.cmpi slt, %offsets, %ns : tensor<64xi32> loc(#loc2)
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>> loc(#loc2)
    %px = tt.addptr %xs, %offsets : tensor<64x!tt.ptr<f32>>, tensor<64xi32> loc(#loc2)
    %v = tt.load %px, %mask : tensor<64x!tt.ptr<f32>> loc(#loc3)
    %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %v) -> (tensor<64xf32>) : i32 {
      %r = arith.mulf %acc, %half : tensor<64xf32> loc(#loc3)
      %less = arith.cmpi slt, %i, %c64 : i32 loc(#loc3)
      %w = scf.if %less -> (tensor<64xf32>) {
        scf.yield %r : tensor<64xf32> loc(#loc3)
      } else {
        scf.yield %acc : tensor<64xf32> loc(#loc3)
      } loc(#loc3)
      scf.yield %w : tensor<64xf32> loc(#loc3)
    } loc(#loc3)
    %total = "tt.reduce"(%sum) <{axis = 0 : i32}> ({
    ^bb0(%a: f32 loc(unknown), %b: f32 loc(unknown)):
      %s = arith.addf %a, %b : f32 loc(#loc3)
      tt.reduce.return %s : f32 loc(#loc3)
    }) : (tensor<64xf32>) -> f32 loc(#loc3)
    %os = tt.splat %out : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>> loc(#loc2)
    %po = tt.addptr %os, %offsets : tensor<64x!tt.ptr<f32>>, tensor<64xi32> loc(#loc2)
    %all = tt.splat %total : f32 -> tensor<64xf32> loc(#loc3)
    tt.store %po, %all, %mask : tensor<64x!tt.ptr<f32>> loc(#loc3)
    tt.return loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc1 = loc("/home/user/kernel.py":8:4)
#loc2 = loc("/home/user/kernel.py":9:11)
#loc3 = loc(callsite(#loc1 at #loc2))
"""
GENERIC = """\
"builtin.module"() ({
  "tt.func"() <{arg_attrs = [{tt.divisibility = 16 : i32}, {}], function_type = (!tt.ptr<f32>, i32)
      -> (), sym_name = "fill", sym_visibility = "public"}> ({
  ^bb0(%x: !tt.ptr<f32>, %n: i32):
    %one = "arith.constant"() <{value = 1.0 : f32}> : () -> f32
    %range = "tt.make_range"() <{end = 32 : i32, start = 0 : i32}> : () -> tensor<32xi32>
    %ns = "tt.splat"(%n) : (i32) -> tensor<32xi32>
    %mask = "arith.cmpi"(%range, %ns) <{predicate = 2 : i64}> :
        (tensor<32xi32>, tensor<32xi32>) -> tensor<32xi1>
    %xs = "tt.splat"(%x) : (!tt.ptr<f32>) -> tensor<32x!tt.ptr<f32>>
    %px = "tt.addptr"(%xs, %range) :
        (tensor<32x!tt.ptr<f32>>, tensor<32xi32>) -> tensor<32x!tt.ptr<f32>>
    %v = "tt.splat"(%one) : (f32) -> tensor<32xf32>
    "tt.store"(%px, %v, %mask) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32}> :
        (tensor<32x!tt.ptr<f32>>, tensor<32xf32>, tensor<32xi1>) -> ()
    "tt.return"() : () -> ()
  }) {noinline = false} : () -> ()
}) : () -> ()
"""
_SPACE = """\
[parameters]
BLOCK = { powers_of_two = [32, 1024] }
ROWS = { range = [1, 9, 2] }
num_warps = [1, 2, 4]
MODE = ["fast", "exact"]

[derived]
TILE = "BLOCK * ROWS"

[conditions]
fits = "TILE <= 2048 and (num_warps > 1 or BLOCK < 128)"
known = "MODE in ['fast', 'exact']"
"""
_SUPPRESSIONS = """\
[[suppress]]
kind = "out_of_bounds"
kernel = "scale*"
reason = "padding is allocated"

[[suppress]]
file = "src/*.py"
line = 12
reason = "known"
"""
_PROBLEM = Problem(
    kernel="scale",
    source="0123456789abcdef",
    key=json.dumps({"n": 4096, "dtypes": ["float32", "float32"]}),
    device="cpu: AMD EPYC, 2 threads",
    versions="triton 3.9.0, ttools 1.0",
)


def _written(write: Callable[[Path], object]) -> bytes:
    """Return the contents of the file that a function writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "seed")
        write(path)
        return path.read_bytes()


def record() -> bytes:
    """Return a record of one launch."""
    storages = [
        Storage(size=256, place=0, data=np.zeros(256, np.uint8)),
        Storage(size=256, place=0, data=np.zeros(256, np.uint8)),
    ]
    tensors = [
        TensorSpec(storage=n, offset=0, shape=(64,), strides=(1,), dtype="float32", itemsize=4)
        for n in range(2)
    ]
    spec = LaunchSpec(
        kernel="scale",
        grid=(2, 1, 1),
        arguments=(
            ArgumentSpec(name="x", type="*fp32", value=tensors[0]),
            ArgumentSpec(name="out", type="*fp32", value=tensors[1]),
            ArgumentSpec(name="n", type="i32", value=40),
        ),
        site=CallSite(line="run.py:3", config={"BLOCK": 64, "num_warps": 4}),
    )
    launch = LaunchRecord(spec=spec, ttir=TTIR, specialisation={"x": "*fp32, divisible by 16"})
    excerpt = Excerpt(file="/home/user/kernel.py", lines={7: "def scale(x, out, n):"})
    made = Record(
        launches=[launch], storages=storages, excerpts=[excerpt], made_by={"ttools": "1.0"}
    )
    return _written(lambda path: write_record(made, path))


def store() -> bytes:
    """Return a tuning store of one problem with three trials."""

    def write(path: Path) -> None:
        kept = TuningStore(path)
        trials = [
            Trial(
                values={"BLOCK": block, "num_warps": 4},
                status="ok" if block < 256 else "failed",
                reason="" if block < 256 else "out of resource",
                samples=(1e-5 * block, 1.1e-5 * block, 1.05e-5 * block) if block < 256 else (),
                predicted=1e-6,
                resources={"registers": 32, "spilled": 0, "shared": 1024, "occupancy": 0.5},
                reference="",
                conditions={"clock": 1.5e9},
            )
            for block in (64, 128, 256)
        ]
        for trial in trials:
            kept.add(_PROBLEM, trial, ("kernel.py", 7))
        finals = {trials[0].key: [6e-4, 7e-4], trials[1].key: [8e-4]}
        kept.decide(_PROBLEM, trials[0].key, finals, True, ("kernel.py", 7))
        kept.close()

    return _written(write)


def lock() -> bytes:
    """Return a lock file with one winner."""
    return lock_text(Lock({_PROBLEM: {"BLOCK": 64, "num_warps": 4}})).encode()


def rules() -> bytes:
    """Return a file of rules with every kind of feature."""
    tree = Split(
        Feature("number", ("n",)),
        1024.0,
        Split(Feature("equals", ("dtypes[0]",), "float32"), 0.5, Leaf(0), Leaf(1)),
        Split(
            Feature("waves", ("n",), (64,)),
            3.0,
            Leaf(1),
            Split(Feature("product", ("n", "n")), 5e6, Leaf(0), Leaf(1)),
        ),
    )
    made = KernelRules(
        kernel="scale",
        configs=[{"BLOCK": 64}, {"BLOCK": 128}],
        tree=tree,
        regret=Regret(mean=0.01, worst=0.1, held_out_mean=None, held_out_worst=None),
        devices=["cpu"],
        tunings=9,
        multiprocessors=4,
        ranges={"n": (16, 65536)},
    )
    return rules_text([made]).encode()


def baseline() -> bytes:
    """Return a baseline of findings at two places."""
    findings = [
        Finding(
            kind=kind,
            check="memcheck",
            severity="error",
            message="out of bounds",
            kernel="scale",
            location=SourceLocation("kernel.py", 7, 1),
        )
        for kind in ("out_of_bounds", "race")
    ]
    return _written(lambda path: write_baseline(findings, path))


def trace() -> bytes:
    """Return a trace of one launch with one value."""

    def write(path: Path) -> None:
        with path.open("wb") as file:
            writer = TraceWriter(file, 1 << 20)
            argument = {"name": "x", "type": "*fp32", "value": None, "shape": [64], "strides": [1]}
            memory = {"address": 4096, "storage": [4096, 4352]}
            arguments = [{**argument, **memory}]
            writer.describe(
                "launch",
                {"index": 0, "kernel": "scale", "grid": [2, 1, 1], "arguments": arguments},
            )
            named = {"number": 0, "kernel": "scale", "name": "v", "file": "kernel.py", "line": 9}
            form = {"callers": [["kernel.py", 12]], "element": "f32", "shape": [4], "masked": True}
            writer.describe("assignment", {**named, **form, "filled": False, "parameter": -1})
            writer.describe("source", {"file": "kernel.py", "text": "def scale(): pass\n" * 12})
            writer.value(0, 0, 1, b"", b"\1" * 4, np.arange(4, dtype=np.float32).tobytes())
            writer.describe("end", {"refused": 0})

    return _written(write)


def profile() -> bytes:
    """Return a profile, like the output of `ttools profile --format json`."""
    seconds = [1e-4, 1.1e-4, 1.05e-4, 1.2e-4, 1e-4, 1.15e-4]
    row = {"kernel": "scale", "config": "BLOCK=64", "seconds": seconds}
    scoped = {**row, "scopes": [{"scope": ["train (run.py:3)", "step"], "seconds": seconds}]}
    return json.dumps({"schema": "ttools.profile/1", "kernels": [scoped, row]}).encode()


def tuning() -> bytes:
    """Return a report like `ttools tune show --format json`, which `profile compare` rejects."""
    trial = {"config": {"BLOCK": 64}, "status": "ok", "seconds": 1e-4, "samples": [1e-4]}
    kernels = [{"kernel": "scale", "key": {"n": 4096}, "winner": trial, "trials": [trial]}]
    return json.dumps({"schema": "ttools.tuning/1", "kernels": kernels}).encode()


def hatchet() -> bytes:
    """Return a tree of a profile, as Proton writes it."""
    leaf = {
        "frame": {"name": "scale", "type": "function"},
        "metrics": {
            "time (ns)": 1200,
            "count": 3,
            "flops8": 1e6,
            "bytes": 4096,
            "vector": [1, 2],
            "device_id": "0",
            "device_type": "CUDA",
        },
        "children": [],
    }
    scope = {"frame": {"name": "step", "type": "function"}, "metrics": {}, "children": [leaf]}
    root = {"frame": {"name": "ROOT", "type": "function"}, "metrics": {}, "children": [scope]}
    facts = {"CUDA": {"0": {"arch": "90", "num_sms": 132, "clock_rate": 1980000}}}
    return json.dumps([root, facts]).encode()


def chrome() -> bytes:
    """Return a Chrome trace, as Proton writes it."""
    events = [
        {
            "name": "scale",
            "cat": "kernel",
            "ph": "X",
            "ts": n,
            "dur": 3.5,
            "pid": 1,
            "args": {"call_stack": ["ROOT", "step", "scale"], "flops": 1e6, "bytes": 4096},
        }
        for n in range(3)
    ]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "us"}).encode()


def space() -> bytes:
    """Return a file for `--space`."""
    return _SPACE.encode()


def suppressions() -> bytes:
    """Return a file for `--suppressions`."""
    return _SUPPRESSIONS.encode()


SETTINGS = b"""\
[tool.ttools]
quiet = true
cpu = "x86-64-v3"
threads = 2
[tool.ttools.sanitize]
check = ["memcheck", "racecheck"]
format = "json"
"""
SARIF = b"""\
{"version": "2.1.0", "runs": [{"results": [{"ruleId": "oob_load", "level": "error",
"message": {"text": "out of bounds"}, "locations": [{"physicalLocation": {"artifactLocation":
{"uri": "src/k.py"}, "region": {"startLine": 3, "startColumn": 5, "endColumn": 9}}}]}]}]}
"""
