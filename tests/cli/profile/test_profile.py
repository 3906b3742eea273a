"""`ttools profile` and `profile compare` on a machine without a GPU."""

from __future__ import annotations

import csv
import json
import re
from io import StringIO
from pathlib import Path

import pytest
from tests.cli.conftest import Run

SCRIPT = """\
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, n, factor, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(x_ptr + offs, x * factor, mask=offs < n)


x = torch.ones(1000)
for _ in range(3):
    scale_kernel[(4,)](x, 1000, 2.0, BLOCK=256)
print("right:", bool((x == 8).all()))
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "scale.py").write_text(SCRIPT)
    return "scale.py"


def test_text(ttools: Run, script: str) -> None:
    result = ttools("profile", "--lines", "--gpu", "h100", script, COLUMNS="80")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("right: True\nKernels on the CPU: 1 kernel, 3 launches, ")
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert not [line for line in result.stdout.splitlines() if line.endswith(" ")]
    assert "a lower bound, not a prediction" in " ".join(result.stdout.split())
    heading, row, _, advice, *rest = result.stdout.splitlines()[3:]
    assert heading.split() == ["kernel", "share", "launches", "CPU", "time", "mean", "projected"]
    assert row.split()[:3] == ["scale_kernel", "100.0%", "3"]
    assert advice == "Advice for scale_kernel"
    start = next(n for n, line in enumerate(rest) if line.startswith("scale_kernel  scale.py:6"))
    _, speed, *facts = (fact(line) for line in rest[start:])
    assert speed[0] == "speed of light"
    speed_line = re.search(r"compute 0.0% \(fp32\); memory (.*)% of h100's peaks", speed[1])
    assert speed_line
    projected = next(text for name, text in facts if name == "projected")
    times = re.fullmatch(r"(\d.*) us \(\d.* to \d.* us\)", projected)
    assert times
    assert float(speed_line[1]) == pytest.approx(
        8000 / 3350e9 / (float(times[1]) * 1e-6) * 100, abs=0.1
    )
    whole = " ".join(result.stdout.split())
    # Four programs of four warps are launched; a multiprocessor holds sixteen such programs.
    assert f"{4 / 132 / 16:.2g} waves: 4 programs do not fill the device" in whole
    assert "1.02k flop, 8 kB requested, 8 kB touched, 2.3% of lanes masked off" in whole
    assert "narrow_access in scale.py:9" in whole
    counted, access = [line.split() for line in result.stdout.splitlines() if line[:4] == "  9 "]
    assert " ".join(counted).endswith("x = tl.load(x_ptr + offs, mask=offs < n)")
    assert "    12 kB loaded, 2.3% masked, " in result.stdout  # of three launches
    assert "% of the instructions (" in whole
    assert re.search(r"\n  line +(CPU time +share +)?source\n", result.stdout)
    assert "in all rows: executions 12\n" in result.stdout
    # Each thread holds two elements and loads them separately, because of the mask.
    assert access == ["9", "load"]
    assert "in all rows: bits 32; sectors 7.81; at best 3.94; used 50.4%; shared by 1" in whole


def fact(line: str) -> tuple[str, str]:
    """Return the name and the text of a line in a block of the report."""
    name, _, text = line.strip().partition("  ")
    return (name, text.strip()) if line.startswith("  ") else (line, "")


FORMS = SCRIPT.replace(
    "x = torch.ones(1000)\nfor _ in range(3):\n    scale_kernel[(4,)](x, 1000, 2.0, BLOCK=256)",
    """for n in (1, 1000, 4096):
    for dtype in (torch.float32, torch.float16):
        x = torch.ones(n, dtype=dtype)
        for _ in range(n % 3 + 1):
            scale_kernel[(triton.cdiv(n, 256),)](x, n, 8.0, BLOCK=256)""",
)


_QUANTISE = """\
import torch, triton
import triton.language as tl

@triton.jit
def quantise_kernel(x_ptr, q_ptr, scale_ptr, columns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * columns + lanes, mask=lanes < columns, other=0.0)
    scale = tl.max(tl.abs(x), axis=0) / 127.0
    q = tl.floor(x / scale)
    tl.store(q_ptr + tl.program_id(0) * columns + lanes, q.to(tl.int8), mask=lanes < columns)
    tl.store(scale_ptr + tl.program_id(0), scale)

