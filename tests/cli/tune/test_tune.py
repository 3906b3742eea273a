"""`ttools tune` on scripts: wrong and failing configurations, the store, and the lock file."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.tune.told import problems

SCRIPT = """\
import sys
import torch
import triton
import triton.language as tl

BLOCKS = [int(word) for word in sys.argv[1].split(",")]


def right(block, **options):
    return triton.Config({"BLOCK": block, "PART": 1}, **options)


@triton.autotune(
    [
        *map(right, BLOCKS),
        triton.Config({"BLOCK": 1024, "PART": 64}),  # fast, for it does a part of the work
        triton.Config({"BLOCK": 48, "PART": 1}),
    ],
    key=["n"],
    reset_to_zero=["total_ptr"],
)
@triton.jit
def sum_kernel(x_ptr, out_ptr, total_ptr, n, BLOCK: tl.constexpr, PART: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offs < n // PART
    x = tl.load(x_ptr + offs, mask=inside, other=0.0)
    before = tl.load(out_ptr + offs, mask=inside, other=0.0)
    tl.store(out_ptr + offs, before + x, mask=inside)
    tl.atomic_add(total_ptr, tl.sum(x, axis=0))


n = 100_000
x, out, total = torch.ones(n), torch.zeros(n), torch.full((1,), 7.0)
grid = lambda meta: (triton.cdiv(n, meta["BLOCK"] * meta["PART"]),)
sum_kernel[grid](x, out, total, n)
print("outputs right:", bool((out == 1).all()), total.item())
print("chosen:", sum_kernel.best_config.kwargs)
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "script.py").write_text(SCRIPT)
    return "script.py"


def test_wrong_and_failing_configurations_cannot_win(
    ttools: Run, called_ttools: Run, script: str, tmp_path: Path
) -> None:
    result = ttools("tune", "--format", "json", script, "64,1024")
    (problem,) = problems(result)
    assert "outputs right: True 100000.0\n" in result.stderr
    assert f"chosen: {{'BLOCK': {problem['winner']['BLOCK']}, 'PART': 1}}\n" in result.stderr
    # The order of trials depends on measured times.
    trials = sorted(problem["trials"], key=lambda trial: "ok wrong failed".index(trial["status"]))
    assert [trial["status"] for trial in trials] == ["ok", "ok", "wrong", "failed"]
    small, large, wrong, failed = trials
    assert len(small["samples"]) >= 3
    assert len(large["samples"]) >= 3
    assert (wrong["samples"], failed["samples"]) == ([], [])
    assert "98,438 of 100,000 elements of `out_ptr` differ from the reference" in wrong["reason"]
    assert "power of 2" in failed["reason"]
    assert problem["winner"] in [small["config"], large["config"]]
    assert problem["reason"]
    assert [trial["estimate"] is None for trial in trials] == [False, False, True, True]
    assert (problem["kernel"], problem["key"]["n"], problem["complete"]) == (
        *("sum_kernel", 100_000, True),
    )
    assert "note: sum_kernel for n=100000, float32: 4 configurations" in result.stderr

    # ---- stored configurations cost nothing, a new one costs one trial
    again = ttools("tune", "--workers", "0", "--format", "json", script, "64,1024")
    (same,) = problems(again)
    assert (same["new_trials"], same["winner"]) == (0, problem["winner"])
    assert same["trials"] == problem["trials"]
    (more,) = problems(ttools("tune", "--workers", "0", "--format", "json", script, "256,64,1024"))
    assert more["new_trials"] == 1
    tried = [(trial["config"]["BLOCK"], trial["status"]) for trial in more["trials"]]
    assert tried[0] == (256, "ok")
    assert sorted(tried) == [
        *((48, "failed"), (64, "ok"), (256, "ok")),
        *((1024, "ok"), (1024, "wrong")),
    ]

    # ---- content of the store
    shown = called_ttools("tune", "show", "ttools-tunings.sqlite")
    assert shown.returncode == 0
    assert "sum_kernel for n=100000, float32  script.py:13\n" in shown.stdout
    assert "  tried   5 configurations, 2 of them cannot win\n" in shown.stdout
    assert re.search(r"^  winner  (the |tied with )", shown.stdout, re.MULTILINE)
    assert "power" in shown.stdout
    first, last = (shown.stdout.index("winner "), shown.stdout.index("power of 2"))
    assert first < last
    own = {"BLOCK": more["winner"]["BLOCK"], "PART": 1}
    assert f"\ntriton.Config({own!r}, num_warps=4" in shown.stdout
    assert re.search(r"( times as fast as| tied with|,) the first configuration\n", shown.stdout)
    paste = called_ttools("tune", "show", "--format", "markdown", "ttools-tunings.sqlite")
    assert "| winner | BLOCK=" in paste.stdout
    assert "\n```python\n# sum_kernel for n=100000" in paste.stdout
    assert f"\ntriton.Config({own!r}, num_warps=4" in paste.stdout
    exported = called_ttools("tune", "export", "ttools-tunings.sqlite", "--output", "out.csv")
    assert (exported.returncode, exported.stdout) == (0, "")
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sorted(row["status"] for row in rows) == ["failed", *["ok"] * 3, "wrong"]
    assert [row["key.n"] for row in rows] == ["100000"] * 5
    (winner,) = (row for row in rows if row["winner"] == "True")
    assert winner["config.BLOCK"] == str(more["winner"]["BLOCK"])
    locked = called_ttools("tune", "export", "ttools-tunings.sqlite", "--format", "lock")
    assert [winner["config"] for winner in json.loads(locked.stdout)["winners"]] == [more["winner"]]
    t4 = called_ttools("tune", "export", "ttools-tunings.sqlite", "--format", "t4")
    results = json.loads(t4.stdout)["results"]
    assert sorted(row["invalidity"] for row in results) == [
        "compile",
        *["correct"] * 3,
        "correctness",
    ]
    assert all(row["timestamp"] for row in results)
    as_json = json.loads(
        called_ttools("tune", "show", "--format", "json", "ttools-tunings.sqlite").stdout
    )
    assert as_json["problems"][0]["importance"] is None, "rules need more problems"


