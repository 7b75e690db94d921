"""The commit and whether files differ from it, read from `.git` itself: no git is started, and the time is bounded.

A tracked file differs where its size does, or its time and then its content. What was staged is seen where the index
still names the tree of HEAD's commit; files that git does not track are not looked for.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from contextlib import suppress
from pathlib import Path

from oomph.recording.fingerprint.found import Found
from oomph.recording.fingerprint.git_index import Entry, Index, read_index

_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
#: Files that are read again at most, and the longest of them.
_MOST_READ, _LARGEST = 50, 4 << 20


def git(found: Found, start: Path) -> None:
    """`git.commit`, `git.branch`, `git.dirty` ("yes", "no"), `git.changed` (which files, and a hash of them)."""
    where = _repository(start)
    if where is None:
        found.miss("git.commit", f"{start} is in no git checkout")
        return
    work, folder, common = where
    commit, branch = _head(folder, common)
    found.put("git.branch", branch or None)
    if not commit:
        found.miss(
            "git.commit", "the checkout has no commit, or keeps its references in a way that is not read"
        )
        return
    found.put("git.commit", commit)
    index = read_index(folder / "index", found)
    if isinstance(index, str):
        found.miss("git.dirty", index)
        return
    changed, known = _changed(found, work, index)
    if changed:
        found.put("git.dirty", "yes")
        names = sorted(changed)
        digest = hashlib.sha256("\0".join(f"{name}\0{changed[name]}" for name in names).encode()).hexdigest()[
            :12
        ]
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        listed = f"{', '.join(names[:5])}{more}"
        found.put("git.changed", f"{digest}: {listed}" if known else None)
        if not known:
            found.miss(
                "git.changed", f"{listed} and perhaps others: not all could be compared in the time there is"
            )
    elif not known:
        found.miss("git.dirty", "comparing all files takes longer than the start may")
    else:
        _staged(found, common, commit, index)


def _staged(found: Found, common: Path, commit: str, index: Index) -> None:
    tree = _tree_of(common, commit)
    if index.tree is None:
        found.miss(
            "git.dirty",
            "no file differs from the index, and the index does not say whether it is the commit's",
        )
    elif tree is not None and tree != index.tree:
        found.put("git.dirty", "yes")
        found.put("git.changed", f"{index.tree[:12]}: staged")
    else:
        found.put("git.dirty", "no")


def _repository(start: Path) -> tuple[Path, Path, Path] | None:
    """The work tree, its git folder, and the folder that worktrees share."""
    with suppress(OSError, RuntimeError):
        start = start.resolve()
        for work in (start, *start.parents):
            folder = work / ".git"
            if folder.is_file():
                text = folder.read_text(encoding="utf-8", errors="replace")[:4096].strip()
                folder = work / text.removeprefix("gitdir:").strip()
            if (folder / "HEAD").is_file():
                common = folder
                with suppress(OSError):
                    common = folder / (folder / "commondir").read_text(encoding="utf-8").strip()
                return work, folder, common
    return None


def _head(folder: Path, common: Path) -> tuple[str, str]:
    """The commit and the branch ("" where HEAD is detached)."""
    name = _text(folder / "HEAD")
    branch = ""
    for _ in range(5):
        if _HASH.match(name):
            return name, branch
        if not name.startswith("ref:"):
            break
        reference = name.removeprefix("ref:").strip()
        branch = branch or reference.removeprefix("refs/heads/")
        if ".." in reference:
            break
        name = _text(folder / reference) or _text(common / reference) or _packed(common, reference)
    return "", branch


def _packed(common: Path, reference: str) -> str:
    with suppress(OSError), (common / "packed-refs").open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            commit, _, name = line.strip().partition(" ")
            if name == reference and _HASH.match(commit):
                return commit
    return ""


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")[:4096].strip()
    return ""


def _changed(found: Found, work: Path, index: Index) -> tuple[dict[str, str], bool]:
    """Files that differ from the index with a hash of what they are, and whether all could be looked at."""
    changed: dict[str, str] = {}
    reads = 0
    for number, entry in enumerate(index.entries):
        if number % 64 == 63 and found.late:
            return changed, False
        path = work / entry.name
        try:
            stat = path.lstat()
        except OSError:
            changed[entry.name] = "deleted"
            continue
        older = entry.time_ns < index.time_ns
        if older and stat.st_size & 0xFFFFFFFF == entry.size and stat.st_mtime_ns == entry.time_ns:
            continue
        if reads >= _MOST_READ or found.late:
            return changed, False
        reads += 1
        content = _blob(path, entry, stat.st_size)
        if content != entry.hash:
            changed[entry.name] = content
    return changed, True


def _blob(path: Path, entry: Entry, size: int) -> str:
    """git's name of the file's content now: sha1 or sha256 of "blob SIZE\\0" and the bytes."""
    with suppress(OSError):
        if size > _LARGEST:
            return f"{size} bytes" if size != entry.size else entry.hash
        data = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
        kind = hashlib.sha256 if len(entry.hash) == 64 else hashlib.sha1
        return kind(f"blob {len(data)}\0".encode() + data).hexdigest()
    return "unreadable"


def _tree_of(common: Path, commit: str) -> str | None:
    """The tree of a commit that is a loose object; None where it is packed."""
    with suppress(OSError, zlib.error):
        packed = (common / "objects" / commit[:2] / commit[2:]).read_bytes()[: 1 << 20]
        text = zlib.decompressobj().decompress(packed, 4096)
        match = re.match(rb"commit \d+\0tree ([0-9a-f]{40,64})\n", text)
        return match[1].decode() if match else None
    return None
