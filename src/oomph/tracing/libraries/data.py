"""`datasets.load_dataset` without a network: local files are read, and a well-known data set gets a stand-in.

The stand-in has the data set's columns and texts that are longer than what scripts cut them to, so each batch is as
long as the script lets it be: an upper bound, and said so. A data set whose columns are not known is refused.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oomph.errors import InputError
from oomph.tracing.libraries import during

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

_FILE = Path(__file__).parent / "configs" / "datasets.json"
#: Builders that read local files.
_LOCAL = frozenset(
    {
        "json",
        "csv",
        "parquet",
        "text",
        "arrow",
        "imagefolder",
        "audiofolder",
        "webdataset",
        "pandas",
        "sql",
        "xml",
    }
)
#: Rows of each split of a stand-in, and characters of each text: 8192 tokens of four characters.
ROWS = 128
CHARACTERS = 8192 * 4
#: Characters of a sentence: tokenizers take pairs of long texts apart in very many ways.
SENTENCE = 128 * 4
#: Pixels of a side of an image.
IMAGE_SIDE = 512
_STANDIN = "_oomph_stand_in"


class DatasetNotHereError(InputError):
    """A data set that is not on this machine, and of which no stand-in can be made."""

    def __init__(self, name: str, config: str | None) -> None:
        shown = f"{name} ({config})" if config else name
        super().__init__(
            f"the script loads the data set '{shown}', which is not on this machine, and oomph does not know its "
            "columns: load it once where there is a network, so that it is in the local cache, or let the script "
            "read local files"
        )


def install(recorder: Recorder) -> None:
    """`load_dataset` answers from this machine alone."""

    def load(original: Callable[..., Any], path: Any, *args: Any, **kwargs: Any) -> Any:
        return _load(recorder, original, path, *args, **kwargs)

    def hook(module: ModuleType) -> None:
        during.wrap(recorder, module, "load_dataset", load)

    for name in ("datasets.load", "datasets"):
        recorder.patches.when_imported(name, hook)
    recorder.patches.when_imported("datasets.arrow_dataset", lambda module: _selects(recorder, module))


def _load(recorder: Recorder, original: Callable[..., Any], path: Any, *args: Any, **kwargs: Any) -> Any:
    name = str(path)
    if name in _LOCAL or Path(name).exists() or kwargs.get("data_files"):
        return original(path, *args, **kwargs)
    # Each release fails in its own way where the network is off.
    with contextlib.suppress(Exception):
        return original(path, *args, **kwargs)
    config = kwargs.get("name", args[0] if args else None)
    columns = find(name, config)
    if columns is None:
        raise DatasetNotHereError(name, config)
    recorder.assume(
        f"the data set {name} is not on this machine: a stand-in has its columns, and texts of {CHARACTERS} characters "
        f"({SENTENCE} where the real ones are sentences), so samples are as long as the script allows. That is an "
        "upper bound: put the data set in the local cache for real lengths"
    )
    return make(columns, kwargs.get("split"), streaming=bool(kwargs.get("streaming")))


@cache
def _columns() -> dict[str, dict[str, Any]]:
    data: dict[str, dict[str, Any]] = json.loads(_FILE.read_text(encoding="utf-8"))["columns"]
    return {name.lower(): columns for name, columns in data.items()}


def find(name: str, config: str | None) -> dict[str, Any] | None:
    """The kinds of a data set's columns, None when they are not known."""
    known = _columns()
    exact = known.get(f"{name} ({config})".lower())
    return exact if exact is not None else known.get(name.lower())


def make(columns: dict[str, Any], split: Any, *, streaming: bool = False) -> Any:
    """A Dataset of the wanted split, a list of them for a list of splits, or a DatasetDict for None."""
    import datasets

    if isinstance(split, (list, tuple)):
        return [make(columns, one, streaming=streaming) for one in split]
    if split is None:
        kind = datasets.IterableDatasetDict if streaming else datasets.DatasetDict
        return kind({one: make(columns, one, streaming=streaming) for one in ("train", "validation", "test")})
    rows = {name: [_value(kind, row) for row in range(ROWS)] for name, kind in columns.items()}
    features = datasets.Features({name: _feature(kind) for name, kind in columns.items()})
    table = datasets.Dataset.from_dict(rows, features=features)
    setattr(table, _STANDIN, True)
    return table.to_iterable_dataset() if streaming else table


def _value(kind: Any, row: int) -> Any:
    if isinstance(kind, dict):
        return {name: _value(one, row) for name, one in kind.items()}
    if isinstance(kind, list):
        return row % len(kind)
    if kind == "text":
        return _text(row)
    if kind == "sentence":
        return _text(row)[:SENTENCE]
    if kind == "number":
        return row
    if kind == "messages":
        text = _text(row)
        return [{"role": "user", "content": text[:SENTENCE]}, {"role": "assistant", "content": text}]
    if kind == "image":
        return _image()
    return f"{kind}-{row}"


def _text(row: int) -> str:
    """A text of CHARACTERS characters that differs from row to row."""
    words = f"sample {row} of a text that stands in for one of the data set. "
    return (words * (CHARACTERS // len(words) + 1))[:CHARACTERS]


@cache
def _image() -> Any:
    from PIL import Image

    return Image.new("RGB", (IMAGE_SIDE, IMAGE_SIDE), (127, 127, 127))


def _feature(kind: Any) -> Any:
    import datasets

    if isinstance(kind, dict):
        return {name: _feature(one) for name, one in kind.items()}
    if isinstance(kind, list):
        return datasets.ClassLabel(names=kind)
    if kind == "number":
        return datasets.Value("int64")
    if kind == "messages":
        return [{"role": datasets.Value("string"), "content": datasets.Value("string")}]
    if kind == "image":
        return datasets.Image()
    return datasets.Value("string")


def _selects(recorder: Recorder, module: ModuleType) -> None:
    """`select(range(1000))` of a stand-in, which is shorter than the data set, starts over at its end."""

    def select(original: Callable[..., Any], table: Any, indices: Any, *args: Any, **kwargs: Any) -> Any:
        if not getattr(table, _STANDIN, False):
            return original(table, indices, *args, **kwargs)
        wanted = [int(index) % len(table) for index in indices]
        chosen = original(table, wanted, *args, **kwargs)
        setattr(chosen, _STANDIN, True)
        return chosen

    def shuffle(original: Callable[..., Any], table: Any, *args: Any, **kwargs: Any) -> Any:
        shuffled = original(table, *args, **kwargs)
        if getattr(table, _STANDIN, False):
            setattr(shuffled, _STANDIN, True)
        return shuffled

    during.wrap(recorder, module.Dataset, "select", select)
    during.wrap(recorder, module.Dataset, "shuffle", shuffle)