def test_the_lock_file_selects_without_measuring(ttools: Run, script: str, tmp_path: Path) -> None:
    result = ttools(
        "tune", "--workers", "0", "--lock", "lock.json", "--store", "own.sqlite", script, "64,1024"
    )
    assert result.returncode == 0, result.stderr
    data = json.loads((tmp_path / "lock.json").read_text())
    (row,) = data["winners"]
    row["config"]["BLOCK"] = 64  # select another configuration than the winner
    (tmp_path / "lock.json").write_text(json.dumps(data))
    (tmp_path / "own.sqlite").unlink()
    locked = ttools("tune", "--locked", "--lock", "lock.json", script, "1024,64")
    assert locked.returncode == 0, locked.stderr
    assert locked.stdout == "outputs right: True 100000.0\nchosen: {'BLOCK': 64, 'PART': 1}\n"
    assert not list(tmp_path.glob("*.sqlite"))
    gone = ttools("tune", "--locked", "--lock", "lock.json", script, "1024")
    assert gone.returncode == 2
    assert "winner BLOCK=64, PART=1, num_warps=4" in gone.stderr
    assert "Traceback" not in gone.stderr


def test_the_sanitizer_rejects_results_that_are_right_by_chance(
    ttools: Run, tmp_path: Path
) -> None:
    text = SCRIPT.replace("offs < n // PART", "offs < (n if PART == 1 else n + 1)")
    (tmp_path / "script.py").write_text(text.replace(' * meta["PART"]', ""))
    result = ttools("tune", "--workers", "0", "--sanitize", "--format", "json", "script.py", "64")
    (problem,) = problems(result)
    assert [trial["status"] for trial in problem["trials"]] == ["ok", "defect", "failed"]
    assert problem["trials"][1]["reason"].startswith("memcheck: out-of-bounds load of 4 bytes")
    assert "script.py:26:" in problem["trials"][1]["reason"]


UNWRITTEN = """\
import torch, triton, triton.language as tl


@triton.autotune([triton.Config({"BLOCK": 64, "FROM": 0}), triton.Config({"BLOCK": 64, "FROM": 1})],
                 key=["n"])
@triton.jit
def copy_kernel(x_ptr, scratch_ptr, out_ptr, n, BLOCK: tl.constexpr, FROM: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    if FROM == 1:
        x += 0 * tl.load(scratch_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, x, mask=offs < n)


n = 300_000
x, scratch, out = torch.ones(n), torch.empty(n), torch.empty(n)
scratch[: n // 2] = 0
copy_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, scratch, out, n)
assert (out == 1).all()
"""


