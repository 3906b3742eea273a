"""Rules as a Python module that needs nothing of ours: readable, to be kept beside the kernel.

Owns the text. Must not know how rules are made.
"""

from __future__ import annotations

from collections.abc import Sequence

from ttools.tuner.rules.features import DEVICE, DTYPES, Feature
from ttools.tuner.rules.synthesis import Leaf, Rules, Split, Tree

_DTYPES_OF = '''
def _dtypes(args):
    """The element types of the tensors, in the order of the parameters."""
    return [str(v.dtype).removeprefix("torch.") for v in args.values() if hasattr(v, "dtype")]
'''
_DEVICE_OF = '''
def _device():
    """The name of the GPU; `cpu` without one."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
'''


def module_text(rules: Sequence[Rules]) -> str:
    """A module with a decorator for each kernel: `@KERNEL_heuristics` above `@triton.jit`."""
    used = {name.partition("[")[0] for each in rules for f in _asked(each.tree) for name in f.names}
    parts = [
        '"""Configurations chosen by rules that `ttools tune rules` made of measurements."""\n',
        "import triton\n",
        _DTYPES_OF if DTYPES in used else "",
        _DEVICE_OF if DEVICE in used else "",
        *(_kernel(each) for each in rules),
    ]
    return "\n".join(filter(None, parts))


def _asked(tree: Tree) -> list[Feature]:
    if isinstance(tree, Leaf):
        return []
    return [tree.feature, *_asked(tree.below), *_asked(tree.above)]


def _kernel(rules: Rules) -> str:
    name = rules.kernel
    configs = "\n".join(f"    {dict(values)!r}," for values in rules.configs)
    devices = "; ".join(rules.devices)
    own = rules.regret
    held = "Too few to leave one out."
    if own.held_out_mean is not None and own.held_out_worst is not None:
        held = (
            f"For shapes that were left out: {own.held_out_mean:.1%} on average, "
            f"{own.held_out_worst:.1%} at worst."
        )
    return f'''
{name.upper()}_CONFIGS = (
{configs}
)


def choose_for_{name}(args):
    """Made of {rules.tunings} tunings on {devices}.

    Slower than the best one measured: {own.mean:.1%} on average, {own.worst:.1%} at worst.
    {held}
    """
{_statements(rules.tree, f"{name.upper()}_CONFIGS", "    ")}

{name}_heuristics = triton.heuristics(
    {{
        name: lambda args, name=name: choose_for_{name}(args)[name]
        for name in {name.upper()}_CONFIGS[0]
    }}
)
'''


def _statements(tree: Tree, configs: str, indent: str) -> str:
    if isinstance(tree, Leaf):
        return f"{indent}return {configs}[{tree.config}]\n"
    inner = _statements(tree.below, configs, indent + "    ")
    return f"{indent}if {_question(tree)}:\n{inner}{_statements(tree.above, configs, indent)}"


def _question(split: Split) -> str:
    feature = split.feature
    if feature.kind == "equals":
        return f"{_value(feature.names[0])} != {feature.value!r}"
    text = " * ".join(_value(name) for name in feature.names)
    return f"{text} <= {int(split.threshold):_}"


def _value(name: str) -> str:
    if name == DEVICE:
        return "_device()"
    if name.startswith(f"{DTYPES}["):
        return f"_dtypes(args){name.removeprefix(DTYPES)}"
    return f'args["{name}"]'
