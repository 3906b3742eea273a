"""The texts of written tests: what all have, and how each kind shows its failure.

Values show most failures. Who computed a result is shown by torch's modes or by leaving launches
out, what lies outside of tensors and which orders are not determined only by ttools' checks.
"""

from __future__ import annotations

#: Every file begins with it.
HEAD = '''"""$title
$how"""

import importlib.util
import os
import sys
$environment
import torch

DEVICE = $device


def load(file, name):
    """A function of a file."""
    spec = importlib.util.spec_from_file_location("judged", file)
    module = sys.modules["judged"] = importlib.util.module_from_spec(spec)
    with torch.device(DEVICE):  # for candidates that name none
        spec.loader.exec_module(module)
    for each in list(vars(module).values()):
        configs = getattr(each, "configs", None)
        if CONFIG is not None and isinstance(configs, list):
            each.configs = [configs[min(CONFIG, len(configs) - 1)]]
    found = module
    for part in name.split("."):
        found = getattr(found, part)
    return found


def tensor(dtype, shape, strides, offset, data, requires_grad):
    """A tensor with these bytes in its storage."""
    whole = torch.tensor(list(bytes.fromhex(data)), dtype=torch.uint8).to(DEVICE)
    found = torch.empty(0, dtype=getattr(torch, dtype), device=DEVICE)
    found.set_(whole.untyped_storage(), offset, shape, strides)
    return found.requires_grad_(requires_grad)


#: Of each call: whether it uses the tensors of the one before again ("address": new ones where
#: those were), and its arguments.
CALLS = [
$calls]
INPLACE = $inplace
#: Two arguments that are one tensor, or None.
SHARED = $shared
#: The number of the autotuners' configuration, or None for all.
CONFIG = $config


def calls():
    """The arguments of each call."""
    last = None
    for again, arguments in CALLS:
        if again:
            held = {key: at_address(last[key], again) for key in arguments}
            for key, value in arguments.items():
                if isinstance(value, torch.Tensor):
                    held[key].data.copy_(value)
                else:
                    held[key] = value
            arguments = held
        if SHARED:
            arguments[SHARED[1]] = arguments[SHARED[0]]
        yield arguments
        last = arguments


def at_address(value, again):
    if again != "address" or not isinstance(value, torch.Tensor):
        return value
    place = value.storage_offset(), value.shape, value.stride()
    found = torch.empty(0, dtype=value.dtype, device=DEVICE)
    return found.set_(value.untyped_storage(), *place).requires_grad_(value.requires_grad)


def copied(arguments):
    found = {
        key: value.detach().clone().requires_grad_(value.requires_grad)
        if isinstance(value, torch.Tensor)
        else value
        for key, value in arguments.items()
    }
    if SHARED:
        found[SHARED[1]] = found[SHARED[0]]
    return found


def parts(value):
    if isinstance(value, dict):
        value = list(value.values())
    return [p for e in value for p in parts(e)] if isinstance(value, (tuple, list)) else [value]


def compare(found, wanted):
    found, wanted = parts(found), parts(wanted)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted):
        if isinstance(other, torch.Tensor):
            assert one.shape == other.shape
            assert one.dtype == other.dtype
            narrow = other.dtype.itemsize == 1 and other.dtype.is_floating_point
            wide = {torch.float16: 4e-3, torch.bfloat16: 3e-2}.get(other.dtype, 1e-4)
            relative = 0.3 if narrow else wide
            exact = not other.dtype.is_floating_point
            if narrow:
                one, other = one.float(), other.float()
            torch.testing.assert_close(
                one, other, rtol=0 if exact else relative, atol=0 if exact else 1e-5, equal_nan=True
            )
        else:
            assert one == other


def called(function, arguments):
    """The results of a function in which new memory holds NaN until it is written."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with torch.device(DEVICE):
            return function(**arguments)
    finally:
        torch.use_deterministic_algorithms(False)


'''

