"""Tests of replaced attributes: any order of undoing, third-party patches, failures and threads.

Every function under test returns the list of labels of the wrappers through which the call went,
outermost first, followed by the name of the original.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)

from ttools.core import patches as implementation
from ttools.core.patches import Patches


class Base:
    """A class with the method that `Owner` inherits."""

    def inherited(self) -> list[str]:
        """Return the labels of an inherited method."""
        return ["inherited"]


class Owner(Base):
    """A class with an attribute of every kind."""

    def method(self) -> list[str]:
        """Return the labels of a method."""
        return ["method"]

    @staticmethod
    def static() -> list[str]:
        """Return the labels of a static method."""
        return ["static"]

    @property
    def attribute(self) -> list[str]:
        """Return the labels of a property."""
        return ["attribute"]


NAMES = ("method", "inherited", "static", "function", "attribute")


def new_module() -> Any:
    """Create a module with a function."""
    module: Any = ModuleType("patched")
    module.function = lambda: ["function"]
    return module


def wrapper(name: str, label: str) -> Callable[[Any], Any]:
    """Return a function that wraps an attribute so that it adds a label before the other labels."""

    def make(original: Any) -> Any:
        if name == "attribute":
            return property(lambda self: [label, *original.fget(self)])
        if name == "static":
            return staticmethod(lambda: [label, *original()])
        if name == "function":
            return lambda: [label, *original()]
        return lambda self: [label, *original(self)]

    return make


class Model(RuleBasedStateMachine):
    """Installs and undoes patches in any order; calls pass through installed ones, latest first.

    `shared` is a patch that several parties enter and leave; it is installed while anyone uses it.
    """

    installed = Bundle("installed")

    @initialize()
    def begin(self) -> None:
        self.module = new_module()
        self.before = dict(vars(Owner)), dict(vars(self.module))
        self.expected: dict[str, list[str]] = {name: [] for name in NAMES}
        self.number = 0
        self.shared = Patches(self._install_shared)
        self.entered = 0

    def _label(self) -> str:
        self.number += 1
        return f"ours {self.number}"

    def _owner(self, name: str) -> Any:
        return self.module if name == "function" else Owner

    def _wrap(self, patches: Patches, name: str) -> str:
        label = self._label()
        patches.wrap(self._owner(name), name, wrapper(name, label))
        self.expected[name].insert(0, label)
        return label

    def _install_shared(self, patches: Patches) -> None:
        self.shared_labels = {name: self._wrap(patches, name) for name in NAMES}

    @rule(target=installed, names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=4))
    def install(self, names: list[str]) -> tuple[Patches, list[tuple[str, str]]]:
        patches = Patches()
        return patches, [(name, self._wrap(patches, name)) for name in names]

    @rule(patch=consumes(installed))
    def undo(self, patch: tuple[Patches, list[tuple[str, str]]]) -> None:
        patch[0].undo()
        for name, label in patch[1]:
            self.expected[name].remove(label)

    @rule()
    def enter(self) -> None:
        self.shared.__enter__()
        self.entered += 1

    @rule()
    def leave(self) -> None:
        if self.entered:
            self.shared.__exit__(None, None, None)
            self.entered -= 1
            if self.entered == 0:
                for name, label in self.shared_labels.items():
                    self.expected[name].remove(label)

    @rule(names=st.lists(st.sampled_from(NAMES), max_size=3))
    def fail(self, names: list[str]) -> None:
        def install(patches: Patches) -> None:
            for name in names:
                patches.wrap(self._owner(name), name, wrapper(name, "never"))
            raise LookupError

        with pytest.raises(LookupError), Patches(install):
            pass

    @invariant()
    def calls_pass_through_installed_patches(self) -> None:
        owner = Owner()
        labels = {
            "method": owner.method(),
            "inherited": owner.inherited(),
            "static": Owner.static(),
            "function": self.module.function(),
            "attribute": owner.attribute,
        }
        assert labels == {name: [*self.expected[name], name] for name in NAMES}
        for name in NAMES:
            if not self.expected[name]:
                before = self.before[name == "function"]
                assert vars(self._owner(name)).get(name) is before.get(name)

    def teardown(self) -> None:
        for name in NAMES:
            for layer in list(_layers(self._owner(name), name)):
                implementation._remove(_attribute(self._owner(name), name), layer)
        assert dict(vars(Owner)) == self.before[0]
        assert dict(vars(self.module)) == self.before[1]


def _attribute(owner: Any, name: str) -> Any:
    return implementation._attributes[id(owner), name]


def _layers(owner: Any, name: str) -> list[Any]:
    attribute = implementation._attributes.get((id(owner), name))
    return [] if attribute is None else attribute._layers


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


class ForeignPatches(RuleBasedStateMachine):
    """Third-party code replaces the attribute without `Patches`, and restores it, latest first."""

    ours = Bundle("ours")

    @initialize()
    def begin(self) -> None:
        self.module = new_module()
        self.original = self.module.function
        self.number = 0
        self.installed: dict[str, Patches] = {}
        self.foreign_wrappers: list[tuple[str, Any]] = []

    @rule(target=ours)
    def install(self) -> tuple[str, Patches]:
        self.number += 1
        label, patches = f"ours {self.number}", Patches()
        before = self.module.function()
        patches.wrap(self.module, "function", wrapper("function", label))
        self.installed[label] = patches
        called = self.module.function()
        assert called[0] == label
        # The wrappers of third-party code are below the new one.
        assert [name for name in before if name.startswith("theirs")] == [
            name for name in called if name.startswith("theirs")
        ]
        return label, patches

    @rule(patch=consumes(ours))
    def undo(self, patch: tuple[str, Patches]) -> None:
        label, patches = patch
        present = self.module.function
        is_covered = (
            self.foreign_wrappers and self.module.function()[0] == self.foreign_wrappers[-1][0]
        )
        patches.undo()
        del self.installed[label]
        if is_covered:
            assert self.module.function is present

    @rule()
    def cover(self) -> None:
        self.number += 1
        label, present = f"theirs {self.number}", self.module.function
        self.foreign_wrappers.append((label, present))
        self.module.function = wrapper("function", label)(present)

    @rule()
    def uncover(self) -> None:
        if self.foreign_wrappers:
            self.module.function = self.foreign_wrappers.pop()[1]

    @invariant()
    def no_call_fails(self) -> None:
        assert self.module.function()[-1] == "function"

    def teardown(self) -> None:
        while self.foreign_wrappers:
            self.uncover()
        with Patches() as patches:
            patches.wrap(self.module, "function", wrapper("function", "last"))
            called = self.module.function()[1:-1]
        # Third-party code that restored the attribute while later patches were installed may have
        # removed these patches. No patch is called after it was undone.
        assert len(set(called)) == len(called)
        assert set(called) <= set(self.installed)
        for patches in self.installed.values():
            patches.undo()
        assert self.module.function is self.original


TestForeignPatches = ForeignPatches.TestCase
TestForeignPatches.settings = settings(max_examples=200, stateful_step_count=20, deadline=None)


def test_a_third_party_wrapper_around_a_patch_stays() -> None:
    module = new_module()
    with Patches() as patches:
        patches.wrap(module, "function", wrapper("function", "ours"))
        theirs = module.function = wrapper("function", "theirs")(module.function)
    assert module.function is theirs


def test_a_stale_patch_restored_by_third_party_code_is_removed() -> None:
    module = new_module()
    original = module.function
    with Patches() as patches:
        patches.wrap(module, "function", wrapper("function", "ours"))
        saved = module.function
        module.function = wrapper("function", "theirs")(saved)
    module.function = saved
    with Patches() as patches:
        patches.wrap(module, "function", wrapper("function", "later"))
        assert module.function() == ["later", "function"]
    assert module.function is original


def test_a_third_party_wrapper_below_a_patch_may_end_first() -> None:
    module = new_module()
    original = module.function
    module.function = wrapper("function", "theirs")(original)
    with Patches() as patches:
        patches.wrap(module, "function", wrapper("function", "ours"))
        module.function = original
    assert module.function is original


def test_an_attribute_that_third_party_code_deletes_stays_deleted() -> None:
    module = new_module()
    with Patches() as patches:
        patches.wrap(module, "function", wrapper("function", "ours"))
        del module.function
    assert not hasattr(module, "function")


def test_replacing_and_adding_attributes() -> None:
    module = new_module()
    with Patches() as patches:
        patches.wrap(module, "function", wrapper("function", "hidden"))
        patches.replace(module, "function", lambda: ["instead"])
        patches.replace(module, "new", 7)
        assert (module.function(), module.new) == (["instead"], 7)
    assert not hasattr(module, "new")


def test_patching_an_object_shadows_the_class_attribute() -> None:
    owner = Owner()
    with Patches() as patches:
        patches.wrap(owner, "method", lambda method: lambda: ["ours", *method()])
        assert owner.method() == ["ours", "method"]
        assert Owner().method() == ["method"]
    assert vars(owner) == {}


def test_missing_attributes_cannot_be_wrapped() -> None:
    module = new_module()
    with pytest.raises(AttributeError, match="missing"):
        Patches().wrap(module, "missing", lambda value: value)
    assert not hasattr(module, "missing")


def test_a_failing_wrapper_changes_nothing() -> None:
    module = new_module()
    original = module.function

    def failing(_: object) -> object:
        raise LookupError

    with Patches() as patches:
        patches.wrap(module, "function", wrapper("function", "ours"))
        with pytest.raises(LookupError):
            patches.wrap(module, "function", failing)
        assert module.function() == ["ours", "function"]
    assert module.function is original
    with pytest.raises(LookupError):
        Patches().wrap(module, "function", failing)
    assert module.function is original


def test_everything_is_undone_even_if_a_callback_fails() -> None:
    module, undone = new_module(), []
    original = module.function

    def failing() -> None:
        raise LookupError

    def use() -> None:
        with Patches() as patches:
            patches.callback(lambda: undone.append("first"))
            patches.wrap(module, "function", wrapper("function", "ours"))
            patches.callback(failing)

    with pytest.raises(LookupError):
        use()
    assert (module.function, undone) == (original, ["first"])


def test_a_failed_installation_can_be_repeated() -> None:
    module, tries = new_module(), []

    def install(patches: Patches) -> None:
        patches.wrap(module, "function", wrapper("function", "ours"))
        tries.append(module.function())
        if len(tries) == 1:
            raise LookupError

    patches = Patches(install)
    with pytest.raises(LookupError):
        patches.__enter__()
    with patches, patches:
        assert tries == 2 * [["ours", "function"]]
        assert module.function() == ["ours", "function"]
    assert module.function() == ["function"]


def test_threads_install_and_undo_concurrently() -> None:
    module = new_module()
    original = module.function
    shared = Patches(lambda p: p.wrap(module, "function", wrapper("function", "shared")))
    wrong: list[list[str]] = []

    def work(label: str) -> None:
        for _ in range(200):
            with shared, Patches() as patches:
                patches.wrap(module, "function", wrapper("function", label))
                called = module.function()
                if called.count(label) != 1 or called.count("shared") != 1:
                    wrong.append(called)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(f"thread {n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []
    assert module.function is original
    assert (id(module), "function") not in implementation._attributes
