"""Every configuration of autotuned kernels runs, each from the same initial memory."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize


def tuned(*configs: triton.Config, **options):
    """Return an autotuned kernel that is correct only if `ROWS` rows of `BLOCK` fill the tensor."""

    @triton.autotune(list(configs), key=["n"], restore_value=["total_ptr"], **options)
    @triton.jit
    def add_to_kernel(x_ptr, total_ptr, n, BLOCK: tl.constexpr, MASKED: tl.constexpr):
        offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = offs < n if MASKED else offs < n + BLOCK
        x = tl.load(x_ptr + offs, mask=inside, other=0.0)
        total = tl.load(total_ptr + offs, mask=offs < n, other=0.0)
        tl.store(total_ptr + offs, total + x, mask=offs < n)

    return add_to_kernel


def config(block: int, masked: bool, **options) -> triton.Config:
    return triton.Config({"BLOCK": block, "MASKED": masked}, **options)


def block(entry) -> int | None:
    """Return the block size in the configuration of a launch or finding."""
    return (entry.config or {}).get("BLOCK")


def launch(kernel, x: torch.Tensor, total: torch.Tensor) -> None:
    n = x.numel()
    kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, total, n)


@pytest.fixture
def tensors() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(100.0), torch.ones(100)


def test_a_defect_names_the_configurations_that_have_it(tensors) -> None:
    x, total = tensors
    kernel = tuned(config(16, True), config(32, False), config(64, True), config(128, False))
    with sanitize(all_configs=True) as checked:
        launch(kernel, x, total)
    (finding,) = checked.findings
    assert finding.kind == "oob_load"
    assert [c["BLOCK"] for c in finding.configs] == [32, 128]
    assert [c["BLOCK"] for c in (entry.spec.site.config or {} for entry in checked.launches)] == [
        *(16, 32, 64, 128)
    ]


def test_each_configuration_starts_from_the_same_memory_and_one_result_is_kept(tensors) -> None:
    x, total = tensors
    kernel = tuned(config(16, True), config(32, True), config(64, True))
    with sanitize(all_configs=True) as checked:
        launch(kernel, x, total)
    assert checked.findings == []
    assert checked.to("text") == "no finding in 1 kernel, 3 launches\n"
    torch.testing.assert_close(total, x + 1)
    assert kernel.best_config.kwargs["BLOCK"] == 16


def test_only_the_first_runs_by_default(tensors) -> None:
    x, total = tensors
    with sanitize() as checked:
        launch(tuned(config(16, True), config(32, False)), x, total)
    assert checked.findings == []
    assert [block(entry) for entry in checked.launches] == [16]
    assert checked.to("text") == (
        "no finding in 1 kernel, 1 launch; 1 of 2 configurations of `add_to_kernel` ran "
        "(--all-configs)\n"
    )


def test_only_different_launches_run_all_configurations_again(tensors) -> None:
    x, total = tensors
    kernel = tuned(config(16, True), config(32, True))
    with sanitize(all_configs=True) as checked:
        launch(kernel, x, total)
        launch(kernel, x, total)
        launch(kernel, x[:64], total[:64])
    assert [(block(e), e.count) for e in checked.launches] == [
        *((16, 2), (32, 1), (16, 1), (32, 1))
    ]
    torch.testing.assert_close(total[:64], 3 * x[:64] + 1)


def test_memory_that_one_configuration_wrote_is_unwritten_for_the_next() -> None:
    @triton.autotune([config(16, True), config(64, True)], key=[])
    @triton.jit
    def accumulate_kernel(total_ptr, BLOCK: tl.constexpr, MASKED: tl.constexpr):
        offs = tl.arange(0, BLOCK)
        inside = offs < 16 if MASKED else offs < BLOCK
        tl.store(total_ptr + offs, tl.load(total_ptr + offs, mask=inside) + 1, mask=inside)

    with sanitize(all_configs=True) as checked:
        total = torch.empty(64)
        accumulate_kernel[(1,)](total)
    (finding,) = checked.findings
    assert finding.kind == "uninit_read"
    assert [c["BLOCK"] for c in finding.configs] == [16, 64]


def test_a_failing_configuration_is_named(tensors) -> None:
    @triton.autotune([config(48, True), config(32, True)], key=[])
    @triton.jit
    def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, MASKED: tl.constexpr):
        offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)

    x, out = tensors
    with sanitize(all_configs=True) as checked:
        launch(copy_kernel, x, out)
    (finding,) = checked.findings
    assert (finding.kind, finding.severity, block(finding)) == (
        *("config_failed", "warning"),
        48,
    )
    assert "power of 2" in finding.message
    assert torch.equal(x, out)


def test_the_first_error_is_raised_if_all_configurations_fail(tensors) -> None:
    x, total = tensors
    kernel = tuned(config(48, True), config(24, True))
    with sanitize(all_configs=True) as checked, pytest.raises(Exception, match="power of 2"):
        launch(kernel, x, total)
    (finding,) = checked.findings
    assert [c["BLOCK"] for c in finding.configs] == [48, 24]
    assert torch.equal(total, torch.ones(100))
