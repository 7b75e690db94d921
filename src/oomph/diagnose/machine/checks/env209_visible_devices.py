"""CUDA_VISIBLE_DEVICES does not mean what was meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from oomph.diagnose.machine.answers import answer, counted, listed
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.cards import nvidia_cards
from oomph.diagnose.machine.devices import Reading, read_devices
from oomph.diagnose.machine.model import Answer, Asked, Problem, Severity
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Environment, Variable

_NAME = "CUDA_VISIBLE_DEVICES"
#: What stands for a set and not a list, in the container toolkit's own variable.
_SETS = frozenset({"", "all", "none", "void"})
#: An index, with what people put around a list of them.
_INDEX = re.compile(r"[\[('\"]?([0-9]{1,3})[\])'\"]?")
_LOCALS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")


class VisibleDevices(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV209"
    cause = "visible_devices"
    name = "visible-devices-mistake"
    means = (
        "CUDA_VISIBLE_DEVICES is read entry by entry, and the first that is no device ends the list: an index beyond "
        "the "
        "cards hides that one and all after it, a device named twice hides all, an empty value or -1 hides all, and "
        "what "
        "is no number (all, cuda:0, GPU 0) does too."
    )
    decisive_evidence = "The value, against the cards that nvidia-smi lists (or their UUIDs)."
    first_action = (
        "Write indices from 0 with commas, or UUIDs as nvidia-smi -L prints them; or leave it unset for all."
    )
    verify = "python -c 'import torch; print(torch.cuda.device_count())' prints the number that was meant."
    wrong_advice = (
        "Setting it in Python after CUDA was used: it is read once, at the first CUDA call. And cuda:3 with "
        "CUDA_VISIBLE_DEVICES=3 does not exist: the one visible card is cuda:0."
    )

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        definitions = _definitions(environment)
        problems: list[Problem] = []
        clear: list[str] = []
        untold: list[str] = []
        for one in definitions:
            if one.value is None or "$" in one.value:
                untold.append(f"what {_NAME} becomes: {one.quote.text[:80]!r} names another variable")
                continue
            _judge(environment, one, problems, clear)
        if definitions or environment.tells("variables"):
            problems += _order(environment, definitions)
        return answer(_once(problems), clear, untold)


def _definitions(environment: Environment) -> tuple[Variable, ...]:
    """Those that count: of processes where there are any, else all of scripts, else of what a pod or an image sets."""
    found = environment.all_of(_NAME)
    for scopes in (("process",), ("script", "job"), ("pod",), ("image",)):
        those = tuple(one for one in found if one.scope in scopes)
        if those:
            return those
    return found


def _once(problems: Sequence[Problem]) -> list[Problem]:
    return list({one.says: one for one in problems}.values())


def _count(environment: Environment) -> int | None:
    """How many cards there are; None where the list may be a part of them, or MIG changes what an index means."""
    cards = nvidia_cards(environment)
    indices = sorted(one.index for one in cards if one.index is not None)
    if not cards or indices != list(range(len(cards))) or any(one.mig for one in cards):
        return None
    return len(cards)


def _uuids(environment: Environment, text: str) -> tuple[str, ...]:
    """All UUIDs of the kind that the value names; () where not all are told, or it is in the older form of MIG's."""
    cards = nvidia_cards(environment)
    indices = sorted(one.index for one in cards if one.index is not None)
    if text.startswith("MIG-GPU-") or indices != list(range(len(cards))):
        return ()
    mig = tuple(one.uuid for card in cards for one in card.mig_devices)
    found = mig if text.startswith("MIG-") else tuple(card.uuid for card in cards)
    return found if all(found) else ()


