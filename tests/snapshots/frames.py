"""Call stacks as PyTorch records them: of Python alone, or of Python and C++ together.

What a stack looks like was read from real snapshots: names, files and order of frames; the user's files are made up.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

PROJECT = "/home/someone/project"
TORCH = "/opt/venv/lib/python3.11/site-packages/torch"

#: What a recording kept: `all` (C++ and Python), `python` (nothing for threads without Python), `none`.
STYLES = ("all", "python", "none")

Line = tuple[str, int]


@dataclass(frozen=True)
class Site:
    """A place in the code that allocates. `python`: (function, file, line), innermost first; empty on the autograd
    thread. `native`: C++ functions between the allocator and Python, innermost first."""

    python: tuple[tuple[str, str, int], ...] = ()
    native: tuple[str, ...] = ("at::_ops::empty_memory_format::call(c10::ArrayRef<c10::SymInt>)",)
    autograd: bool = False

    @property
    def line(self) -> Line | None:
        """The innermost line of the user's own code; None on the autograd thread."""
        return next(((file, line) for _, file, line in self.python if file.startswith(PROJECT)), None)

    def under(self, *outer: tuple[str, str, int]) -> Site:
        """The same place, called from there."""
        return replace(self, python=self.python + outer)


def user(function: str, file: str, line: int) -> tuple[str, str, int]:
    return (function, f"{PROJECT}/{file}", line)


def torch(function: str, file: str, line: int) -> tuple[str, str, int]:
    return (function, f"{TORCH}/{file}", line)


_GATHER = (
    ("torch::unwind::unwind()", "??"),
    ("torch::CapturedTraceback::gather(bool, bool, bool)", "??"),
    ("torch::cuda::(anonymous namespace)::gather_with_cpp()", "memory_snapshot.cpp"),
)
_NATIVE = "c10::cuda::CUDACachingAllocator::Native"
_MALLOC = (
    (f"{_NATIVE}::DeviceCachingAllocator::malloc(unsigned long, CUstream_st*)", "CUDACachingAllocator.cpp"),
    (f"{_NATIVE}::NativeCachingAllocator::malloc(void**, signed char, unsigned long, CUstream_st*)", ""),
    (f"{_NATIVE}::NativeCachingAllocator::allocate(unsigned long)", ""),
)
_FREE = (
    (f"{_NATIVE}::DeviceCachingAllocator::free({_NATIVE}::Block*)", "CUDACachingAllocator.cpp"),
    (f"{_NATIVE}::local_raw_delete(void*)", ""),
    ("c10::StorageImpl::~StorageImpl()", "??"),
    ("c10::TensorImpl::~TensorImpl()", "??"),
)
_EMPTY = (
    (f"{_NATIVE}::DeviceCachingAllocator::emptyCache()", "CUDACachingAllocator.cpp"),
    ("THCPModule_emptyCache(_object*, _object*)", "Module.cpp"),
)
_THREAD = (
    ("torch::autograd::Node::operator()(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)", ""),
    (
        "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)",
        "??",
    ),
    ("torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)", "??"),
    ("torch::autograd::Engine::thread_init(int, bool)", "??"),
    ("torch::autograd::python::PythonEngine::thread_init(int, bool)", "??"),
    ("execute_native_thread_routine", "thread.cc"),
    ("__clone", "??"),
)
_INTERPRETER = (("Py_RunMain", "??"), ("Py_BytesMain", "??"), ("__libc_start_main", "??"), ("_start", "??"))

_HEADS = {"malloc": _MALLOC, "free": _FREE, "empty": _EMPTY}


@dataclass
class Stacks:
    """Makes the lists of frames of one recording. The dicts of frames are shared, as in PyTorch's files; each call
    gives a list of its own."""

    style: str = "all"
    _known: dict[tuple[str, str, int], dict[str, Any]] = field(default_factory=dict)
    _lists: dict[tuple[Site, str], list[dict[str, Any]]] = field(default_factory=dict)

    def of(self, site: Site, what: str = "malloc") -> list[dict[str, Any]] | None:
        """The frames of an event at that place (`what`: malloc, free, empty); None when stacks are not recorded."""
        if self.style == "none":
            return None
        known = self._lists.get((site, what))
        if known is None:
            known = [self._frame(*each) for each in self._frames(site, what)]
            self._lists[(site, what)] = known
        return list(known)

    def _frames(self, site: Site, what: str) -> list[tuple[str, str, int]]:
        if self.style == "python":
            return list(site.python)
        result = [(name, file, 0) for name, file in (*_GATHER, *_HEADS[what])]
        if what == "malloc":
            result += [(name, "??", 0) for name in site.native]
        if site.autograd:
            return result + [(name, file, 0) for name, file in _THREAD]
        for frame in site.python:
            result += [frame, ("_PyEval_EvalFrameDefault", "??", 0)]
        return result + [(name, file, 0) for name, file in _INTERPRETER]

    def _frame(self, name: str, file: str, line: int) -> dict[str, Any]:
        return self._known.setdefault((name, file, line), {"name": name, "filename": file, "line": line})