quantise_kernel[(4,)](
    torch.ones(4, 100), torch.empty(4, 100, dtype=torch.int8), torch.empty(4), 100, BLOCK=128
)
"""


def test_operations_of_a_kernel_without_flops(called_ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "quantise.py").write_text(_QUANTISE)
    result = called_ttools("profile", "quantise.py")
    assert result.returncode == 0, result.stderr
    # Each program divides 128 elements and the maximum, which it determines by 127 comparisons.
    work = "a launch does 0 flop, 516 divisions, 508 comparisons, 2.02 kB requested"
    assert work in " ".join(result.stdout.split())


def test_launch_signatures_are_reported_separately(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "forms.py").write_text(FORMS)
    words = ("profile", "--gpu", "h200", "--format", "json", "--output", "p.json", "forms.py")
    assert ttools(*words).returncode == 0
    data = json.loads((tmp_path / "p.json").read_text())
    forms = {(form["grid"], form["specialisation"]): form for form in data["forms"]}
    assert {key: launch_form["launches"] for key, launch_form in forms.items()} == {
        ("1", "x_ptr: *fp32; n: constant 1"): 2,
        ("1", "x_ptr: *fp16; n: constant 1"): 2,
        ("4", "x_ptr: *fp32; n: i32"): 2,
        ("4", "x_ptr: *fp16; n: i32"): 2,
        ("16", "x_ptr: *fp32; n: i32, divisible by 16"): 2,
        ("16", "x_ptr: *fp16; n: i32, divisible by 16"): 2,
    }
    assert all(form["registers"] and form["projected_s"] for form in forms.values())
    loads = {
        (access["grid"], access["specialisation"]): access["bits"]
        for access in data["accesses"]
        if access["kind"] == "load"
    }
    assert set(loads) == set(forms)
    # Threads can load both of their elements at once only if the bound is a multiple of 16.
    assert sorted(loads.values()) == [16, 16, 32, 32, 32, 64]
    (kernel,) = data["kernels"]
    mean = sum(form["projected_s"] * form["launches"] for form in forms.values()) / 12
    assert kernel["projected_s"] == pytest.approx(mean)
    # A launch of one element is too small for other advice.
    assert {hint["kind"] for hint in data["advice"]} <= {"narrow_access"}


@pytest.mark.slow
def test_launch_signatures_are_shown_readably(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "forms.py").write_text(FORMS)
    result = ttools("profile", "--gpu", "h200", "--lines", "forms.py", COLUMNS="80")
    assert result.returncode == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "  for sm_90       A: 10 registers, accesses of 32 bits in lines 9, 10" in result.stdout
    rows = [line.split() for line in result.stdout.splitlines() if line.startswith("  16 ")]
    assert {row[-1] for row in rows} == {"E", "F"}
    assert "in all rows: launches 2" in result.stdout


def test_a_device_described_by_a_file(ttools: Run, script: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\narchitecture = "sm_80"\nmultiprocessors = 4\nbandwidth_gb = 8.0\n'
        "peaks = {fp32 = 1.0}\n"
    )
    result = ttools("profile", "--device-file", "mine.toml", "--format", "json", script)
    assert result.returncode == 0, result.stderr
    data = json.loads(result.stdout[result.stdout.index("{") :])
    assert (data["device"]["name"], data["target"]) == ("mine", "sm_80")
    assert data["kernels"][0]["bound_s"] == pytest.approx(1e-6)
    result = ttools("profile", "--device-file", "mine.toml", "--gpu", "h100", script)
    assert (result.returncode, result.stdout) == (2, "")
    assert "give either --gpu or --device-file" in result.stderr


def test_json(ttools: Run, script: str, tmp_path: Path) -> None:
    result = ttools("profile", "--format", "json", "--output", "p.json", "--gpu", "a100", script)
    assert (result.returncode, result.stdout) == (0, "right: True\n")
    data = json.loads((tmp_path / "p.json").read_text())
    assert data["schema"] == "ttools.profile/1"
    assert data["script"] == {"target": "scale.py", "exit_code": 0}
    (kernel,) = data["kernels"]
    assert (kernel["launches"], kernel["bytes"], kernel["flops"]) == (3, 8000, 1024)
    assert kernel["bound_s"] == pytest.approx(8000 / 2039e9)
    assert [line["line"] for line in data["lines"] if line["executions"]] == [8, 9, 10]
    assert data["compiled"][0]["target"] == "sm_80"
    assert [access["sectors_per_request"] for access in data["accesses"]] == [250 / 32] * 2
    assert {hint["kind"] for hint in data["advice"]} == {"narrow_access"}


LIBRARY_LIKE = """
import torch, triton
import triton.language as tl

