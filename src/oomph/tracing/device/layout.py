"""Where the virtual functions of PyTorch's CUDA hooks lie, read from the headers that the wheel ships.

A class of the Itanium C++ ABI (GCC and Clang on Linux) has a table: offset to top, type information, then one word per
virtual function in the order of declaration, two for a destructor; a derived class adds its own at the end. That
reading is checked against the library itself: the number of words, and which functions do nothing but return zero.
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from pathlib import Path

from oomph.errors import UsageError

#: Words of a table before its first function.
PREFIX = 2
WORD = ctypes.sizeof(ctypes.c_void_p)

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NAME = re.compile(r"(~?\w+)\s*\(")
_NOT_DEFINED = ("USE_ROCM", "_MSC_VER")


@dataclass(frozen=True)
class Method:
    """A virtual function: its name and the text of its body ("" for a pure one)."""

    name: str
    body: str

    @property
    def returns_zero(self) -> bool:
        return re.fullmatch(r"\s*return\s+(false|0)\s*;\s*", self.body) is not None


@dataclass(frozen=True)
class Layout:
    """The functions of a table in order; `place(name)` is a position counted from the table's first function."""

    methods: tuple[Method, ...]

    @property
    def names(self) -> list[str]:
        return [method.name for method in self.methods]

    def place(self, name: str) -> int | None:
        for place, method in enumerate(self.methods):
            if method.name == name:
                return place
        return None


def hooks_layout(include: Path) -> Layout:
    """The table of `at::CUDAHooksInterface` of the torch whose headers are in `include`.

    Raises UsageError when a header is missing or has no such class.
    """
    base = _methods(include / "ATen/detail/AcceleratorHooksInterface.h", "AcceleratorHooksInterface")
    derived = _methods(include / "ATen/detail/CUDAHooksInterface.h", "CUDAHooksInterface")
    slots = [method for method, _ in base]
    for method, overrides in derived:
        known = [place for place, slot in enumerate(slots) if slot.name == method.name]
        if method.name.startswith("~"):
            continue
        if overrides or known:
            for place in known:
                slots[place] = method
        else:
            slots.append(method)
    return Layout(tuple(slots))


def guard_layout(include: Path) -> Layout:
    """The table of `c10::impl::DeviceGuardImplInterface`. Raises UsageError as `hooks_layout`."""
    header = include / "c10/core/impl/DeviceGuardImplInterface.h"
    return Layout(tuple(method for method, _ in _methods(header, "DeviceGuardImplInterface")))


def _methods(header: Path, name: str) -> list[tuple[Method, bool]]:
    """The virtual functions that a class declares, in order, and whether each says `override`."""
    try:
        text = header.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"Cannot trace with this torch: its header {header} cannot be read ({error.strerror}); "
            "install a torch wheel from pytorch.org or PyPI."
        ) from None
    text = _preprocessed(_COMMENT.sub("", text))
    start = re.search(rf"\b(?:struct|class)\s[^;{{]*\b{name}\b[^;{{]*\{{", text)
    if start is None:
        raise UsageError(f"Cannot trace with this torch: {header} declares no class {name}.")
    found: list[tuple[Method, bool]] = []
    for declaration, body in _members(text[start.end() :]):
        match = _NAME.search(declaration)
        overrides = re.search(r"\boverride\b", declaration) is not None
        if match is None or not (overrides or re.search(r"\bvirtual\b", declaration)):
            continue
        method = Method(match.group(1), body)
        found.append((method, overrides))
        if method.name.startswith("~"):
            found.append((method, overrides))
    return found


def _preprocessed(text: str) -> str:
    """The text as on Linux without ROCm: what depends on either is taken out, other conditions count as true."""
    kept: list[str] = []
    state: list[bool] = []
    for line in text.splitlines():
        word = line.strip()
        if re.match(r"#\s*if", word):
            state.append(not any(re.search(rf"\b{name}\b", word) for name in _NOT_DEFINED))
        elif re.match(r"#\s*(else|elif)", word) and state:
            state[-1] = not state[-1]
        elif re.match(r"#\s*endif", word) and state:
            state.pop()
        elif not word.startswith("#") and all(state):
            kept.append(line)
    return "\n".join(kept)


def _members(text: str) -> list[tuple[str, str]]:
    """(declaration, body) of each member, up to the brace that ends the class."""
    members: list[tuple[str, str]] = []
    depth, declaration, body = 0, "", ""
    for character in text:
        if character == "{":
            depth += 1
            if depth == 1:
                continue
        elif character == "}":
            depth -= 1
            if depth < 0:
                break
            if depth == 0:
                members.append((declaration, body))
                declaration, body = "", ""
                continue
        elif character == ";" and depth == 0:
            members.append((declaration, body))
            declaration, body = "", ""
            continue
        if depth:
            body += character
        else:
            declaration += character
    return members


class _Symbol(ctypes.Structure):
    """Elf64_Sym of <elf.h>."""

    _fields_ = (
        ("name", ctypes.c_uint32),
        ("info", ctypes.c_ubyte),
        ("other", ctypes.c_ubyte),
        ("section", ctypes.c_uint16),
        ("value", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
    )


class _Where(ctypes.Structure):
    """Dl_info of <dlfcn.h>."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def symbol_bytes(address: int) -> int | None:
    """The size in bytes of the exported symbol at `address`, as its library's symbol table says (glibc's dladdr1)."""
    find = getattr(ctypes.CDLL(None), "dladdr1", None)
    if find is None:
        return None
    where, entry = _Where(), ctypes.POINTER(_Symbol)()
    found = find(ctypes.c_void_p(address), ctypes.byref(where), ctypes.byref(entry), 1)  # RTLD_DL_SYMENT
    if not found or where.address != address:
        return None
    return int(entry[0].size)


def words(address: int, count: int) -> list[int]:
    """`count` words at an address."""
    return [int(word) for word in (ctypes.c_uint64 * count).from_address(address)]


def mismatch(layout: Layout, table: int, machine: str) -> str | None:
    """What speaks against `layout` for the exported table of the interface at `table`; None when it is confirmed.

    Two independent things must agree: the size of the table, and that exactly the functions whose body in the header
    is `return false` or `return 0` have the machine code of such a function.
    """
    size = symbol_bytes(table)
    expected = (PREFIX + len(layout.methods)) * WORD
    if size is None:
        return "the C library does not say how large a table is (glibc's does)"
    if size != expected:
        return f"its table of CUDA hooks has {size} bytes where its headers give {expected}"
    length = {"x86_64": 3, "aarch64": 8}.get(machine)
    if length is None:
        return f"the machine is {machine}"
    functions = words(table + PREFIX * WORD, len(layout.methods))
    trivial = {place for place, method in enumerate(layout.methods) if method.returns_zero}
    model = layout.place("isAvailable")
    model = layout.place("hasROCM") if model is None else model
    if model is None or model not in trivial:
        return "its headers declare none of the functions that are known to return false"
    code = ctypes.string_at(functions[model], length)
    if code.startswith(b"\xf3\x0f\x1e"):  # endbr64 of builds with -fcf-protection
        length += 4
        code = ctypes.string_at(functions[model], length)
    same = {place for place, at in enumerate(functions) if at and ctypes.string_at(at, length) == code}
    if same != trivial:
        odd = ", ".join(sorted(layout.methods[place].name for place in same ^ trivial))
        return f"its table of CUDA hooks is not in the order of its headers ({odd})"
    return None
