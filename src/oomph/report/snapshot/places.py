"""What places in code are called: a function and its line, a frame of a stack, an operator of PyTorch's C++."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oomph.diagnose.snapshot import places
from oomph.diagnose.snapshot.model import Holder
from oomph.diagnose.snapshot.places import is_python
from oomph.memory.stacks import Frame
from oomph.report.clean import cut, flat

NO_STACK = "no stack was recorded"

#: Characters of a function's name (C++ templates have thousands), of a file's name in a table, of its path in a stack.
_FUNCTION = 80
_FILE = 100
_PATH = 300
#: Parts of a path that tell a file from others in a table.
_PATH_PARTS = 2
_LIBRARY = re.compile(r"^.*/(?:site|dist)-packages/+", re.DOTALL)
_BACK = "\\"
#: What Python calls the code of a file outside functions.
_MODULE = "<module>"

#: C++ frames as PyTorch names them: an operator (at/_ops, generated), a node of the autograd graph.
_OPERATOR = re.compile(r"at::_ops::(\w+)::")
_NODE = re.compile(r"torch::autograd::(?:generated::)?(\w+)::apply\(")
#: Frames between an operator and the allocator, which every stack has (seen in real snapshots).
_PLUMBING = re.compile(
    r"torch::unwind|torch::CapturedTraceback|gather_with_cpp|c10::cuda::CUDACachingAllocator|at::detail::|"
    r"_empty_generic|at::\(anonymous namespace\)::create_out"
)


def is_users(frame: Frame) -> bool:
    """Whether a frame is the user's own code, also where redaction took its folder away ("<path>/train.py")."""
    return is_python(frame) if frame.file.startswith("<path") else places.is_users(frame)


def place_of(frames: Sequence[Frame]) -> Frame | None:
    """The frame to look at (`frames` innermost first): the user's innermost one, else the innermost one in Python."""
    return next((frame for frame in frames if is_users(frame)), None) or places.place_of(frames)


def place_words(frame: Frame) -> str:
    """A place in a table: "train exp/train.py:70"; of C++ code the function's name alone."""
    function = flat(frame.function)
    if is_python(frame):
        place = f"{short_file(frame)}:{frame.line}"
        return place if function == _MODULE else f"{cut(function, _FUNCTION)} {place}"
    return cut(function.partition("(")[0] or function, _FUNCTION)


def place_in_sentence(frame: Frame) -> str:
    """A place in a sentence: "exp/train.py:70 (train)"."""
    function = flat(frame.function)
    if not is_python(frame):
        return place_words(frame)
    place = f"{short_file(frame)}:{frame.line}"
    return place if function == _MODULE else f"{place} ({cut(function, _FUNCTION)})"


def frame_line(frame: Frame) -> str:
    """A frame of a stack, as a traceback names it: "/workspace/exp/train.py:70, in train"."""
    function = cut(flat(frame.function), _FUNCTION)
    if not is_python(frame):
        return function
    file = _LIBRARY.sub("", frame.file.replace(_BACK, "/"))
    return f"{cut(flat(file), _PATH)}:{frame.line}, in {function}"


def short_file(frame: Frame) -> str:
    """The last two parts of a frame's path: "exp/train.py"."""
    file = _LIBRARY.sub("", frame.file.replace(_BACK, "/"))
    return cut(flat("/".join(file.split("/")[-_PATH_PARTS:])), _FILE)


def stack_place(place: Frame | None, frames: Sequence[Frame]) -> str:
    """What a table calls the place of a stack: `place` where one is known, else what its C++ frames tell."""
    if place is not None:
        return place_words(place)
    if not frames:
        return NO_STACK
    telling = next((frame for frame in frames if not _PLUMBING.search(frame.function)), frames[0])
    return cpp_place(frames) or place_words(telling)


def holder_place(holder: Holder) -> str:
    """Where a holder's blocks were allocated, as a table tells it."""
    return stack_place(holder.place, holder.frames)


def cpp_place(frames: Sequence[Frame]) -> str:
    """The operator and the node of the autograd graph that asked: "bmm in BmmBackward0 (C++)"; "" where C++ frames
    name neither."""
    functions = [frame.function for frame in frames]
    operator = next((match[1] for function in functions if (match := _OPERATOR.search(function))), "")
    node = next((match[1] for function in functions if (match := _NODE.search(function))), "")
    told = " in ".join(filter(None, (operator, node)))
    return f"{cut(told, _FUNCTION)} (C++)" if told else ""