@triton.autotune([triton.Config({"A_LONG_PARAMETER": 1, "ANOTHER_PARAMETER": 2})], key=["n"])
@triton.jit
def count_kernel(x_ptr, n, A_LONG_PARAMETER: tl.constexpr, ANOTHER_PARAMETER: tl.constexpr):
    tl.atomic_add(x_ptr + tl.arange(0, 8), 1.0)

count_kernel[(4,)](torch.zeros(8), 8)
"""


def test_one_kernel_fits_on_a_screen(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(LIBRARY_LIKE)
    result = ttools("profile", "--gpu", "h100", "count.py", COLUMNS="80")
    lines = result.stdout.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert lines[0].endswith(" of CPU time")
    assert re.match(r"count_kernel \[A_…, num_stages=3\] +100\.0% +1 ", lines[3])
    assert "0 flop (without those of atomics)" in " ".join(result.stdout.split())
    assert "`ttools -v profile` gives the assumptions" in " ".join(result.stdout.split())
    verbose = ttools("-v", "profile", "--gpu", "h100", "count.py", COLUMNS="80")
    assert "data that earlier launches left" in " ".join(verbose.stdout.split())


def test_cells_of_csv_files_are_plain(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(LIBRARY_LIKE)
    result = ttools("profile", "--gpu", "h100", "--format", "csv", "count.py")
    (row,) = csv.DictReader(StringIO(result.stdout))
    assert not [value for value in row.values() if "{" in value]
    assert re.match(r"\w[\w ]*=0\.\d+; ", row["instruction_mix"])
    assert (row["launches"], row["registers"].isdigit()) == ("1", True)


def test_csv(ttools: Run, script: str) -> None:
    result = ttools("profile", "--format", "csv", "--lines", script)
    rows = list(csv.DictReader(StringIO(result.stdout.removeprefix("right: True\n"))))
    assert [(r["line"], r["loaded"], r["stored"]) for r in rows if r["executions"] != "0"] == [
        ("8", "0", "0"),
        *(("9", "12000", "0"), ("10", "0", "12000")),
    ]


UNEVEN = """
import torch, triton
import triton.language as tl