@pytest.mark.parametrize("workers", ["0", pytest.param("1", marks=pytest.mark.slow)])
def test_a_configuration_that_reads_unwritten_arguments_cannot_win(
    ttools: Run, tmp_path: Path, workers: str
) -> None:
    (tmp_path / "script.py").write_text(UNWRITTEN)
    result = ttools("tune", "--workers", workers, "--sanitize", "--format", "json", "script.py")
    (problem,) = problems(result)
    right, defect = problem["trials"]
    assert (right["status"], defect["status"]) == ("ok", "defect")
    assert defect["reason"].startswith("initcheck: elements that were never written are read")
    assert "`scratch_ptr`" in defect["reason"]


@pytest.mark.slow  # tests/tuner/workers covers these cases, too
def test_planted_crashes_and_hangs_are_rejected_and_reported(ttools: Run, tmp_path: Path) -> None:
    planted = """\
sum_kernel.configs += [triton.Config({"BLOCK": b, "PART": 1}) for b in (128, 256)]
sum_kernel.configs[-2].pre_hook = lambda arguments: __import__("os").abort()
sum_kernel.configs[-1].pre_hook = lambda arguments: __import__("time").sleep(1000)
sum_kernel[grid](x, out, total, n)
"""
    text = SCRIPT.replace("sum_kernel[grid](x, out, total, n)\n", planted)
    (tmp_path / "script.py").write_text(text)
    result = ttools("tune", "--timeout", "12", "--format", "json", "script.py", "64")
    (problem,) = problems(result)
    trials = {trial["config"]["BLOCK"]: trial for trial in problem["trials"]}
    statuses = {block: trial["status"] for block, trial in trials.items()}
    assert statuses == {64: "ok", 1024: "wrong", 48: "failed", 128: "crashed", 256: "timed_out"}
    assert "SIGABRT (Aborted)" in trials[128]["reason"]
    assert "no answer within 12 s" in trials[256]["reason"]
    assert "outputs right: True" in result.stderr
    shown = ttools("tune", "show", "ttools-tunings.sqlite")
    assert "timed out: " in shown.stdout
    assert "crashed: " in shown.stdout


