"""The private interfaces of Triton that ttools uses, and the differences between its versions.

Triton 3.6, 3.7, 3.8 and 3.9 are supported. Nothing is imported from Triton before it is needed, so
this package may be imported while `import triton` is still running.
"""

from __future__ import annotations

from ttools.core.triton_versions.allocation import AllocatedMemory, allocate_memory
from ttools.core.triton_versions.assembler_output import assembler_output, spill_traffic
from ttools.core.triton_versions.changed_stages import changed_ttir
from ttools.core.triton_versions.compile_times import (
    CompileTimes,
    always_compiles,
    disk_cache_folder,
    observe_compile_times,
    without_disk_cache,
)
from ttools.core.triton_versions.compiled import (
    CompiledKernelFacts,
    compiled_kernel_class,
    compiled_kernel_facts,
    loaded_resources,
    specialised_source,
)
from ttools.core.triton_versions.front_end import (
    CompiledSource,
    Signature,
    each_visited_node,
    fp_fusion,
    kernel_being_compiled,
    launched_function,
    libdevice_module,
    load_ttir,
    print_operands,
    run_required_passes,
    run_ttir_passes,
    source_file,
)
from ttools.core.triton_versions.functions import (
    autotuner_class,
    autotuning_listener,
    constexpr_function_class,
    has_allocator,
    heuristic_names,
    heuristics_class,
    innermost_jit_function,
    interpreted_function_class,
    is_triton_kernel,
    jit_function_class,
    kernel_name,
    prints_autotuning,
    restored_arguments,
    set_benchmark,
    take_over_triton_interpret,
)
from ttools.core.triton_versions.instrumentation import (
    allocate_by_torch,
    gsan_memory,
    instrumentation_modes,
)
from ttools.core.triton_versions.kernel_scopes import (
    LINE_SCOPE,
    kernel_scopes,
    missing_kernel_scopes,
)
from ttools.core.triton_versions.language import (
    argument_type,
    begin_function,
    combine_function,
    compilation_error,
    is_type_mismatch,
    language_type,
    mlir_builder,
    mlir_context,
    semantic_class,
    static_assertion_failure,
)
from ttools.core.triton_versions.launching import (
    active_driver,
    descriptor_block,
    descriptor_types,
    descriptor_values,
    driver_config,
    is_descriptor,
    launch_metadata,
)
from ttools.core.triton_versions.lowering import lower_ttgir
from ttools.core.triton_versions.rebuilding import (
    plain_autotuner,
    rebuilding,
    rebuilds,
)
from ttools.core.triton_versions.source_key import (
    keep_files_apart,
    kernel_ast_source,
)
from ttools.core.triton_versions.staged import StagedCompilation, begin_compilation
from ttools.core.triton_versions.untrusted_ttir import read_foreign_ttir, refuse_damaged_ttir
from ttools.core.triton_versions.version import (
    installed_triton,
    triton_version,
)
from ttools.core.triton_versions.warm_up import (
    build_driver_module,
    build_launchers,
    build_one_at_a_time,
    hash_triton,
    import_argument_types,
    load_compiler,
    reports_leaks,
    triton_file,
    use_hash,
)
