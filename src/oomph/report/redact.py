"""Takes people, machines, places and secrets out of text that is going to be shown to others.

What is replaced: user names (known from home folders, `USER=`, prompts), host names (torchelastic's table, srun,
NCCL, name:port, domain names), addresses, e-mail addresses, URLs but those of public documentation, tokens and the
values of names that say that they are secret, and absolute paths (a library's stays readable from its package on).

A heuristic, and it may be wrong in both directions: read what it leaves before you publish it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from oomph.report import redact_patterns as patterns


def redact(text: str) -> str:
    """`text` with everything private replaced; for one text that stands alone."""
    redactor = Redactor()
    redactor.learn(text)
    return redactor(text)


def redact_names(sentence: str, names: Iterable[str]) -> str:
    """A message about files without their names: the `names`, and whatever else has a slash in it."""
    redactor = Redactor()
    for name in sorted(set(names), key=len, reverse=True):
        redactor.learn_inputs([name])
        if name != "-" and len(name) > 1:
            sentence = sentence.replace(name, redactor.path(name))
    sentence = patterns.ANY_PATH.sub(lambda match: redactor.short(match[0]), sentence)
    redactor.learn(sentence)
    return redactor(sentence)


def without_secrets(text: str) -> str:
    """`text` without tokens, keys and the values of names that say that they are secret; everything else stays."""
    return _secrets(text)


class Redactor:
    """Replaces the same name by the same placeholder everywhere in one report.

    `learn` every text first: a user's name that one line gives away is then replaced in all lines. The first name of
    a kind is `<user>`, the next `<user-2>`, and so on.
    """

    def __init__(self) -> None:
        self._names: dict[str, dict[str, str]] = {"user": {}, "host": {}, "ip": {}}
        self._prefixes: dict[str, None] = {}
        self._shortened: dict[str, str] = {}
        self._words: re.Pattern[str] | None = None
        self._inputs: dict[str, str] = {}
        self._named: re.Pattern[str] | None = None

    def learn_inputs(self, names: Iterable[str]) -> None:
        """Files that were read: `<file-1>.log` stands for each, for a file's name may be a machine's or a person's."""
        numbers = len(set(self._inputs.values()))
        for name in dict.fromkeys(names):
            if name in self._inputs or name.startswith("<") or name in ("", "-"):
                continue
            numbers += 1
            last = re.split(r"[\\/]", name)[-1]
            ending = re.search(r"(?:\.[A-Za-z][A-Za-z0-9]{0,6})?(?:\.[0-9]{1,4})?(?:\.(?:gz|zst))?\Z", last)
            shown = last[ending.start() :] if ending and patterns.FILE_NAME.match(last) else ""
            self._inputs[name] = f"<file-{numbers}>{shown}"
            self._inputs.setdefault(last, self._inputs[name])
        told = sorted((name for name in self._inputs if re.search(r"[./\\]", name)), key=len, reverse=True)
        if told:
            words = "|".join(re.escape(name) for name in told)
            self._named = re.compile(rf"(?<![A-Za-z0-9_./\\-])(?:{words})(?![A-Za-z0-9_/\\-]|\.[A-Za-z0-9])")

    def learn(self, text: str) -> None:
        """Remembers the names of people and machines that `text` gives away by where they stand."""
        text = _without_public_urls(text)
        if "/" in text or "\\" in text:
            for home in (patterns.HOME, patterns.WSL_HOME, patterns.WINDOWS_HOME):
                for match in home.finditer(text):
                    self._learn_home(match, text)
        for context in patterns.USER_CONTEXTS:
            for match in context.finditer(text):
                self._learn_name("user", match[1])
        for match in patterns.USER_AT_HOST.finditer(text):
            self._learn_name("user", match[1])
            self._learn_host(match[2])
        for context in (*patterns.HOST_CONTEXTS, patterns.HOST_PORT):
            for match in context.finditer(text):
                self._learn_host(match[1])
        for match in patterns.FQDN.finditer(text):
            label = match[1].partition(".")[0]
            if match[1] not in patterns.PUBLIC_HOSTS and any(character.isdigit() for character in label):
                self._learn_host(label)

    def __call__(self, text: str) -> str:
        """`text` with everything private replaced. Names that only later texts give away are not known yet."""
        text = _secrets(_addresses(self._without_inputs(text)))
        parts = []
        position = 0
        for match in patterns.PUBLIC_URL.finditer(text):
            parts += [self._private(text[position : match.start()]), match[0]]
            position = match.end()
        parts.append(self._private(text[position:]))
        return "".join(parts)

    def path(self, path: str) -> str:
        """A whole path (blanks and all): its file's name, below `<path>/`; a library's from its package on."""
        if path in self._inputs:
            return self._inputs[path]
        path = _secrets(_addresses(path))
        if path.startswith("<") or not re.search(r"[\\/]", path):
            return self(path)
        return self(self._shorten(path))

    def _without_inputs(self, text: str) -> str:
        return text if self._named is None else self._named.sub(lambda match: self._inputs[match[0]], text)

    def short(self, path: str) -> str:
        """A relative path as an absolute one is shown."""
        return path if path.startswith("<") else self._shorten(path)

    # -- learning -------------------------------------------------------------------------------------------------

    def _learn_home(self, match: re.Match[str], text: str) -> None:
        name = match[1]
        is_folder = text[match.end() : match.end() + 1] in ("/", "\\")
        if is_folder or not re.search(r"\.[A-Za-z0-9]{1,6}\Z", name):
            self._learn_name("user", name.rstrip("."))

    def _learn_host(self, name: str) -> None:
        for part in name.strip(".,").split(","):
            prefix, bracket, _ = part.partition("[")
            if bracket and len(prefix) > 1:
                self._prefixes[prefix] = None
                self._words = None
            elif not patterns.NUMBERED_THING.match(part):
                self._learn_name("host", part.rstrip("]"))
                label = part.partition(".")[0]
                if label != part and len(label) > 3:
                    self._learn_name("host", label)

    def _learn_name(self, kind: str, name: str) -> None:
        if len(name) < 3 or not any(character.isalpha() for character in name):
            return
        if name.lower() in patterns.COMMON_WORDS or name in patterns.PUBLIC_HOSTS:
            return
        if any(name in known for known in self._names.values()):
            return
        self._placeholder(kind, name)
        self._words = None

    def _placeholder(self, kind: str, name: str) -> str:
        known = self._names[kind]
        if name not in known:
            known[name] = f"<{kind}>" if not known else f"<{kind}-{len(known) + 1}>"
        return known[name]

    # -- replacing ------------------------------------------------------------------------------------------------

    def _private(self, text: str) -> str:
        if not text:
            return text
        text = patterns.REMOTE.sub("<url>", text)
        text = patterns.EMAIL.sub("<email>", text)
        text = self._people(text)
        text = self._machines(text)
        text = patterns.QUOTED_PATH.sub(lambda match: f"{match[1]}{self._shorten(match[2])}{match[1]}", text)
        text = patterns.TILDE_PATH.sub(lambda match: self._shorten(match[0]), text)
        text = patterns.WINDOWS_PATH.sub(lambda match: self._shorten(match[0]), text)
        text = patterns.POSIX_PATH.sub(lambda match: self._shorten(match[0]), text)
        return self._learned(text)

    def _people(self, text: str) -> str:
        for context in (patterns.WINDOWS_HOME, patterns.HOME, patterns.WSL_HOME, *patterns.USER_CONTEXTS):
            text = context.sub(lambda match: _in_place(match, 1, self._name("user")), text)
        return patterns.USER_AT_HOST.sub(
            lambda match: f"{self._name('user')(match[1])}@{self._name('host')(match[2])}", text
        )

    def _machines(self, text: str) -> str:
        text = patterns.UUID.sub("<uuid>", text)
        text = patterns.MAC.sub("<mac>", text)
        text = patterns.IPV4.sub(self._address, text)
        text = patterns.IPV6.sub(lambda match: self._placeholder("ip", match[0].lower()), text)
        text = patterns.FQDN.sub(self._domain, text)
        for context in (*patterns.HOST_CONTEXTS, patterns.HOST_PORT):
            text = context.sub(lambda match: _in_place(match, 1, self._name("host")), text)
        return patterns.HOST_WORD.sub(lambda match: self._placeholder("host", match[0]), text)

    def _name(self, kind: str) -> Callable[[str], str]:
        def replace(name: str) -> str:
            bare = name.lower()
            if bare in patterns.COMMON_WORDS or not any(character.isalpha() for character in bare):
                return name
            if kind == "host" and patterns.NUMBERED_THING.match(name):
                return name
            for known in self._names.values():
                if name in known:
                    return known[name]
            return self._placeholder(kind, name)

        return replace

    def _address(self, match: re.Match[str]) -> str:
        before = match.string[max(0, match.start() - 24) : match.start()]
        if match[0] in patterns.LOCAL_ADDRESSES or patterns.VERSION_BEFORE.search(before):
            return match[0]
        return self._placeholder("ip", match[0])

    def _domain(self, match: re.Match[str]) -> str:
        if match[2] and len(match[2]) > 1:
            return "<url>"
        return match[0] if match[1].lower() in patterns.PUBLIC_HOSTS else self._placeholder("host", match[1])

    def _shorten(self, path: str) -> str:
        if patterns.SYSTEM.match(path):
            return path
        libraries = list(patterns.LIBRARY.finditer(path))
        if libraries:
            return path[libraries[-1].end() :].replace("\\", "/")
        parts = [part for part in re.split(r"[\\/]+", path) if part]
        if not parts:
            return path
        keep = []
        if patterns.FILE_NAME.match(parts[-1]):
            keep.append(parts.pop())
        while parts and patterns.RANK_FOLDER.match(parts[-1]):
            keep.insert(0, parts.pop())
        name = "/".join(keep)
        place = "/".join(parts)
        number = 1
        while self._shortened.setdefault(short := _below(number, name), place) != place:
            number += 1
        return short

    def _learned(self, text: str) -> str:
        if self._words is None:
            self._words = self._compile()
        return self._words.sub(self._learned_name, text)

    def _compile(self) -> re.Pattern[str]:
        names = [name for kind in ("user", "host") for name in self._names[kind] if len(name) > 2]
        words = [re.escape(name) for name in sorted(names, key=len, reverse=True)]
        words += [re.escape(prefix) + "[0-9]{1,9}" for prefix in self._prefixes]
        if not words:
            return re.compile(r"(?!)")
        return re.compile(rf"(?<![A-Za-z0-9<])(?:{'|'.join(words)})(?![A-Za-z0-9])")

    def _learned_name(self, match: re.Match[str]) -> str:
        for kind in ("user", "host"):
            if match[0] in self._names[kind]:
                return self._names[kind][match[0]]
        return self._placeholder("host", match[0])


