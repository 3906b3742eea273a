"""The libraries whose tests can run: their test files, selected cases, and options.

A suite adapts the tests of a library to a machine with two processors and no GPU: it limits sizes,
sets the properties of the device map, and leaves out cases that cannot run on any CPU engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.libraries.sampling import Selection

_SEVERAL_GPUS = "spawns a process for each of several GPUs"


@dataclass(frozen=True, kw_only=True)
class Suite:
    """The tests of a library.

    Attributes:
        title: Name of the library.
        folder: Folder of the test files in a checkout.
        files: Names of test files without `.py`, or `NAME::CASE` for a single case of a file.
        packages: Distributions whose versions are reported.
        selection: Cases that run.
        device_map: Device map for tensors on the GPU.
        environment: Additional environment variables.
        arguments: Further arguments of pytest.
        imports: Folders of the checkout to import from, besides its root.
    """

    title: str
    folder: str
    files: tuple[str, ...]
    packages: tuple[str, ...] = ()
    selection: Selection = field(default_factory=Selection)
    device_map: str = "cuda=cpu"
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()

    def paths(self, checkout: Path, only: Sequence[str]) -> list[tuple[str, Path]]:
        """Return the path of each named test file, or of all `files` if no names are given."""
        return [(name, checkout / self.folder / f"{name}.py") for name in only or self.files]


SUITES = {
    "liger": Suite(
        title="Liger-Kernel",
        folder="test/transformers",
        files=(
            *("test_rms_norm", "test_layer_norm", "test_group_norm", "test_swiglu", "test_geglu"),
            *("test_rope", "test_cross_entropy", "test_fused_linear_cross_entropy", "test_kl_div"),
            *("test_jsd", "test_softmax", "test_sparsemax", "test_dyt"),
        ),
        packages=("transformers",),
        selection=Selection(left_out={"dtensor": _SEVERAL_GPUS}),
    ),
    "liger-new": Suite(
        title="Liger-Kernel, newer operators",
        folder="test/transformers",
        files=(
            *("test_mhc", "test_grpo_loss", "test_tvd", "test_multi_token_attention"),
            *("test_poly_norm", "test_relu_squared", "test_fused_add_rms_norm", "test_attn_res"),
            *("test_embedding", "test_llama4_rope", "test_qwen2vl_mrope", "test_fused_linear_jsd"),
            *("test_modulated_rms_norm", "test_tiled_mlp", "test_fused_neighborhood_attention"),
        ),
        packages=("transformers",),
        selection=Selection(
            sample=2,
            smallest=True,
            at_most={"T": 300, "V": 3000},
            left_out={"dtensor": _SEVERAL_GPUS},
        ),
    ),
    "helion": Suite(
        title="Helion",
        folder="test",
        files=(
            *("test_views", "test_masking", "test_broadcasting", "test_closures", "test_constexpr"),
            *("test_control_flow", "test_grid", "test_indexing", "test_loops", "test_generate_ast"),
            *("test_associative_scan", "test_atomic_ops", "test_reduce", "test_reductions"),
            *("test_matmul", "test_dot", "test_misc", "test_specialize", "test_random", "test_rng"),
            *("test_inline_triton", "test_triton_kernel", "test_inline_asm_elementwise"),
            *("test_jagged_tile", "test_stack_tensor", "test_unroll_tuples", "test_zero_size"),
            *("test_persistent_kernels", "test_tensor_descriptor", "test_eviction_policy"),
            *("test_cache_modifier", "test_barrier", "test_epilogue_subtiling", "test_autodiff"),
            *("test_register_tunable", "test_type_propagation", "test_errors", "test_examples"),
            *("test_custom_op", "test_graph_module", "test_debug_utils", "test_print"),
            *("test_quantized_ops", "test_int64_indexing", "test_ref_eager", "test_torch_compile"),
        ),
        packages=("filecheck", "expecttest"),
        selection=Selection(
            left_out={
                "test_view_blocksize_constexpr$": "stores past the end of its result",
                "test_config_flatten_issue": "stores past the end of its result",
                "test_to_triton_code_optional_config": "needs the search, which is switched off",
            }
        ),
        device_map="cuda=cpu,capability=9.0,sms=132",
        environment={"HELION_AUTOTUNE_EFFORT": "none"},
    ),
    "fla": Suite(
        title="flash-linear-attention",
        folder="tests/ops",
        files=(
            *("test_attn", "test_attn_sink", "test_attnres", "test_based", "test_comba"),
            *("test_delta", "test_delta_product", "test_deltaformer", "test_dplr_delta"),
            *("test_forgetting_attn", "test_gdn", "test_gdn2", "test_gdn_kernels", "test_gdp"),
            *("test_gla", "test_gsa", "test_hgrn", "test_iplr_delta", "test_kda"),
            *("test_lightning_attn", "test_linear_attn", "test_log_linear_attn", "test_mesa"),
            *("test_moba", "test_nsa", "test_oja", "test_parallax", "test_path_attn"),
            *("test_precond_gated_delta", "test_precond_kda", "test_retention", "test_rwkv6"),
            *("test_rwkv7", "test_simple_gla", "test_solve_tril", "test_titans", "test_ttt"),
            "test_wall_attn",
        ),
        packages=("einops",),
        selection=Selection(
            sample=1,
            smallest=True,
            at_most={"T": 256, "B": 2, "H": 4, "HQ": 16, "HV": 8, "D": 64, "cu_seqlens": 256},
            known_keys=True,
        ),
    ),
    "conch": Suite(
        title="conch-triton-kernels",
        folder="tests",
        files=(
            *("bev_pool_test", "copy_blocks_test", "dequantize_blockwise_test"),
            *("fp8_quant_kernels_test", "gelu_tanh_and_mul_test", "gemma_rms_norm_test"),
            *("int8_quant_kernels_test", "mixed_precision_gemm_test", "nms_test"),
            *("paged_attention_test", "quantize_blockwise_test", "reshape_and_cache_test"),
            *("rms_norm_test", "rotary_embedding_test", "scaled_gemm_test", "silu_and_mul_test"),
            *("varlen_attention_test", "voxelization_test"),
        ),
        selection=Selection(sample=8),
        device_map="cuda=cpu,capability=9.0,sms=132",
    ),
    "mamba": Suite(
        title="mamba",
        folder="tests/ops/triton",
        files=("test_layernorm_gated", "test_selective_state_update", "test_ssd"),
        packages=("transformers", "einops"),
        selection=Selection(
            sample=8,
            at_most={"batch": 3, "seqlen": 50, "d": 512, "dim": 512},
            known_keys=True,
        ),
    ),
    "hstu": Suite(
        title="generative-recommenders (HSTU)",
        folder="generative_recommenders/ops/tests",
        files=("layer_norm_test", "position_test", "jagged_tensors_test", "mm_test"),
        packages=("hypothesis",),
        selection=Selection(
            at_most={
                "max_examples": 3,
                "N": 300,
                "D": 256,
                "M": 100,
                "K": 100,
                "batch_size": 4,
                "max_seq_len": 50,
                "max_len_a": 30,
                "max_len_b": 30,
            },
            known_keys=True,
        ),
    ),
    "gemlite": Suite(
        title="gemlite",
        folder="tests",
        files=("test_gemlitelineartriton", "test_mxfp"),
        selection=Selection(at_most={"in_features": 512, "out_features": 256}, known_keys=True),
    ),
    "flag-gems-tests": Suite(
        title="FlagGems, its tests",
        folder="tests",
        files=(
            *("test_unary_pointwise_ops", "test_binary_pointwise_ops", "test_reduction_ops"),
            *("test_general_reduction_ops", "test_norm_ops", "test_blas_ops", "test_shape_utils"),
            *("test_special_ops", "test_tensor_constructor_ops", "test_distribution_ops"),
            *("test_attention_ops", "test_convolution_ops", "test_pointwise_dynamic", "test_quant"),
            *("test_libentry", "test_pointwise_type_promotion", "test_tensor_wrapper"),
        ),
        packages=("flag-gems",),
        selection=Selection(
            sample=1,
            left_out={"test_index_put_acc.*shape0": "has a tensor of 2^28 elements"},
        ),
        environment={"GEMS_VENDOR": "nvidia"},
        arguments=("--mode", "quick", "--ref", "cpu"),
    ),
    "vllm": Suite(
        title="vLLM",
        folder="tests",
        files=(
            *("lora/test_punica_ops", "lora/test_fused_moe_lora_kernel"),
            *("kernels/attention/test_prefix_prefill", "kernels/attention/test_lightning_attn"),
            "kernels/attention/test_triton_decode_attention",
            "kernels/attention/test_triton_prefill_attention",
            "kernels/attention/test_triton_unified_attention",
            "kernels/attention/test_merge_attn_states",
            *("kernels/mamba/test_mamba_ssm_ssd", "kernels/mamba/test_mamba_ssm"),
            *("kernels/mamba/test_causal_conv1d", "kernels/test_fla_layernorm_guard"),
            "kernels/test_fused_recurrent_packed_decode",
            *("kernels/moe/test_count_expert_num_tokens", "kernels/moe/test_batched_moe"),
            "kernels/quantization/test_awq_triton",
            "kernels/quantization/test_triton_scaled_mm",
        ),
        packages=("transformers",),
        selection=Selection(
            sample=4,
            smallest=True,
            at_most={"MAX_SEQ_LEN": 128, "MAX_CTX_LEN": 128, "BS": 3, "seq_len": 256},
            known_keys=True,
        ),
        device_map="cuda=cpu,capability=9.0,sms=132",
        # vLLM disables Triton if there is no GPU driver, unless this variable hides all GPUs.
        environment={"CUDA_VISIBLE_DEVICES": ""},
        arguments=("-p", "tools.libraries.without_vllm_binaries"),
    ),
    "sglang": Suite(
        title="SGLang",
        folder="test",
        files=(
            "registered/attention/test_triton_attention_kernels",
            *(
                "registered/attention/test_create_kvindices",
                "registered/attention/test_kda_kernels",
            ),
            "registered/attention/test_chunk_gated_delta_rule",
            "registered/attention/test_fused_fp8_kv_write",
            "registered/attention/test_trtllm_mha_page_table",
            "registered/kernels/test_boundary_kv_fix_kernels",
            "registered/kernels/test_dsa_transform_index",
            *("registered/kernels/test_fused_op", "registered/kernels/test_gather_spec_extras"),
            "registered/kernels/test_gemma4_fused_routing",
            *("registered/kernels/test_sigmoid_gate_mul", "registered/kernels/test_spec_topk1"),
            "registered/kernels/test_vocab_parallel_embedding",
            "registered/unit/constrained/test_token_filter_ops",
            "registered/unit/layers/test_mamba_state_scatter_triton",
            "registered/layers/mamba/test_causal_conv1d",
            "registered/layers/mamba/test_mamba_ssm",
            "registered/layers/mamba/test_mamba_ssm_ssd",
            "registered/layers/test_fla_layernorm_guard",
            *("registered/moe/test_fused_moe", "registered/moe/test_triton_fused_moe"),
            "registered/moe/test_triton_moe_channel_fp8_kernel",
            *("registered/quant/test_fp8_kernel", "registered/quant/test_int8_kernel"),
            *("registered/quant/test_fp8_utils", "registered/quant/test_block_int8"),
            *("registered/quant/test_triton_scaled_mm", "registered/quant/test_awq_dequant"),
            "registered/unit/mem_cache/test_mamba_unittest",
            "registered/unit/mem_cache/test_swa_unittest",
            "registered/unit/mem_cache/test_triton_kernel_layout",
            *("registered/lora/test_chunked_sgmv_backend", "manual/lora/test_lora_ops"),
            "manual/test_triton_moe_wna16",
            "manual/layers/attention/dsa/test_act_quant_triton",
            "manual/layers/attention/dsa/test_index_buf_accessor",
            "registered/spec/utils/test_build_eagle_tree",
            *("manual/quant/test_block_fp8", "manual/quant/test_custom_ops"),
            "manual/attention/test_prefix_chunk_info",
        ),
        packages=("transformers",),
        selection=Selection(
            sample=6,
            smallest=True,
            at_most={"seq_len": 128, "M": 128, "N": 256, "K": 256, "NUM_TOKENS": 64, "m": 64},
            known_keys=True,
        ),
        device_map="cuda=cpu,capability=9.0,sms=132",
        environment={"SGLANG_TEST_MAX_RETRY": "0"},
        arguments=("-p", "tools.libraries.without_sglang_binaries"),
        imports=("python",),
    ),
    "torchao": Suite(
        title="torchao",
        folder="test",
        files=(
            "prototype/blockwise_fp8_training/test_blockwise_kernels",
            "prototype/blockwise_fp8_training/test_blockwise_linear",
            "prototype/blockwise_fp8_inference/test_blockwise",
            *("prototype/test_quantized_training", "prototype/mx_formats/test_kernels"),
            *("prototype/moe_training/test_kernels", "prototype/moe_training/ep/test_kernels"),
            "prototype/moe_training/test_fp8_blockwise_grouped_mm",
            "prototype/moe_training/nvfp4_training/test_group_rht_quantize_row_col_triton",
            "prototype/moe_training/nvfp4_training/test_group_weight_amax",
            "prototype/moe_training/nvfp4_training/test_group_quantize_2d_triton",
            "prototype/moe_training/nvfp4_training/test_group_hadamard_amax_triton",
            "prototype/moe_training/nvfp4_training/test_quantize_2d",
            "prototype/moe_training/nvfp4_training/test_hadamard_amax",
            "prototype/moe_training/nvfp4_training/test_hadamard_quantize_row_col",
            "quantization/quantize_/workflows/float8/test_float8_tensor",
            "quantization/quantize_/workflows/int8/test_int8_tensor",
        ),
        packages=("parameterized",),
        selection=Selection(
            sample=3,
            smallest=True,
            at_most={"M": 256, "N": 256, "K": 256, "m": 256, "n": 256, "k": 256},
            left_out={"large_tensor": "takes more than 4 GiB"},
            known_keys=True,
        ),
        # Kernels of MX formats require a Blackwell GPU.
        device_map="cuda=cpu,capability=10.0,sms=148",
    ),
}