def _judge(environment: Environment, one: Variable, problems: list[Problem], clear: list[str]) -> None:
    count = _count(environment)
    text = one.value or ""
    reading = read_devices(text, count, _uuids(environment, text))
    rank = f"rank {one.rank}: " if one.rank is not None else ""
    shown = f"{rank}{_NAME}={text or repr('')}"
    mistake = _mistake(environment, one, reading, count)
    if mistake is not None:
        problems.append(
            Problem(
                f"{shown}: {mistake.says}",
                does=mistake.does,
                fix="Write the indices of the cards with commas (nvidia-smi -L lists them), or unset it to use all.",
                paste=_right(reading, count),
                subject=_NAME,
                severity=mistake.severity,
                certainty=mistake.certainty,
                evidence=(one.quote,),
            )
        )
        return
    outside = _renumbered(environment, one, reading)
    if outside is not None:
        problems.append(outside)
        return
    beyond = _local_rank(environment, one, reading)
    if beyond is not None:
        problems.append(beyond)
        return
    several = _several_instances(environment, one, reading)
    if several is not None:
        problems.append(several)
        return
    if text.startswith("MIG-") and len(reading.seen) > 1:
        return  # said by ENV202
    of = f" of {count}" if count is not None else ""
    clear.append(f"{_NAME}={text} shows {counted(len(reading.seen), 'device')}{of}")


class _Mistake(NamedTuple):
    says: str
    does: str
    severity: Severity = Severity.ERROR
    certainty: Certainty = Certainty.CERTAIN


def _mistake(environment: Environment, one: Variable, reading: Reading, count: int | None) -> _Mistake | None:
    left = len(reading.seen)
    if reading.twice:
        says = f"{reading.twice} is named twice, and then CUDA shows no device at all."
        return _Mistake(says, "torch.cuda.device_count() is 0.")
    if reading.why == "none" and left == 0:
        return _all_hidden(environment, one)
    if reading.why == "none" and not any(reading.entries[left + 1 :]):
        return None  # a comma at the end, or -1 as an end
    if reading.why:
        return _ended(reading, count)
    if reading.cut:
        says = (
            f"of {listed(repr(word) for word in reading.cut)} only the leading number is read: commas part them, and "
            f"ranges are not known. CUDA shows {counted(left, 'device')} ({listed(map(str, reading.seen))})."
        )
        return _Mistake(says, _fewer(left), Severity.WARNING)
    return None


def _all_hidden(environment: Environment, one: Variable) -> _Mistake:
    """For one command it is how people run something on the CPU; without GPUs it is right."""
    wanted = nvidia_cards(environment) or any(launch.gpus for launch in environment.launches)
    severity = Severity.ERROR if wanted and not one.command else Severity.NOTE
    return _Mistake("all GPUs are hidden.", "torch.cuda.is_available() is False.", severity, Certainty.LIKELY)


def _ended(reading: Reading, count: int | None) -> _Mistake:
    """An entry that is no device ended the list."""
    left = len(reading.seen)
    word = reading.ended_by
    shows = f"CUDA shows {counted(left, 'device')}" if left else "CUDA shows no device"
    if left + 1 < len(reading.entries):
        shows += f", and hides {listed(reading.entries[left + 1 :])} with it"
    says = {
        "none": f"{word or 'an empty entry'} ends the list",
        "beyond": f"there is no GPU {word}: this machine has {counted(count or 0, 'card')}, counted from 0",
        "word": f"{word!r} is neither an index nor a UUID",
        "mixed": f"{word} is of another kind than {reading.entries[0]}: indices, GPU and MIG UUIDs cannot be mixed",
        "unknown": f"{word} is no card of this machine",
        "ambiguous": f"{word} is the beginning of several cards' UUIDs",
    }[reading.why]
    sure = reading.why in ("none", "word", "mixed")
    return _Mistake(
        f"{says}. {shows}.", _fewer(left), certainty=Certainty.CERTAIN if sure else Certainty.LIKELY
    )


def _fewer(left: int) -> str:
    return (
        f'torch.cuda.device_count() is {left}: a job for more stops with "invalid device ordinal", or uses fewer cards.'
        if left
        else "torch.cuda.is_available() is False."
    )


def _right(reading: Reading, count: int | None) -> str:
    """A value that is likely meant: the readable numbers, each once, within the cards."""
    words = [part for word in reading.entries for part in word.replace(";", " ").split()]
    found = [match[1] for word in words if (match := _INDEX.fullmatch(word))]
    inside = [one for one in dict.fromkeys(found) if count is None or int(one) < count]
    return f"export {_NAME}={','.join(inside)}" if inside else f"unset {_NAME}"