@pytest.mark.slow
def test_ctrl_c_keeps_the_results_so_far(tmp_path: Path, ttools: Run) -> None:
    slow = SCRIPT.replace(
        "sum_kernel[grid](x, out, total, n)",
        "sum_kernel.configs[1].pre_hook = lambda args: __import__('time').sleep(60)\n"
        "sum_kernel[grid](x, out, total, n)",
    )
    (tmp_path / "script.py").write_text(slow)
    process = subprocess.Popen(
        [sys.executable, "-m", "ttools_entry", "tune", "script.py", "64,1024"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "200", "PYTHONFAULTHANDLER": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until = time.monotonic() + 90
        while time.monotonic() < until and not stored(tmp_path):
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # makes faulthandler print the stack of every thread
        pytest.fail(process.communicate()[1])
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "note: interrupted\n" in err
    assert "Traceback" not in err
    assert "  tried   1 configuration, interrupted\n" in out
    assert "winner" in out
    shown = ttools("tune", "show", "ttools-tunings.sqlite", "--format", "json")
    (problem,) = problems(shown)
    assert (problem["winner"]["BLOCK"], problem["complete"]) == (64, False)


def stored(folder: Path) -> bool:
    from ttools.core.errors import UsageError
    from ttools.tuner.store.store import TuningStore

    path = folder / "ttools-tunings.sqlite"
    try:
        store = TuningStore(path, create=False)
    except UsageError:
        return False  # the file does not exist yet, or is incomplete
    try:
        return any(entry.trials for entry in store.entries())
    finally:
        store.close()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["tune"], "nothing to run"),
        (["tune", "kernel.ttir"], "a .ttir file is one configuration"),
        (["tune", "--gpus", "0", "--ray", "local", "-c", "pass"], "both say where configurations"),
        (
            ["tune", "--gpus", "0", "--workers", "0", "-c", "pass"],
            "--workers 0 runs everything in this",
        ),
        (["tune", "--gpus", "first", "-c", "pass"], "must be numbers of GPUs, as in 0,1"),
        (["tune", "--ray", "local@none", "-c", "pass"], "must be ADDRESS, or ADDRESS@N"),
        (["tune", "--on", "gpu", "-c", "pass"], "there is no GPU here that torch can use"),
        (["tune", "show"], "`ttools tune show` takes one store"),
        (["tune", "show", "none.sqlite"], "there is no store `none.sqlite`"),
        (["tune", "show", "junk"], "`junk` cannot be used as a store: file is not a database"),
        (["tune", "--store", "junk", "-c", "pass"], "`junk` cannot be used as a store"),
        (["tune", "--gpu", "h999", "-c", "pass"], "there is no GPU `h999`; choose from"),
        (["tune", "--format", "csv", "-c", "pass"], "--format csv is available only with `ttools"),
        (["tune", "--locked", "-c", "pass"], "--locked needs the lock file: --lock FILE"),
        (["tune", "--locked", "--lock", "no", "-c", "pass"], "cannot read the lock file `no`"),
        (["tune", "--lock", "/dev/full", "-c", "pass"], "`/dev/full` is not a regular file"),
        (["tune", "--lock", "/dev/zero", "-c", "pass"], "`/dev/zero` is not a regular file"),
        (["tune", "--store", "/dev/full", "-c", "pass"], "`/dev/full` is not a regular file"),
    ],
)
def test_usage_errors(
    called_ttools: Run, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    (tmp_path / "junk").write_text("no database" * 100)
    result = called_ttools(*arguments)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_missing_ray_is_reported_before_anything_runs(
    called_ttools: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ttools.cli.options.find_spec", lambda name: None)
    result = called_ttools("tune", "--ray", "local", "-c", "print('ran')")
    assert (result.returncode, result.stdout) == (2, "")
    assert "Ray is not installed: pip install" in result.stderr


def test_a_run_without_autotuned_kernels_is_reported(ttools: Run, tmp_path: Path) -> None:
    result = ttools("tune", "-c", "print('hello')")
    assert (result.returncode, result.stdout) == (4, "hello\n")
    assert "no Triton kernel was launched" in result.stderr
    result = ttools("tune", "--only", "other_kernel", "-c", "pass")
    assert "no Triton kernel `other_kernel` was launched" in result.stderr


def test_history_difference_page_and_rules_of_stores(
    ttools: Run, script: str, tmp_path: Path
) -> None:
    own = ("--workers", "0", "--store", "old.sqlite")
    page = ttools("tune", *own, "--format", "html", "--output", "run.html", script, "64,1024")
    assert page.returncode == 0, page.stderr
    text = (tmp_path / "run.html").read_text()
    assert text.count("<svg") == 2
    assert "power of 2" in text
    (tmp_path / "new.sqlite").write_bytes((tmp_path / "old.sqlite").read_bytes())
    ttools("tune", "--workers", "0", "--store", "new.sqlite", "--fresh", script, "64,1024")
    # ---- the history keeps all trials
    for arguments, count in ((("--history",), 8), ((), 4)):
        exported = ttools("tune", "export", *arguments, "new.sqlite")
        rows = list(csv.DictReader(exported.stdout.splitlines()))
        assert len(rows) == count
        assert {row["latest"] for row in rows} <= {"True", "False"}
        assert all(row["tried"] for row in rows)
    refused = ttools("tune", "show", "--history", "new.sqlite")
    assert refused.returncode == 2
    # ---- the difference of two stores
    same = ttools("tune", "diff", "old.sqlite", "old.sqlite")
    assert (same.returncode, same.stdout) == (0, "")
    assert "note: 0 of 1 tunings differ" in same.stderr
    different = ttools("tune", "diff", "--format", "json", "old.sqlite", "new.sqlite")
    (change,) = json.loads(different.stdout)["changes"]
    assert change["kernel"] == "sum_kernel"
    assert change["ratio"] == pytest.approx(change["new_seconds"] / change["old_seconds"])
    wrong = ttools("tune", "diff", "old.sqlite")
    assert wrong.returncode == 2
    assert "takes two stores: ttools tune diff OLD NEW" in wrong.stderr
    # ---- a kernel that is not in the store
    for word in ("show", "rules"):
        unknown = ttools("tune", word, "--only", "some_kernel", "old.sqlite")
        assert unknown.returncode == 2
        assert "has no tuning of `some_kernel`, only of sum_kernel" in unknown.stderr
    # ---- rules
    rules = ttools("tune", "rules", "old.sqlite")
    assert rules.returncode == 0, rules.stderr
    assert "def choose_for_sum_kernel(args):" in rules.stdout
    assert "note: sum_kernel: 1 configuration for 1 tuning," in rules.stderr
    compile(rules.stdout, "rules.py", "exec")
