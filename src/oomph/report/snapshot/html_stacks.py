"""All call stacks of a page as one tree, so that what stacks share is in the page once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oomph.diagnose.snapshot.places import is_python
from oomph.memory.stacks import Frame, Stacks
from oomph.report.clean import cut, flat

#: Nodes of the tree. A page of a run with very many different stacks has the first of them, the largest holders'.
MOST_NODES = 200_000
#: Frames of one stack, from the innermost on.
MOST_FRAMES = 500
#: Characters of a function's name or a path. Names of C++ templates have thousands.
MOST_CHARACTERS = 300

#: Nodes that are none.
NO_STACK = -1
LEFT_OUT = -2


class StackTree:
    """Frames from the outermost inwards; a node stands for a stack, its parent for the stack without the innermost
    frame. Nodes of the outermost frames have the parent -1."""

    def __init__(self, stacks: Stacks) -> None:
        self._stacks = stacks
        self._by_stack: dict[int, int] = {-1: NO_STACK}
        self._nodes: dict[tuple[int, int], int] = {}
        self._frames: dict[Frame, int] = {}
        self._parents: list[int] = []
        self._frame_of: list[int] = []

    def node(self, stack: int) -> int:
        """The node of a stack's number; NO_STACK, or LEFT_OUT where the tree is full."""
        known = self._by_stack.get(stack)
        if known is None:
            known = self._by_stack[stack] = self._add(self._stacks.frames(stack)[:MOST_FRAMES])
        return known

    def nodes(self, stacks: Sequence[int]) -> list[int]:
        return [self.node(stack) for stack in stacks]

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Every frame of the tree as recorded, each once."""
        return tuple(self._frames)

    def data(self, shown: Callable[[Frame], Frame]) -> dict[str, object]:
        """The tree for the page's script. `shown` gives a frame as it may be shown."""
        strings: dict[str, int] = {}
        functions, files, lines, native = [], [], [], []
        for frame in self._frames:
            told = shown(frame)
            functions.append(strings.setdefault(cut(flat(told.function), MOST_CHARACTERS), len(strings)))
            files.append(strings.setdefault(cut(flat(told.file), MOST_CHARACTERS), len(strings)))
            lines.append(max(0, frame.line))
            native.append(int(not is_python(frame)))
        return {
            "strings": list(strings),
            "functions": functions,
            "files": files,
            "lines": lines,
            "native": native,
            "parents": self._parents,
            "frames": self._frame_of,
        }

    def _add(self, frames: Sequence[Frame]) -> int:
        if len(self._parents) + len(frames) > MOST_NODES:
            return LEFT_OUT
        node = NO_STACK
        for frame in reversed(frames):
            number = self._frames.setdefault(frame, len(self._frames))
            following = self._nodes.get((node, number))
            if following is None:
                following = self._nodes[node, number] = len(self._parents)
                self._parents.append(node)
                self._frame_of.append(number)
            node = following
        return node