VALUES = '''def bits(value):
    plain = value.detach().clone(memory_format=torch.contiguous_format)
    return plain.reshape(-1).view(torch.uint8)


def between(value):
    """The bytes of a storage, those of the tensor's own elements set to zero."""
    whole = torch.empty(0, dtype=torch.uint8, device=DEVICE)
    whole = whole.set_(value.untyped_storage()).clone()
    if 0 in value.stride():
        return whole
    own = torch.empty(0, dtype=value.dtype, device=DEVICE)
    place = value.storage_offset(), value.shape, value.stride()
    own.set_(whole.untyped_storage(), *place).zero_()
    return whole


def gradients(found, arguments):
    leaves = [e for e in arguments.values() if isinstance(e, torch.Tensor) and e.requires_grad]
    outputs = [e for e in parts(found) if isinstance(e, torch.Tensor) and e.requires_grad]
    if not leaves or not outputs:
        return []
    weights = [
        torch.cos(torch.arange(e.numel(), device=DEVICE) * 0.7 + 0.3).reshape(e.shape).to(e.dtype)
        for e in outputs
    ]
    weights = list(map(placed, weights))
    return list(torch.autograd.grad(outputs, leaves, weights, allow_unused=True))


def placed(weights):
    """What results are weighted by, not contiguous if that is what fails."""
    long = [axis for axis, size in enumerate(weights.shape) if size > 1]
    if $weights == "expanded" and long:
        return weights.narrow(long[0], 0, 1).expand(weights.shape)
    if $weights != "contiguous" and long:
        return torch.stack([weights, weights], -1)[..., 0]
    return weights


def owners(found, arguments):
    """By result, whether it shares memory with an argument, and whether it requires gradients."""
    own = {e.untyped_storage().data_ptr() for e in parts(arguments) if isinstance(e, torch.Tensor)}
    return [
        (e.numel() > 0 and e.untyped_storage().data_ptr() in own, e.requires_grad)
        for e in parts(found)
        if isinstance(e, torch.Tensor)
    ]


def test_$name():
    reference = load($reference)
    candidate = load($candidate)
    kept = []
    for arguments in calls():
        before, wanted_arguments = copied(arguments), copied(arguments)
        gaps = {k: between(v) for k, v in arguments.items() if isinstance(v, torch.Tensor)}
        wanted = reference(**wanted_arguments)
        found = called(candidate, arguments)
        compare(found, wanted)
        compare(gradients(found, arguments), gradients(wanted, wanted_arguments))
        pairs = zip(owners(found, arguments), owners(wanted, wanted_arguments))
        for (shares, grad), (may_share, needs_grad) in pairs:
            assert may_share or not shares, "a result shares memory with an argument"
            assert grad or not needs_grad, "a result requires no gradients"
        for key, value in before.items():
            if isinstance(value, torch.Tensor):
                if any(arguments[key] is arguments[each] for each in INPLACE):
                    compare(arguments[key], wanted_arguments[key])
                else:
                    assert value.shape == arguments[key].shape, f"{key} has another shape"
                    assert torch.equal(bits(value), bits(arguments[key])), f"{key} was changed"
                assert torch.equal(gaps[key], between(arguments[key])), f"{key}: written beside it"
        for result, copy in kept:
            assert torch.equal(bits(result), bits(copy)), "a later call changed a result"
        if not INPLACE:
            kept += [(e, e.detach().clone()) for e in parts(found) if isinstance(e, torch.Tensor)]
'''

LAUNCHES = """def test_$name(monkeypatch):
    reference = load($reference)
    candidate = load($candidate)
    from triton.runtime.jit import KernelInterface

    monkeypatch.setattr(KernelInterface, "__getitem__", lambda kernel, grid: lambda *a, **k: None)
    for arguments in calls():
        wanted = reference(**copied(arguments))
        found = called(candidate, arguments)
        try:
            compare(found, wanted)
        except AssertionError:
            return
    raise AssertionError("the results are right although no kernel ran")
"""

GIVEN = """def test_$name(monkeypatch):
    candidate = load($candidate)
    from triton.runtime.jit import KernelInterface

    given, met = [], set()
    launch = KernelInterface.__getitem__

    def watched(kernel, grid):
        def run(*args, **kwargs):
            for each in [*args, *kwargs.values()]:
                if isinstance(each, torch.Tensor) and each.data_ptr() not in met:
                    met.add(each.data_ptr())
                    given.append(each.detach().clone())
            return launch(kernel, grid)(*args, **kwargs)

        return run

    monkeypatch.setattr(KernelInterface, "__getitem__", watched)
    for arguments in calls():
        given.clear()
        met.clear()
        met.update(each.data_ptr() for each in parts(arguments) if isinstance(each, torch.Tensor))
        tensors = [each for each in parts(arguments) if isinstance(each, torch.Tensor)]
        for result in parts(called(candidate, arguments)):
            if isinstance(result, torch.Tensor) and result.unique().numel() > 1:
                is_copy = any(alike(each.to(result.dtype), result) for each in tensors)
                assert is_copy or not any(alike(each, result) for each in given), (
                    "a result was there before the first launch that got it"
                )


def alike(one, other):
    same = one.dtype == other.dtype and one.numel() == other.numel()
    return same and torch.equal(one.reshape(-1), other.reshape(-1))
"""

