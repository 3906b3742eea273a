"""Attributes of other people's classes and modules that are replaced for a while.

Whatever ttools puts in the place of something of Triton's, torch's or Python's is installed by
`Patches`. Replacements of one attribute form a chain: each is made of what the one beneath it left
there. They may be undone in any order, for those above an undone one are made anew, so that nothing
is called after its end and nothing costs more per call than the replacement itself.

Code that is not ours may replace the same attributes. What it puts over ours is never taken away:
undoing ours beneath it leaves the attribute alone, installing goes on top of it. A function of ours
that was undone beneath a stranger's is still called by it. If the stranger then puts that function
back, the next installation or undoing on the attribute removes it.

Must not know what is replaced, nor why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

#: Makes what is put in place of the attribute from what was there.
Make = Callable[[Any], Any]

_ABSENT = object()


class Patches:
    """Replaced attributes that are undone together; a context manager.

    Entering it again, also from other threads, only counts: the last exit undoes everything. A
    failing installation undoes what was installed before it.

    Args:
        install: called with the object when it is first entered, to fill it.

    Examples:
        >>> with Patches() as patches:
        ...     patches.wrap(JITFunction, "run", lambda run: logged(run))
    """

    def __init__(self, install: Callable[[Patches], object] | None = None) -> None:
        self._install = install
        self._lock = threading.RLock()
        self._entered = 0
        self._installed = ExitStack()

    def __enter__(self) -> Patches:
        with self._lock:
            if self._entered == 0 and self._install is not None:
                try:
                    self._install(self)
                except BaseException:
                    self.undo()
                    raise
            self._entered += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._entered -= 1
            if self._entered == 0:
                self.undo()

    def wrap(self, owner: Any, name: str, make: Make) -> None:
        """Replaces an attribute by what `make` makes of it.

        Args:
            owner: a class, module or other object.
            name: of the attribute, which may be inherited.
            make: called with what `getattr(owner, name)` gives without this replacement, again
                whenever that changes because a replacement beneath is undone.

        Raises:
            AttributeError: there is no such attribute.
        """
        getattr(owner, name)
        self._add(owner, name, make)

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Sets an attribute, which need not exist, whatever is beneath."""
        self._add(owner, name, lambda _: value)

    def callback(self, undo: Callable[[], object]) -> None:
        """Has something that is no attribute undone with the rest, in turn."""
        self._installed.callback(undo)

    def enter(self, context: AbstractContextManager[object]) -> None:
        """Enters a context, and leaves it with the rest, in turn."""
        self._installed.enter_context(context)

    def undo(self) -> None:
        """Undoes everything, latest first, however often it was entered."""
        self._installed.pop_all().close()

    def _add(self, owner: Any, name: str, make: Make) -> None:
        layer = _Layer(make)
        with _lock:
            key = id(owner), name
            attribute = _attributes.get(key)
            if attribute is None:
                attribute = _attributes[key] = _Attribute(owner, name)
            try:
                attribute.add(layer)
            finally:
                _forget_unused(attribute)
        self._installed.callback(_remove, attribute, layer)


def _remove(attribute: _Attribute, layer: _Layer) -> None:
    with _lock:
        attribute.remove(layer)
        _forget_unused(attribute)


def _forget_unused(attribute: _Attribute) -> None:
    if attribute.is_unused:
        del _attributes[id(attribute.owner), attribute.name]


@dataclass(eq=False)
class _Layer:
    """A replacement of an attribute.

    Attributes:
        make: makes it of what is beneath.
        value: what it made, as the owner's dictionary holds it.
        is_ours: whether it was installed here.
        covers: of a stranger's, the value of ours that it was put over and that may come back.
    """

    make: Make
    value: Any = None
    is_ours: bool = True
    covers: Any = _ABSENT


class _Attribute:
    """An attribute that has replacements, ours and those of strangers.

    Args:
        owner: a class, module or other object; kept, so that its `id` stays its own.
    """

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name
        self._inherited = getattr(owner, name, None)
        self._base = self._current = self._present()
        self._layers: list[_Layer] = []

    @property
    def is_unused(self) -> bool:
        """Whether nothing need be known of it any more."""
        return not any(layer.is_ours or layer.covers is not _ABSENT for layer in self._layers)

    def add(self, layer: _Layer) -> None:
        self._notice_strangers()
        self._layers.append(layer)
        try:
            self._make_from(len(self._layers) - 1)
        except BaseException:
            self._layers.pop()
            raise

    def remove(self, layer: _Layer) -> None:
        self._notice_strangers()
        index = self._layers.index(layer)
        del self._layers[index]
        self._make_from(index)

    def _notice_strangers(self) -> None:
        present = self._present()
        if present is self._current:
            return
        for index, layer in enumerate(self._layers):
            if layer.covers is present is not _ABSENT:
                # The stranger has put back what it found; those above it went before.
                self._layers[index:] = [each for each in self._layers[index:] if each.is_ours]
                self._make_from(index)
                return
        covers = self._current if self._layers and self._layers[-1].is_ours else _ABSENT
        self._layers.append(_Layer(lambda _: present, present, is_ours=False, covers=covers))
        self._current = present

    def _make_from(self, index: int) -> None:
        """Makes the layers from `index` on anew and puts the topmost in place."""
        value = self._layers[index - 1].value if index else self._base
        for layer in self._layers[index:]:
            value = layer.value = layer.make(self._seen(value))
        if value is not self._present():
            if value is _ABSENT:
                delattr(self.owner, self.name)
            else:
                setattr(self.owner, self.name, value)
        self._current = value

    def _present(self) -> Any:
        try:
            return vars(self.owner).get(self.name, _ABSENT)
        except TypeError:  # an object without a dictionary
            return getattr(self.owner, self.name, _ABSENT)

    def _seen(self, value: Any) -> Any:
        """What `getattr` gives where the owner's dictionary holds `value`."""
        if value is _ABSENT:
            return self._inherited
        if isinstance(self.owner, type) and hasattr(type(value), "__get__"):
            return type(value).__get__(value, None, self.owner)
        return value


_lock = threading.RLock()
#: By `id` of the owner and name: those that have replacements now.
_attributes: dict[tuple[int, str], _Attribute] = {}