def _renumbered(environment: Environment, one: Variable, reading: Reading) -> Problem | None:
    """NVIDIA_VISIBLE_DEVICES picks the cards of a container, where they are numbered from 0 again."""
    outer = environment.variable("NVIDIA_VISIBLE_DEVICES")
    if outer is None or outer.value is None or outer.value.strip().lower() in _SETS or "$" in outer.value:
        return None
    picked = [word for word in outer.value.split(",") if word.strip()]
    far = [index for index in reading.seen if isinstance(index, int) and index >= len(picked)]
    if not far or any(word.startswith("MIG") for word in picked):
        return None
    return Problem(
        f"{_NAME}={one.value}: in a container with NVIDIA_VISIBLE_DEVICES={outer.value} the "
        f"{counted(len(picked), 'card')} "
        f"are numbered from 0 again, and there is no GPU {far[0]}.",
        does="CUDA shows fewer devices than meant, or none.",
        fix=f"Unset {_NAME} in the container: it has only the chosen cards.",
        paste=f"unset {_NAME}",
        subject=_NAME,
        certainty=Certainty.LIKELY,
        evidence=(one.quote, outer.quote),
    )


def _several_instances(environment: Environment, one: Variable, reading: Reading) -> Problem | None:
    """A process sees one MIG device (MIG user guide, "CUDA_VISIBLE_DEVICES"). Several processes over instances are
    ENV202's."""
    if not (one.value or "").startswith("MIG-") or len(reading.seen) < 2:
        return None
    if any((launch.processes or 0) > 1 for launch in environment.launches):
        return None
    return Problem(
        f"{_NAME} names {len(reading.seen)} MIG devices: a process sees the first of them only.",
        does="torch.cuda.device_count() is 1, and the job has the memory of one instance.",
        fix="Name one, or switch MIG off for the whole card.",
        paste=f"export {_NAME}={reading.seen[0]}",
        subject=_NAME,
        severity=Severity.WARNING,
        certainty=Certainty.LIKELY,
        evidence=(one.quote,),
    )


def _local_rank(environment: Environment, one: Variable, reading: Reading) -> Problem | None:
    """A rank whose local rank is beyond the several cards that it sees."""
    if one.rank is None or len(reading.seen) < 2:
        return None
    for name in _LOCALS:
        for local in environment.all_of(name):
            if local.rank != one.rank or not re.fullmatch(r"[0-9]{1,6}", local.value or ""):
                continue
            if int(local.value or "") < len(reading.seen):
                return None
            return Problem(
                f"Rank {one.rank} has {name}={local.value} and sees {counted(len(reading.seen), 'device')} "
                f"({_NAME}={one.value}): cuda:{local.value} does not exist for it.",
                does='torch.cuda.set_device(local_rank) raises "invalid device ordinal".',
                fix=f"Let every rank see all cards of the node (leave {_NAME} unset), or exactly one.",
                paste=f"unset {_NAME}",
                subject=_NAME,
                certainty=Certainty.LIKELY,
                evidence=(one.quote, local.quote),
            )
    return None


def _order(environment: Environment, definitions: Sequence[Variable]) -> list[Problem]:
    """Cards of several kinds: CUDA numbers the fastest first, nvidia-smi by bus."""
    cards = nvidia_cards(environment)
    names = list(dict.fromkeys(card.name for card in cards if card.name))
    order = environment.variable("CUDA_DEVICE_ORDER")
    by_uuid = definitions and all((one.value or "").startswith(("GPU-", "MIG-")) for one in definitions)
    if len(names) < 2 or by_uuid or (order is not None and (order.value or "").strip() == "PCI_BUS_ID"):
        return []
    return [
        Problem(
            f"The cards differ ({listed(names)}), and CUDA_DEVICE_ORDER is not PCI_BUS_ID: CUDA counts the fastest "
            "first, "
            "nvidia-smi by bus.",
            does="GPU 0 of nvidia-smi and cuda:0 may be different cards, so another one than meant is used.",
            fix="Set it for every process, or choose cards by UUID.",
            paste="export CUDA_DEVICE_ORDER=PCI_BUS_ID",
            subject="CUDA_DEVICE_ORDER",
            severity=Severity.NOTE,
            certainty=Certainty.LIKELY,
            evidence=(cards[0].quote,),
        )
    ]
