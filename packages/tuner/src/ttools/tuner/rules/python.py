"""Tuning rules as a self-contained, readable Python module, to be stored next to the kernel."""

from __future__ import annotations

from collections.abc import Sequence

from ttools.core.reports.report import counted
from ttools.tuner.rules.features import DEVICE, DTYPES, Feature
from ttools.tuner.rules.synthesis import KernelRules, Leaf, Split, Tree

_DTYPES_OF = '''
def _dtypes(args):
    """The element types of the tensors, in the order of the parameters."""
    return [str(v.dtype).removeprefix("torch.") for v in args.values() if hasattr(v, "dtype")]
'''
_DEVICE_OF = '''
def _device():
    """The name of the GPU, or `cpu` if there is none."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
'''
_MULTIPROCESSORS_OF = '''
def _multiprocessors():
    """The GPU's number of multiprocessors; without a GPU, that of the GPU that was measured."""
    import torch

    if not torch.cuda.is_available():
        return {measured}
    return torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count


def _tiles(*sizes_and_sides):
    return math.prod(math.ceil(size / side) for size, side in sizes_and_sides)
'''
_WAVES_OF = '''
def _waves(*sizes_and_sides):
    """The number of tiles that the busiest multiprocessor processes, one after the other."""
    return math.ceil(_tiles(*sizes_and_sides) / _multiprocessors())
'''
_FILL_OF = '''
def _fill(*sizes_and_sides):
    """The share of the multiprocessors that have a tile, on average over all waves."""
    tiles, count = _tiles(*sizes_and_sides), _multiprocessors()
    return tiles / (max(1, math.ceil(tiles / count)) * count)
'''


def module_text(rules: Sequence[KernelRules]) -> str:
    """Return a module that defines a decorator `@KERNEL_heuristics` for each kernel."""
    asked = [feature for kernel in rules for feature in _asked(kernel.tree)]
    used = {name.partition("[")[0] for feature in asked for name in feature.names}
    kinds = {feature.kind for feature in asked}
    on_tiles = not kinds.isdisjoint({"waves", "fill"})
    parts = [
        '"""Configurations chosen by rules that `ttools tune rules` derived from times."""\n',
        "import math\n\nimport triton\n" if on_tiles else "import triton\n",
        _DTYPES_OF if DTYPES in used else "",
        _DEVICE_OF if DEVICE in used else "",
        _MULTIPROCESSORS_OF.format(measured=_measured(rules)) if on_tiles else "",
        _WAVES_OF if "waves" in kinds else "",
        _FILL_OF if "fill" in kinds else "",
        *(_kernel(kernel) for kernel in rules),
    ]
    return "\n".join(filter(None, parts))


def _measured(rules: Sequence[KernelRules]) -> int:
    counts = [kernel.multiprocessors for kernel in rules if kernel.multiprocessors is not None]
    return counts[0] if counts else 1


def _asked(tree: Tree) -> list[Feature]:
    if isinstance(tree, Split):
        return [tree.feature, *_asked(tree.yes), *_asked(tree.no)]
    return []


def _kernel(rules: KernelRules) -> str:
    name = rules.kernel
    configs = "\n".join(f"    {dict(values)!r}," for values in rules.configs)
    devices = "; ".join(rules.devices)
    own = rules.regret
    held_out = "There were too few tunings to leave one out."
    if own.held_out_mean is not None and own.held_out_worst is not None:
        held_out = (
            f"For shapes left out of the fit: {own.held_out_mean:.1%} on average, "
            f"{own.held_out_worst:.1%} at worst."
        )
    return f'''
{name.upper()}_CONFIGS = (
{configs}
)


def choose_for_{name}(args):
    """Derived from {counted(rules.tunings, "tuning")} on {devices}.

    Slower than the best configuration: {own.mean:.1%} on average, {own.worst:.1%} at worst.
    {held_out}{_ranges(rules)}
    """
{_statements(rules.tree, f"{name.upper()}_CONFIGS", "    ")}

{name}_heuristics = triton.heuristics(
    {{
        name: lambda args, name=name: choose_for_{name}(args)[name]
        for name in {name.upper()}_CONFIGS[0]
    }}
)
'''


def _ranges(rules: KernelRules) -> str:
    ranges = [
        f"{name} {least:,}" if least == most else f"{name} from {least:,} to {most:,}"
        for name, (least, most) in rules.ranges.items()
    ]
    return f"\n    Measured: {', '.join(ranges)}." if ranges else ""


def _statements(tree: Tree, configs: str, indent: str) -> str:
    if isinstance(tree, Split):
        inner = _statements(tree.yes, configs, indent + "    ")
        return f"{indent}if {_question(tree)}:\n{inner}{_statements(tree.no, configs, indent)}"
    assert isinstance(tree, Leaf)
    return f"{indent}return {configs}[{tree.config}]\n"


def _question(split: Split) -> str:
    feature = split.feature
    if feature.kind == "equals":
        return f"{_value(feature.names[0])} != {feature.value!r}"
    if feature.kind in ("waves", "fill"):
        pairs = zip(feature.names, feature.sides, strict=True)
        sides = ", ".join(f"({_value(name)}, {side})" for name, side in pairs)
        limit = split.at_most if feature.kind == "fill" else int(split.at_most)
        return f"_{feature.kind}({sides}) <= {limit}"
    text = " * ".join(_value(name) for name in feature.names)
    return f"{text} <= {int(split.at_most):_}"


def _value(name: str) -> str:
    if name == DEVICE:
        return "_device()"
    if name.startswith(f"{DTYPES}["):
        return f"_dtypes(args){name.removeprefix(DTYPES)}"
    return f'args["{name}"]'