TOUCHED = """def test_$name(monkeypatch):
    candidate = load($candidate)
    from triton.runtime.jit import KernelInterface

    launch = KernelInterface.__getitem__
    looks = []

    def watched(kernel, grid):
        def run(*args, **kwargs):
            found = launch(kernel, grid)(*args, **kwargs)
            for look in looks:
                look()
            return found

        return run

    monkeypatch.setattr(KernelInterface, "__getitem__", watched)
    for arguments in calls():
        tensors = {k: v for k, v in arguments.items() if isinstance(v, torch.Tensor)}
        fixed = {
            key: (value, value.detach().nan_to_num(), value._version)
            for key, value in tensors.items()
            if key not in INPLACE
        }

        def look(fixed=fixed):
            for key, (value, before, version) in fixed.items():
                same = value._version == version and value.detach().nan_to_num().equal(before)
                assert same, f"{key} was changed, though it may be put back later"

        looks[:] = [look]
        called(candidate, arguments)
        look()
"""

OPERATOR = '''#: What torch is not to compute, and on fewer elements than which it may.
OPERATOR, LIMIT = $operator


def numel(value):
    return sum(each.numel() for each in parts(value) if isinstance(each, torch.Tensor))


class Operators(TorchDispatchMode):
    """Counts the elements that an operator meets, once in all for single ones."""

    def __init__(self):
        super().__init__()
        self.most = self.single = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.note(func._schema.name.partition("::")[2], [*args, result])
        return result

    def note(self, name, values):
        if name == OPERATOR:
            counts = [numel(each) for each in values]
            self.single += max(counts) == 1
            self.most = max(self.most, self.single, *counts)


class Functions(TorchFunctionMode):
    """What takes elements out of torch is no operator."""

    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.note(getattr(func, "__name__", ""), list(args) or [()])
        return func(*args, **(kwargs or {}))


def test_$name(monkeypatch):
    candidate = load($candidate)
    seen, run = Operators(), threading.Thread.run

    def watched(thread):
        with Operators() as own, Functions(own):
            run(thread)
        seen.most = max(seen.most, own.most)

    monkeypatch.setattr(threading.Thread, "run", watched)
    for arguments in calls():
        seen.most = seen.single = 0
        with seen, Functions(seen):
            called(candidate, arguments)
    assert seen.most < LIMIT, f"torch's `{OPERATOR}` meets {seen.most} elements"
'''

REPLACED = """REPLACED = $replaced


def test_$name():
    owner, name = importlib.import_module("torch"), None
    path = REPLACED.split(".")
    for length in range(len(path) - 1, 0, -1):
        try:
            owner = importlib.import_module(".".join(path[:length]))
            break
        except ImportError:
            continue
    for part in path[length:-1]:
        owner = getattr(owner, part)
    before = getattr(owner, path[-1])
    try:
        candidate = load($candidate)
        for arguments in calls():
            called(candidate, arguments)
        assert getattr(owner, path[-1]) is before, f"{REPLACED} was replaced"
    finally:
        setattr(owner, path[-1], before)
"""

#: Runs itself in a process of its own, where the engine and not Triton's interpreter has kernels.
CHECKED = """def test_$name():
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, os.path.abspath(__file__)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


$main
if __name__ == "__main__":
    main()
"""

CHECKS = """#: Kinds of findings that are this failure.
KINDS = $kinds


def main():
    from ttools.sanitizer import sanitize

    # All checks, memory that shows that it was not written, one program after the other.
    with sanitize(poison=True, threads=1, first_config=True) as run:
        candidate = load($candidate)
        for arguments in calls():
            try:
                candidate(**arguments)
            except Exception as error:  # what was found until then counts
                print(f"{type(error).__name__}: {error}")
    if any(each.kind in KINDS for each in run.findings):
        sys.exit(run.to("text"))


"""

ORDER = """def main():
    from ttools.interpreter import interpret

    reference = load($reference)
    for order in ("natural", $order):
        with interpret(order=order, seed=$order_seed, threads=1, first_config=True, dot="exact"):
            candidate = load($candidate)
            for arguments in calls():
                wanted = reference(**copied(arguments))
                compare(candidate(**arguments), wanted)


"""
