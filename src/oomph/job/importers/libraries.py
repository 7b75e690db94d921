"""Names and versions of libraries in free text: `torch 2.4.1, transformers 4.48.1`, `torchtitan 9dec370 (2024-12)`."""

from __future__ import annotations

import re

#: Other spellings of a library. Keys are compared in lower case with "_" as "-".
ALIASES = {
    "pytorch": "torch",
    "pytorch-lightning": "lightning",
    "flash-attention": "flash-attn",
    "liger": "liger-kernel",
    "llamafactory": "llama-factory",
    "benchmark-litgpt.py": "lightning-thunder",
    "thunder/benchmarks/benchmark-litgpt.py": "lightning-thunder",
    "megatron": "megatron-lm",
    "megatron-core": "megatron-lm",
    "fms-hf-tuning": "trl",
}
#: Whose code trains, the most specific first: a text that names torchtitan and torch is about torchtitan.
TRAINERS = (
    "torchtitan",
    "torchtune",
    "minimind",
    "lightning-thunder",
    "litgpt",
    "megatron-lm",
    "nanotron",
    "axolotl",
    "llama-factory",
    "unsloth",
    "ms-swift",
    "diffusers",
    "trl",
    "lightning",
    "transformers",
    "deepspeed",
)
#: Whose code trains, where only the repository that published the numbers tells it. PEFT's method comparison has a
#: training loop of its own around a transformers model.
REPOSITORIES = {
    "foundation-model-stack/fms-acceleration": "fms-acceleration",
    "foundation-model-stack/fms-hf-tuning": "trl",
    "answerdotai/fsdp_qlora": "fsdp-qlora",
    "huggingface/peft": "peft-method-comparison",
    "huggingface/trl": "trl",
    "huggingface/diffusers": "diffusers",
    "huggingface/transformers": "transformers",
    "lightning-ai/litgpt": "litgpt",
    "lightning-ai/lightning-thunder": "lightning-thunder",
    "lightning-ai/pytorch-lightning": "lightning",
    "pytorch/torchtitan": "torchtitan",
    "pytorch/torchtune": "torchtune",
    "jingyaogong/minimind": "minimind",
    "axolotl-ai-cloud/axolotl": "axolotl",
    "hiyouga/llama-factory": "llama-factory",
    "unslothai/unsloth": "unsloth",
    "nvidia/megatron-lm": "megatron-lm",
    "huggingface/nanotron": "nanotron",
    "modelscope/ms-swift": "ms-swift",
}
#: The day from which PyTorch's main branch was called by the next version, since the release's branch had been cut
#: (to within some days): a commit or nightly build of a known day is of that version, as nightly builds are named.
_MAIN = (
    ("2025-09-02", "2.10.0"),
    ("2025-06-17", "2.9.0"),
    ("2025-03-17", "2.8.0"),
    ("2024-12-02", "2.7.0"),
    ("2024-09-09", "2.6.0"),
    ("2024-06-10", "2.5.0"),
    ("2024-03-11", "2.4.0"),
    ("2023-12-04", "2.3.0"),
    ("2023-09-05", "2.2.0"),
)
_DATE = re.compile(r"(?<![\w.])(20\d\d)(?:-(\d\d)(?:-(\d\d))?)?(?![\w-])")
_VERSION = re.compile(r"[~v=<>]{0,3}(\d{1,4}(?:\.\w{1,16}){0,5}(?:\+[\w.]{1,40})?)")
_COMMIT = re.compile(r"(?=\w*[a-f])[0-9a-f]{7,40}")
_DAY = re.compile(r"20\d{6}")
_REPOSITORY = re.compile(r"\[([\w.-]+/[\w.-]+)")
#: Words between a library's name and its version.
_FILLERS = frozenset({"version", "commit", "main", "master", "release", "nightly", "dev", "at", "v"})


def _name(word: str) -> str:
    plain = word.strip("()[]{},;:").lower().replace("_", "-")
    return ALIASES.get(plain, plain)


def _main_version(day: str) -> str | None:
    """The version that PyTorch's main branch led to on a day ("2024-12-23"); None before the table begins."""
    return next((version for since, version in _MAIN if day >= since), None)


def _version_after(name: str, words: list[str], rest: str) -> str:
    """The version that begins `words`, as text whose numbers can be compared; "" where there is none."""
    nightly = False
    for place, word in enumerate(words[:4]):
        plain = word.strip("()[],;:")
        if plain.lower() in _FILLERS:
            nightly = nightly or plain.lower() in ("nightly", "dev")
            continue
        commit = plain.lstrip("@~")
        if _COMMIT.fullmatch(commit):
            date = _DATE.search(rest)
            main = _main_version(date.group()) if date and name == "torch" and date.group(3) else None
            return f"{main}.dev+git{commit}" if main else f"git{commit}"
        found = _VERSION.fullmatch(plain)
        if found is None or word.startswith("(") or _DATE.fullmatch(plain):
            return ""
        after = [w.strip("()[],;:").lower() for w in words[place + 1 : place + 3]]
        if nightly or (after and after[0] in ("nightly", "dev")):
            numbers = found.group(1).split(".")
            day = next((w for w in after if _DAY.fullmatch(w)), "")
            return ".".join((*numbers, "0", "0")[: max(3, len(numbers))]) + ".dev" + day
        return found.group(1)
    return ""


def versions(text: str) -> dict[str, str]:
    """Library -> version of a free text. A commit is `git<hash>` (with the version of PyTorch's main branch before it
    where the text has its day), and the date that stands beside a library is `<library>-date` as 2024.12.23."""
    found: dict[str, str] = {}
    for segment in re.split(r"[,;](?![^()]{0,200}\))|\s\+\s", text[:10_000]):
        words = segment.split()
        for place, word in enumerate(words):
            name = _name(word.split("==")[0])
            if not name[:1].isalpha() or len(name) > 80 or name in _FILLERS or name.endswith(".py"):
                continue
            after = ([word.split("==", 1)[1]] if "==" in word else []) + words[place + 1 :]
            version = _version_after(name, after, " ".join(after))
            if version:
                found.setdefault(name, version)
            if version or name in TRAINERS:
                date = _DATE.search(" ".join(after))
                if date and date.group() != version:
                    found.setdefault(f"{name}-date", ".".join(part for part in date.groups() if part))
    return found


def trainer(text: str, source: str = "") -> str:
    """Whose code trains, by a framework's text and where the numbers were published; "" where neither says it."""
    repository = _REPOSITORY.search(source[:10_000])
    published = REPOSITORIES.get(repository.group(1).lower(), "") if repository else ""
    names = {_name(word.split("==")[0]) for word in re.split(r"[\s,;]+", text[:10_000])}
    named = next((name for name in TRAINERS if name in names), "")
    # A list of installed libraries does not tell which of them trains; the repository does.
    if named in ("", "transformers", "trl", "deepspeed", "lightning") and published:
        return published
    return named or published


def source_date(source: str) -> str:
    """The date in the title of a publication as 2024.12, "" where there is none."""
    date = _DATE.search(source.split("[", 1)[0][:10_000])
    return ".".join(part for part in date.groups() if part) if date else ""
