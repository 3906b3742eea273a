"""Compares the resources that `ttools inspect` reports with those that the GPU's driver reports.

    python benchmarks/against_driver.py --json results.json      # on a Hopper GPU

For each case of `workloads/configurations.py`, `ttools inspect --all-configs` runs in a process
from which the GPU is hidden. Another process compiles, loads and launches every configuration on
the GPU. Exits with 1 if a figure or a verdict differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton
from workloads.configurations import cases

from ttools.core.triton_versions import loaded_resources

SECONDS = 400
OUTPUT = "OUTPUT"
FIGURES = ("registers", "local", "shared")


def launch(name: str) -> None:
    """Launch a case with an autotuner, as a user's program does; `ttools inspect` runs this."""
    case = cases()[name]()
    tuned = triton.autotune(case.configs(), key=[])(case.kernel)
    tuned[case.grid](*case.arguments, **case.constants)


def _scratch(size: int, _alignment: int, _stream: int | None) -> torch.Tensor:
    return torch.empty(size, dtype=torch.int8, device="cuda")


def load(name: str) -> list[dict[str, Any]]:
    """Return the driver's verdict and figures for each configuration of a case."""
    with torch.device("cuda"):
        case = cases()[name]()
    triton.set_allocator(_scratch)  # of descriptors
    rows = []
    for config in case.configs():
        try:
            values = {**case.constants, **config.all_kwargs()}
            compiled = case.kernel[case.grid](*case.arguments, **values)
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001 - Triton and the driver raise many classes
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            rows.append({"fits": False, "reason": reason[:300]})
            continue
        registers, local = loaded_resources(compiled) or (None, None)
        shared = compiled.metadata.shared
        rows.append({"fits": True, "registers": registers, "local": local, "shared": shared})
    return rows


def _run(words: Sequence[str], **variables: str) -> Any:
    """Run a command and return the JSON file that it writes; the file's path replaces OUTPUT."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output.json"
        done = subprocess.run(
            [sys.executable, *(str(output) if word == OUTPUT else word for word in words)],
            env={**os.environ, "TRITON_CACHE_DIR": folder, **variables},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)} failed: {(done.stdout + done.stderr)[-2000:]}")
        return json.loads(output.read_text())


def inspected(name: str) -> list[dict[str, Any]]:
    """Return the verdict and figures of `ttools inspect` for each configuration of a case."""
    options = f"--gpu h100 --all-configs --fail-on never --format json --output {OUTPUT}"
    words = ["-m", "ttools_entry", "inspect", *options.split(), __file__, "launch", name]
    (kernel,) = _run(words, CUDA_VISIBLE_DEVICES="")["kernels"]
    rows = []
    for config in kernel["configs"]:
        (cell,) = config["gpus"].values()
        rows.append({"values": config["values"], "fits": cell["verdict"] == "fits", **cell})
    return rows


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The results of one case.

    Attributes:
        inspect: Rows that `inspected` returned.
        driver: Rows that `load` returned, in the same order.
    """

    name: str
    inspect: Sequence[Mapping[str, Any]]
    driver: Sequence[Mapping[str, Any]]

    def differences(self) -> list[str]:
        """Describe each figure and verdict that differs."""
        lines = []
        for ours, theirs in zip(self.inspect, self.driver, strict=True):
            compared = FIGURES if ours["fits"] and theirs["fits"] else ()
            lines += [
                f"{self.name} {ours['values']}: {figure} {ours[figure]}, driver {theirs[figure]} "
                f"{ours['reason']}{theirs.get('reason', '')}"
                for figure in ("fits", *compared)
                if ours[figure] != theirs[figure]
            ]
        return lines

    def row(self) -> str:
        """Return a row of the table: counts of configurations, and ranges of the figures."""
        fitting = [row for row in self.driver if row["fits"]]
        ranges = [
            f"{min(row[figure] for row in fitting):,} to {max(row[figure] for row in fitting):,}"
            for figure in FIGURES
        ]
        counts = f"{len(self.driver)} | {len(fitting)} | {len(self.differences())}"
        return f"| {self.name.replace('_', ' ')} | {counts} | {' | '.join(ranges)} |"


def _compared(name: str) -> Compared:
    driver = _run([__file__, "load", name, "--json", OUTPUT])
    return Compared(name=name, inspect=inspected(name), driver=driver)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("compare", "launch", "load"), default="compare")
    parser.add_argument("names", nargs="*", default=list(cases()), metavar="CASE")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.what == "launch":
        launch(*options.names)
        return 0
    if options.what == "load":
        options.json.write_text(json.dumps(load(*options.names)))
        return 0
    print(torch.cuda.get_device_name(), "triton", triton.__version__, "torch", torch.__version__)
    print("| kernel | configurations | fit | differ | registers | local memory | shared memory |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    results, differences = [], []
    with ThreadPoolExecutor(options.jobs) as pool:
        for future in [pool.submit(_compared, name) for name in options.names]:
            try:
                compared = future.result()
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                differences.append(str(error))
                continue
            results.append(compared)
            differences += compared.differences()
            print(compared.row(), flush=True)
    rows = [row for compared in results for row in compared.driver]
    fit = sum(row["fits"] for row in rows)
    print(f"{len(rows)} configurations, {fit} fit; {len(differences)} differences")
    print(*differences, sep="\n")
    if options.json is not None:
        options.json.write_text(json.dumps([vars(compared) for compared in results], indent=1))
    return int(bool(differences))


if __name__ == "__main__":
    sys.exit(main())