@triton.jit
def uneven_kernel(x_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    for _ in range(300):
        x = x * 0.999 + 0.25
    tl.store(x_ptr + offs, x)

uneven_kernel[(16,)](torch.ones(1 << 14), BLOCK=1024)
"""


def test_times_of_lines(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "uneven.py").write_text(UNEVEN)
    result = ttools("profile", "--lines", "uneven.py", COLUMNS="160")
    assert (result.returncode, result.stderr) == (0, "")
    header = next(line for line in result.stdout.splitlines() if line.startswith("  line"))
    (heavy,) = [line for line in result.stdout.splitlines() if line.startswith("  10 ")]
    cell = heavy[: header.index("share") + len("share")].split()[-1]
    assert float(cell.rstrip("%")) > 50


def test_html(ttools: Run, script: str, tmp_path: Path) -> None:
    result = ttools("profile", "--format", "html", "--output", "p.html", script)
    assert (result.returncode, result.stdout) == (0, "right: True\n"), result.stderr
    page = (tmp_path / "p.html").read_text("utf-8")
    assert "<h1><code>scale_kernel</code> takes " in page
    assert "<p><code>scale.py</code>; 1 kernel, 3 launches on the CPU</p>" in page
    source = re.sub(r"</?span.*?>", "", page)
    assert "tl.store(x_ptr + offs, x * factor, mask=offs &lt; n)" in source


def test_chrome(ttools: Run, script: str, tmp_path: Path) -> None:
    result = ttools("profile", "--format", "chrome", "--output", "p.trace", script)
    assert result.returncode == 0, result.stderr
    events = json.loads((tmp_path / "p.trace").read_text())["traceEvents"]
    launches = [event for event in events if event["ph"] == "X"]
    assert [event["name"] for event in launches] == ["scale_kernel"] * 3
    assert launches[0]["args"]["bytes"] == 8000


SCOPED = SCRIPT.replace(
    "for _ in range(3):",
    "import triton.profiler as proton\n"
    "for n in range(3):\n"
    "  with proton.scope(f'step {n}', {'flops': 1e6}):",
)


def test_scopes_and_target_without_a_device(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "scoped.py").write_text(SCOPED)
    result = ttools("profile", "--tree", "--target", "gfx942", "scoped.py", COLUMNS="160")
    assert (result.returncode, result.stderr) == (0, "")
    assert "  for gfx942  " in result.stdout
    assert "occupancy" in result.stdout
    hint = "--gpu h100, or another GPU, adds bounds, projected times, waves; the GPU need not"
    assert hint in " ".join(result.stdout.split())
    assert "at least" not in result.stdout.lower()
    (step,) = [line for line in result.stdout.splitlines() if "step 2" in line]
    assert "1 launch, 1 Mflop, flops=1e+06" in step
    assert "note: " not in result.stderr
    result = ttools("profile", "--context", "python", "--tree", "scoped.py")
    assert "<module> (scoped.py:17)" in result.stdout


def test_a_script_without_kernels(ttools: Run, tmp_path: Path) -> None:
    result = ttools("profile", "--output", "p.txt", "-c", "print('hello')")
    assert "Kernels on the CPU" in (tmp_path / "p.txt").read_text("utf-8")
    assert (result.returncode, result.stdout) == (0, "hello\n")
    assert "no Triton kernel was launched, so nothing was profiled" in result.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--gpu", "h10", "scale.py"), "there is no GPU `h10`; did you mean `h100`"),
        (("--gpu", "sm_1", "scale.py"), "there is no GPU `sm_1`; did you mean"),
        (("--target", "sm_1", "scale.py"), "there is no GPU `sm_1`"),
        (("gone.py",), "there is no file `gone.py`"),
        (("--on", "cpu", "--trials", "scale.py"), "on the CPU, the first configuration runs"),
        (("--output", "gone/p.txt", "scale.py"), "there is no folder `gone`"),
        (("--output", ".", "scale.py"), "cannot write `.`: it is a folder"),
    ],
)
def test_usage_errors(
    called_ttools: Run, script: str, words: tuple[str, ...], sentence: str
) -> None:
    result = called_ttools("profile", *words)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "right" not in result.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_a_report_is_printed_if_the_disk_is_full(ttools: Run, script: str) -> None:
    result = ttools("profile", "--format", "json", "--output", "/dev/full", "scale.py")
    assert result.returncode == 2
    assert "cannot write `/dev/full`: No space left on device; the report is on" in result.stderr
    report = result.stdout[result.stdout.index("{\n") :]
    assert json.loads(report)["kernels"]


def test_exit_status_is_that_of_the_script(ttools: Run) -> None:
    result = ttools("profile", "-c", "raise SystemExit(7)")
    assert result.returncode == 7


# --- profile compare ------------------------------------------------------------------------------


def profile_file(path: Path, timed_on: str = "GPU", **medians: float) -> None:
    rows = [
        {"kernel": kernel, "config": "", "seconds": [median * (1 + n * 1e-3) for n in range(20)]}
        for kernel, median in medians.items()
    ]
    data = {"schema": "ttools.profile/1", "timed_on": timed_on, "kernels": rows}
    path.write_text(json.dumps(data))


def test_compare_takes_several_profiles_per_side(ttools: Run, script: str, tmp_path: Path) -> None:
    for n, drift in enumerate((0.99, 1.0, 1.01)):
        profile_file(tmp_path / f"old{n}.json", kept=drift, planted=1.0)
        profile_file(tmp_path / f"new{n}.json", kept=1.004 * drift, planted=1.3 * drift)
        profile_file(tmp_path / f"cpu{n}.json", "CPU", kept=drift)
    old, new = ([f"{side}{n}.json" for n in range(3)] for side in ("old", "new"))
    words = ("--before", *old, "--after", *new)
    result = ttools("profile", "compare", *words, "--format", "json")
    assert result.returncode == 1
    data = json.loads(result.stdout)
    assert (data["schema"], data["before"]) == ("ttools.profile-comparison/2", old)
    kernels = {kernel["kernel"]: kernel for kernel in data["kernels"]}
    assert (kernels["kept"]["base_runs"], kernels["kept"]["new_runs"]) == (3, 3)
    assert {name: row["verdict"] for name, row in kernels.items()} == {
        "kept": "inconclusive",
        "planted": "slower",
    }
    assert "note: inconclusive; use more profiles per side: kept\n" in result.stderr
    assert "warning" not in result.stderr
    result = ttools("profile", "compare", "--before", "cpu0.json", "--after", "cpu1.json")
    assert result.returncode == 0
    assert "warning: these times were measured on a CPU" in result.stderr


def test_compare_fails_on_a_regression(ttools: Run, tmp_path: Path) -> None:
    profile_file(tmp_path / "base.json", steady=1e-3, slowed=1e-3, gone=1e-3)
    profile_file(tmp_path / "new.json", steady=1.01e-3, slowed=1.2e-3)
    result = ttools("profile", "compare", "base.json", "new.json", COLUMNS="80")
    assert result.returncode == 1
    assert "error: slower by 5% or more: slowed\n" in result.stderr
    blocks = result.stdout.split("\n\n")[1:]
    assert [block.splitlines()[0] for block in blocks[:3]] == ["slowed", "gone", "steady"]
    assert re.search(r"\n  slower  1.200 \(1.\d+ to 1.\d+\): 1.21 ms, was 1.01 ms", blocks[0])
    assert blocks[1].endswith("\n  removed  absent, was 1.01 ms")
    result = ttools("profile", "compare", "base.json", "new.json", "--fail-on-regression", "30%")
    assert (result.returncode, result.stderr) == (0, "")


def test_compare_shows_ten_kernels_per_verdict(called_ttools: Run, tmp_path: Path) -> None:
    kernels = {f"kernel_{n}": 1e-3 for n in range(96)}
    profile_file(tmp_path / "base.json", "GPU", **kernels)
    result = called_ttools("profile", "compare", "base.json", "base.json", COLUMNS="80")
    assert "86 more `same` left out; --format json has all" in result.stdout
    assert result.stdout.count("kernel_") == 10


def test_compare_as_markdown(called_ttools: Run, tmp_path: Path) -> None:
    profile_file(tmp_path / "base.json", some_kernel=1e-3)
    result = called_ttools("profile", "compare", "--format", "markdown", "base.json", "base.json")
    assert result.returncode == 0
    assert "| kernel | verdict | base | new | ratio | interval |\n| --- | --- |" in result.stdout
    assert "| some\\_kernel | same | 1.01 ms | 1.01 ms | 1.000 |" in result.stdout


def test_compare_reads_files_of_profile(ttools: Run, script: str, tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        assert ttools("profile", "--format", "json", "--output", name, script).returncode == 0
    result = ttools("profile", "compare", "--format", "json", "a.json", "b.json")
    assert result.returncode == 0, result.stderr
    (kernel,) = json.loads(result.stdout)["kernels"]
    assert (kernel["kernel"], kernel["verdict"]) == ("scale_kernel", "too few launches")
    assert "warning: these times were measured on a CPU" in result.stderr


def test_compare_distinguishes_scopes(ttools: Run, tmp_path: Path) -> None:
    for name, slow in (("a.json", 1e-3), ("b.json", 2e-3)):
        taken = {"forward": [1e-3] * 9, "backward": [slow] * 9}
        scopes = [{"scope": [scope], "seconds": seconds} for scope, seconds in taken.items()]
        every = [value for seconds in taken.values() for value in seconds]
        row = {"kernel": "k", "config": "", "seconds": every, "scopes": scopes}
        (tmp_path / name).write_text(json.dumps({"schema": "ttools.profile/1", "kernels": [row]}))
    result = ttools("profile", "compare", "a.json", "b.json", COLUMNS="120")
    assert result.returncode == 1
    assert "slower by 5% or more: backward/k\n" in result.stderr
    assert "forward" in result.stdout
    result = ttools("profile", "compare", "--no-scopes", "--fail-on-regression", "60%", *AB)
    assert (result.returncode, "scope" in result.stdout) == (0, False)


AB = ("a.json", "b.json")


def test_launches_are_repeated_and_warm_up(ttools: Run, script: str, tmp_path: Path) -> None:
    words = ("--warmup", "1", "--iterations", "4", "--format", "json", "--output", "p.json")
    result = ttools("profile", *words, script)
    # The script sees the effect of each of its three launches once, although launches are repeated.
    assert (result.returncode, result.stdout) == (0, "right: True\n")
    (kernel,) = json.loads((tmp_path / "p.json").read_text())["kernels"]
    assert (kernel["launches"], len(kernel["seconds"])) == (12, 12)
    assert [(scope["scope"], len(scope["seconds"])) for scope in kernel["scopes"]] == [([], 12)]
    assert 0 < kernel["overhead_min_s"] <= kernel["overhead_p95_s"] < 1
    result = ttools("profile", "--warmup", "3", script)
    assert result.returncode == 0
    assert "no Triton kernel" not in result.stderr
    assert "all launches only warmed up" in result.stderr


def test_the_sweep_over_k(ttools: Run, tmp_path: Path) -> None:
    example = Path(__file__).parents[3] / "examples" / "matmul_roofline.py"
    words = ("--gpu", "h200", "--format", "json", "--output", "p.json")
    result = ttools("profile", *words, str(example), "--size", "128", "--steps", "1")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "ok matmul_roofline: 6 products of 128 x 128\n"
    data = json.loads((tmp_path / "p.json").read_text())
    (kernel,) = data["kernels"]
    assert (kernel["launches"], kernel["flops"]) == (2, 128 * 128 * (128 + 64))
    assert [child["name"] for child in data["tree"]["children"]] == ["K=64", "K=128"]
    scopes = [scope["scope"] for scope in kernel["scopes"]]
    assert scopes == [["K=64", "Triton"], ["K=128", "Triton"]]


def test_a_script_named_like_a_command_needs_a_path(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "compare").write_text("print('mine')\n")
    assert ttools("profile", "compare").returncode == 2
    assert ttools("profile", "./compare").stdout == "mine\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("base.json", "gone.json"), "cannot read the profile `gone.json`"),
        (("base.json", "base.json", "--fail-on-regression", "much"), "give a share like 5%"),
        (("base.json",), "give two profiles, not 1"),
        ((), "there is no profile to compare"),
        (("--before", "base.json"), "--after FILE…"),
        (("base.json", "base.json", "--after", "base.json"), "give either BASE and NEW"),
        (("--before", "base.json", "base.json", "--after", "x"), "names a file twice"),
    ],
)
def test_usage_errors_of_compare(
    called_ttools: Run, tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    profile_file(tmp_path / "base.json", k=1e-3)
    result = called_ttools("profile", "compare", *words)
    assert result.returncode == 2
    assert sentence in result.stderr


def test_the_same_kernel_in_two_files(ttools: Run, tmp_path: Path) -> None:
    """Attribute the compiled code of each kernel to the lines of its own file."""
    text = STRIDED
    cache = {"TRITON_CACHE_DIR": str(tmp_path / "cache")}
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "copy.py").write_text(text)
        result = ttools("profile", "--gpu", "h100", f"{folder}/copy.py", COLUMNS="160", **cache)
        assert result.returncode == 0, result.stderr
        assert "uncoalesced_access" in result.stdout, folder
        assert f"in {folder}/copy.py:9: a load moves" in result.stdout
        result = ttools("inspect", "--stage", "ttgir", f"{folder}/copy.py", **cache)
        assert f"# {folder}/copy.py:9: " in result.stdout


STRIDED = """\
import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs * 2)
    tl.store(out_ptr + offs, x)


copy_kernel[(16,)](torch.rand(8192), torch.empty(4096), BLOCK=256)
"""


TOO_LONG = """
import torch
import triton
import triton.language as tl


@triton.jit
def one_store_kernel(out_ptr):
    tl.store(out_ptr, 1.0, mask=tl.program_id(1) == 0)


one_store_kernel[(1, 65_536)](torch.zeros(1))
"""


def test_a_launch_that_the_device_refuses_is_not_projected(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text(TOO_LONG)
    result = ttools("profile", "--gpu", "h100", "long.py")
    assert (result.returncode, result.stderr) == (0, "")
    message = "axis 1 of the grid has 65,536 programs, but at most 65,535 are allowed"
    assert f"projected cannot launch on h100: {message}" in " ".join(result.stdout.split())
    for name in ("speed of light", "at least"):
        assert not re.search(rf"^ +{name} ", result.stdout, re.M)
