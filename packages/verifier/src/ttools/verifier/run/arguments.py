"""Finds forbidden changes that a call makes to arguments.

Arguments that the candidate may not change must keep their elements and their shape, and must not
be stored to. No call may write between the elements of a view.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ttools.verifier.cases.tensors import TensorImage, elements, storage_bytes, tensor_of
from ttools.verifier.oracle.comparison import Mismatch
from ttools.verifier.workers.results import flat


def changed_arguments(
    sent: dict[str, Any], answer: dict[str, Any], inplace: list[str]
) -> list[Mismatch]:
    """Return the forbidden changes that a call makes to arguments and to settings of torch.

    Args:
        sent: Arguments before the call.
        answer: Answer of the candidate's process, with the storages after the call.
        inplace: Names of the arguments that may be changed.
    """
    problems = []
    may_change = [sent[key] for key in inplace if key in sent]
    for key, value in sent.items():
        images, stores = flat(value, key), flat(answer["arguments"][key], key)
        for (name, image), (_, data) in zip(images, stores, strict=True):
            if isinstance(image, TensorImage):
                fixed = not any(value is argument for argument in may_change)
                problems += _changed(name, image, data, answer, fixed=fixed)
    effect = {"effect": True}
    for text in answer.get("attached", ()):
        problems.append(Mismatch("input_modified", f"attaches {text}", effect))
    for text in answer.get("settings", ()):
        problems.append(Mismatch("stale_state", f"changes {text}", effect))
    return problems


def changed_seeds(answer: dict[str, Any], right: dict[str, Any]) -> list[Mismatch]:
    """Return failures for the generators that a call seeds; none if the reference seeds one.

    The reference may seed the generator of the CPU where the candidate seeds that of a GPU.

    Args:
        answer: Answer of the candidate's process.
        right: Answer of the reference's process.
    """
    if right.get("reseeded"):
        return []
    return [
        Mismatch("stale_state", f"seeds the default generator of `{name}`", {"effect": True})
        for name in answer.get("reseeded", ())
    ]


def _changed(
    name: str, image: TensorImage, data: bytes, answer: dict[str, Any], *, fixed: bool
) -> list[Mismatch]:
    if fixed and name in answer["reshaped"]:
        return [Mismatch("input_modified", f"changes the shape or the memory of `{name}`")]
    if name in answer["reshaped"]:
        return []
    if data == image.data:
        if fixed and name in answer["changed"]:
            detail = f"a torch operator changes `{name}`, although its contents are restored later"
            return [Mismatch("input_modified", detail, {"touched": True})]
        if fixed and name in answer["stored"]:
            kernel = answer["stored"][name]
            detail = f"`{kernel}` stores to `{name}`, although its contents stay the same"
            return [Mismatch("input_modified", detail, {"stored": True})]
        return []
    if fixed:
        now = elements(image, data)
        moved = _differ(elements(image), now)
        if moved:
            detail = f"changes {moved} of {now.numel()} elements of `{name}`"
            return [Mismatch("input_modified", detail)]
    if _with_elements(image, elements(image, data)) != data:
        detail = f"writes between the elements of `{name}`, which is a view"
        return [Mismatch("memory", detail)]
    return []


def _differ(before: torch.Tensor, now: torch.Tensor) -> int:
    """Return the number of elements whose bytes differ."""
    item = before.element_size()
    one, other = (
        (tensor.reshape(-1).view(torch.uint8).reshape(-1, item) for tensor in (before, now))
        if before.numel()
        else (torch.empty(0, 1, device="cpu"), torch.empty(0, 1, device="cpu"))
    )
    return int((one != other).any(dim=1).sum())


def _with_elements(image: TensorImage, now: torch.Tensor) -> bytes:
    """Return the bytes of a storage as it was sent, but with `now` as the tensor's elements."""
    if 0 in image.spec.strides:
        return storage_bytes(now) if not now.numel() else _expanded_bytes(image, now)
    tensor = tensor_of(replace(image, requires_grad=False))
    tensor.copy_(now)
    return storage_bytes(tensor)


def _expanded_bytes(image: TensorImage, now: torch.Tensor) -> bytes:
    first = now[tuple(slice(0, 1) if s == 0 else slice(None) for s in image.spec.strides)]
    return storage_bytes(first.contiguous().clone())
