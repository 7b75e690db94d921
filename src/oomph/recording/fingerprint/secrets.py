"""Values that look like secrets are not kept.

A heuristic that rather masks too much: a masked value is still known to be there, and two runs cannot be told apart by
it.
"""

from __future__ import annotations

import re

MASKED = "<masked>"
#: Words of a name that say that its value is secret. "token" alone: max_tokens, tokens and token_ids are counts.
_NAMES = re.compile(
    r"(?:^|[._\-])(?:token|api[_\-]?key|key|secrets?|passw(?:or)?d|passwd|pwd|credentials?|auth|authorization|cookie"
    r"|private|signature|dsn|webhook|access[_\-]?key(?:[_\-]?id)?)(?:$|[._\-](?:id|file|path|value|url)?$)",
    re.IGNORECASE,
)
#: Tokens of the services that training scripts talk to, private keys, and "Bearer ...".
_VALUES = re.compile(
    r"\bhf_[A-Za-z0-9]{16,}|\bsk-[A-Za-z0-9_\-]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bxox[abprs]-[A-Za-z0-9\-]{10,}|\bAIza[0-9A-Za-z_\-]{30,}|\bya29\.[\w\-]+"
    r"|\beyJ[\w\-]{10,}\.[\w\-]{10,}\.[\w\-]*|-----BEGIN|\bBearer\s+\S{8,}|\bglpat-[\w\-]{16,}|\bnvapi-[\w\-]{16,}"
    r"|\bwandb_v\d_\w{16,}"
)
#: 40 hex digits are a commit as well as a key: masked only where the name does not say that it is a hash.
_KEY_LIKE = re.compile(r"\A[0-9a-fA-F]{40}\Z|\A[A-Za-z0-9+/]{40,}={0,2}\Z")
_HASHES = re.compile(
    r"(?:commit|git|revision|hash|sha|fingerprint|weights|changed|digest|data)", re.IGNORECASE
)
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")
#: `--token X` and `--token=X`, `TOKEN=X` within a command line.
_IN_COMMAND = re.compile(
    r"((?:--?|\b)[\w\-.]*(?:token|api[_\-]?key|secret|password|passwd|access[_\-]?key)(?![\w\-]*s\b)[\w\-]*)(\s*=\s*|\s+)(\S+)",
    re.IGNORECASE,
)


def masked(name: str, value: str) -> str:
    """`value`, or "<masked>" (whole, or the part that is secret) where the name or the value says that it is one."""
    if not value or value.lower() in ("none", "true", "false", "0", "1") or value.startswith("<"):
        return value
    if _NAMES.search(name):
        return MASKED
    value = _USER_IN_URL.sub(f"{MASKED}@", value)
    value = _VALUES.sub(MASKED, value)
    if _KEY_LIKE.match(value) and not _HASHES.search(name):
        return MASKED
    return value


def masked_command(command: str) -> str:
    """A command line without the values of options that are secret."""
    return masked("command", _IN_COMMAND.sub(lambda match: f"{match[1]}{match[2]}{MASKED}", command))
