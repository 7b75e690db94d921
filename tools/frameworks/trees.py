"""Importing a framework from a source tree that is not installed, with stand-ins for what recording does not need."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any


class _Meta(type):
    """Any attribute of a stand-in is a stand-in."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandIn


class _StandIn(metaclass=_Meta):
    """A class, a decorator or a function of a library that is not here: takes anything, does nothing."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        pass

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        return _StandIn()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandIn()


class _Module(ModuleType):
    """A module whose every name is a class of its own, so that isinstance with it is false."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _Meta(name, (_StandIn,), {})
        setattr(self, name, made)
        return made


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        del path, target
        if any(fullname == name or fullname.startswith(f"{name}.") for name in self.names):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = _Module(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: ModuleType) -> None:
        del module


def use(tree: Path, stand_ins: Sequence[str] = ()) -> None:
    """Puts a tree before everything installed, and stand-ins for these modules, and what is in them, before that."""
    if not tree.is_dir():
        raise SystemExit(f"{tree} is no folder")
    sys.path.insert(0, str(tree))
    if stand_ins:
        sys.meta_path.insert(0, _Finder(stand_ins))


def bare(tree: Path, *packages: str) -> None:
    """Packages of the tree whose own code is not run: only what is asked for of them is imported."""
    for name in packages:
        module = ModuleType(name)
        module.__path__ = [str(tree.joinpath(*name.split(".")))]
        sys.modules[name] = module


def module(name: str) -> Any:
    """A module of the tree; it has no types here."""
    return importlib.import_module(name)