def _below(number: int, name: str) -> str:
    below = f"/{name}" if name else ""
    return f"<path>{below}" if number == 1 else f"<path-{number}>{below}"


def _in_place(match: re.Match[str], group: int, replace: Callable[[str], str]) -> str:
    """The whole match with one of its groups replaced."""
    start, end = match.start(group) - match.start(), match.end(group) - match.start()
    return match[0][:start] + replace(match[group]) + match[0][end:]


def _without_public_urls(text: str) -> str:
    return patterns.PUBLIC_URL.sub(" ", text) if "://" in text else text


def _addresses(text: str) -> str:
    """`text` without URLs; of public documentation the part before a query stays."""

    def replace(match: re.Match[str]) -> str:
        public = patterns.PUBLIC_URL.match(match[0])
        return "<url>" if public is None else public[0] + match[0][public.end() :]

    return patterns.URL.sub(replace, text) if "://" in text else text


def _secrets(text: str) -> str:
    text = patterns.BEARER.sub(lambda match: f"{match[1]}{match[2]}<secret>", text)
    if "-----BEGIN" in text:
        text = patterns.PRIVATE_KEY.sub("<secret>", text)
    text = patterns.TOKEN.sub("<secret>", text)
    text = patterns.BASE64_LINE.sub(_base64, text)
    for pattern in (patterns.SECRET_VALUE, patterns.SECRET_OPTION, *patterns.SHORT_SECRETS):
        text = pattern.sub(_secret_value, text)
    text = patterns.HEX.sub("<secret>", text)
    return patterns.LONG_WORD.sub(_long_word, text)


def _secret_value(match: re.Match[str]) -> str:
    value = match["value"]
    if patterns.NOT_SECRET_NAME.search(match["name"]) or value.lower() in patterns.NOT_SECRET_VALUE:
        return match[0]
    return f"{match['name']}{match['sign']}<secret>"


def _base64(match: re.Match[str]) -> str:
    kinds = (str.isupper, str.islower, str.isdigit)
    mixed = all(any(kind(character) for character in match[2]) for kind in kinds)
    return f"{match[1]}<secret>" if mixed else match[0]


def _long_word(match: re.Match[str]) -> str:
    digits = sum(character.isdigit() for character in match[0])
    letters = sum(character.isalpha() for character in match[0])
    return "<secret>" if digits >= 4 and letters >= 4 else match[0]
