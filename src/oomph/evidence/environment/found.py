"""What the parsers find, put together: one `Found` for all files, which becomes an `Environment`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from oomph.evidence.environment.model import (
    Card,
    CardProcess,
    Environment,
    HostFacts,
    Interface,
    Launch,
    MigDevice,
    RankDevice,
    Told,
    TorchBuild,
    Variable,
    Xid,
)
from oomph.evidence.model import Quote

#: More of one kind are not kept: a kernel log repeats an Xid by the thousand.
_MOST = 5_000
#: No machine has so many drivers, or builds of PyTorch.
_MOST_VALUES = 64
#: Readings of cards, over all of them: nvidia-smi in a loop.
_MOST_READINGS = 30_000
_SEVERAL = "the files seem to be of more than one machine ({}): give those of one machine at a time"
#: What changes from one moment to the next: the later text counts.
_MOVING = frozenset({"used_bytes", "free_bytes", "utilization", "processes", "quote"})


@dataclass
class Found:
    """What was told so far. Parsers call the methods; the lists are in the order of the texts."""

    told: set[str] = field(default_factory=set)
    sources: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    values: dict[str, Told[Any]] = field(default_factory=dict)
    lists: dict[str, list[Told[str]]] = field(default_factory=dict)
    torch: list[TorchBuild] = field(default_factory=list)
    packages: dict[str, list[Told[str]]] = field(default_factory=dict)
    pins: dict[str, Told[str]] = field(default_factory=dict)
    cards: list[Card] = field(default_factory=list)
    xids: list[Xid] = field(default_factory=list)
    errors: list[Quote] = field(default_factory=list)
    rank_devices: list[RankDevice] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    interfaces: dict[str, Interface] = field(default_factory=dict)
    rdma_devices: list[str] = field(default_factory=list)
    host: dict[str, Told[int]] = field(default_factory=dict)
    #: By a card's name: what its kind can do, which is the same for all of them.
    capabilities: dict[str, Told[tuple[int, int]]] = field(default_factory=dict)
    alive: dict[int, bool] = field(default_factory=dict)
    pids_whole: bool = False
    _cards_told: int = 0
    _known: set[tuple[object, ...]] = field(default_factory=set)
    #: Why a list of processes may be empty although there are some.
    hidden: str = ""

    def take(self, source: str, kind: str) -> None:
        """The file, or a part of it, was read as `kind`."""
        if (source, kind) not in self.sources:
            self.sources.append((source, kind))

    def note(self, text: str) -> None:
        """Adds a sentence for the reader, once."""
        if text not in self.notes:
            self.notes.append(text)

    def tell(self, name: str, value: object, quote: Quote) -> None:
        """One of the single values (hostname, system, wsl, container, provider, machine_type, driver_cuda). The first
        that was told stays."""
        held = self.values.setdefault(name, Told(value, quote))
        if name == "hostname" and held.value != value:
            self.note(_SEVERAL.format(f"they name {held.value} and {value}"))

    def add(self, name: str, value: str, quote: Quote) -> None:
        """One of drivers, driver_libraries, toolkits, images, expected_gpus. Each value once."""
        held = self.lists.setdefault(name, [])
        if value and len(held) < _MOST_VALUES and all(one.value != value for one in held):
            held.append(Told(value, quote))

    def add_host(self, name: str, value: int, quote: Quote) -> None:
        """A field of `HostFacts`. The first that was told stays."""
        if -1 <= value < 2**63:
            self.host.setdefault(name, Told(value, quote))

    def add_package(self, name: str, version: str, quote: Quote) -> None:
        """An installed Python package; both stay where two versions are told."""
        held = self.packages.setdefault(normalized(name), [])
        if all(one.value != version for one in held) and len(held) < 20:
            held.append(Told(version, quote))

    def add_torch(self, build: TorchBuild) -> None:
        """A PyTorch build; texts that tell of one and the same add up."""
        for index, held in enumerate(self.torch):
            merged = _one_build(held, build)
            if merged is not None:
                self.torch[index] = merged
                return
        if len(self.torch) < _MOST_VALUES:
            self.torch.append(build)

    def add_card(self, card: Card) -> None:
        """A card, or more about one that is known."""
        self.told.add("cards")
        self._cards_told += 1
        if self._cards_told > _MOST_READINGS:
            return
        for index, held in enumerate(self.cards):
            if _same_card(held, card):
                self.cards[index] = _merged(held, card)
                return
            if held.index is not None and held.index == card.index and held.uuid and card.uuid:
                self.note(_SEVERAL.format(f"GPU {card.index} is {held.uuid} and {card.uuid}"))
        if len(self.cards) < 512:
            self.cards.append(card)

    def add_variable(self, variable: Variable) -> None:
        """One definition of a variable."""
        self.told.add("variables")
        key = (variable.name, variable.value, variable.scope, variable.rank, variable.quote.source)
        if len(self.variables) < 4 * _MOST and key not in self._known:
            self._known.add(key)
            self.variables.append(variable)

    def add_launch(self, launch: Launch) -> None:
        """Something that starts processes."""
        self.told.add("launches")
        if len(self.launches) < _MOST and (launch,) not in self._known:
            self._known.add((launch,))
            self.launches.append(launch)

    def add_xid(self, xid: Xid) -> None:
        """A line of the kernel log."""
        self.told.add("xids")
        if len(self.xids) < _MOST and (xid,) not in self._known:
            self._known.add((xid,))
            self.xids.append(xid)

    def add_error(self, quote: Quote) -> None:
        """A line that says what failed."""
        if len(self.errors) < 200 and all(one.text != quote.text for one in self.errors):
            self.errors.append(quote)

    def add_rank_device(self, one: RankDevice) -> None:
        """Which device a rank uses."""
        key = (one.rank, one.local_rank, one.device, one.uuid, one.bus_id, one.host)
        if len(self.rank_devices) < 4 * _MOST and ("device", *key) not in self._known:
            self._known.add(("device", *key))
            self.rank_devices.append(one)

    def add_interface(self, interface: Interface) -> None:
        """A network interface, or more about one that is known."""
        self.told.add("interfaces")
        held = self.interfaces.get(interface.name)
        if held is not None:
            interface = Interface(
                held.name,
                held.up if interface.up is None else interface.up,
                tuple(dict.fromkeys((*held.addresses, *interface.addresses))),
                held.kind or interface.kind,
            )
        elif len(self.interfaces) >= 2_000:
            return
        self.interfaces[interface.name] = interface

    def add_rdma(self, name: str = "") -> None:
        """An RDMA device; without a name: that there is none."""
        self.told.add("rdma_devices")
        if name and name not in self.rdma_devices and len(self.rdma_devices) < 512:
            self.rdma_devices.append(name)

    def environment(self, passed_over: Iterable[tuple[str, str]] = ()) -> Environment:
        """All of it."""
        container, wsl = self.values.get("container"), self.values.get("wsl")
        if container is not None:
            self.hidden = (
                f"the text is of a container ({container.value}), which does not see other processes"
            )
        elif wsl is not None and wsl.value:
            self.hidden = "under WSL nvidia-smi does not see the processes of Windows"
        for name, told_capability in self.capabilities.items():
            if not any(_same_name(name, card.name) and card.name for card in self.cards):
                self.add_card(Card(told_capability.quote, name=name, capability=told_capability.value))
        cards = tuple(self._finished(card) for card in self.cards)
        names = {one.name for one in fields(Environment)}
        told = self.told | {name for name in (*self.values, *self.lists) if name in names}
        for name in ("torch", "packages", "pins", "errors", "rank_devices", "host"):
            if getattr(self, name):
                told.add(name)
        given: dict[str, Any] = {**self.values, **{name: tuple(held) for name, held in self.lists.items()}}
        return Environment(
            told=frozenset(told),
            missing={name: why for name, why in self.missing.items() if name not in told},
            sources=tuple(self.sources),
            passed_over=tuple(passed_over),
            notes=tuple(self.notes),
            torch=tuple(self.torch),
            packages={name: tuple(held) for name, held in sorted(self.packages.items())},
            pins=dict(self.pins),
            cards=cards,
            xids=tuple(self.xids),
            errors=tuple(self.errors),
            rank_devices=tuple(self.rank_devices),
            variables=tuple(self.variables),
            launches=tuple(self.launches),
            interfaces=tuple(self.interfaces.values()),
            rdma_devices=tuple(self.rdma_devices),
            host=HostFacts(**self.host),
            **given,
        )

    def _finished(self, card: Card) -> Card:
        if card.capability is None and card.name:
            for name, capability in self.capabilities.items():
                if _same_name(name, card.name):
                    card = replace(card, capability=capability.value)
        if card.processes:
            processes = tuple(self._looked_for(one) for one in card.processes)
            return replace(card, processes=processes)
        if self.hidden and card.processes is not None and not card.hidden:
            return replace(card, hidden=self.hidden)
        return card

    def _looked_for(self, process: CardProcess) -> CardProcess:
        alive = self.alive.get(process.pid)
        if alive is None and self.pids_whole and not self.hidden:
            alive = False
        return process if alive is None else replace(process, alive=alive)


def normalized(name: str) -> str:
    """A package's name as PEP 503 writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def plain_bus(bus_id: str) -> str:
    """Spellings such as "00000000:3B:00.0" and "0000:3b:00" as one: domain, bus and device in lower case."""
    text = bus_id.strip().lower().removeprefix("pci:")
    match = re.fullmatch(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-9a-f])?", text)
    if match is None:
        return text
    return f"{int(match[1] or '0', 16):04x}:{match[2]}:{match[3]}"


def _same_card(held: Card, card: Card) -> bool:
    if held.uuid and card.uuid:
        return held.uuid == card.uuid
    if held.bus_id and card.bus_id:
        return plain_bus(held.bus_id) == plain_bus(card.bus_id)
    if held.index is None or card.index is None:
        return False
    return held.index == card.index and _same_name(held.name, card.name)


def _same_name(one: str, other: str) -> bool:
    """nvidia-smi's table cuts names short ("NVIDIA A100-SXM...")."""
    first, second = (name.rstrip(".").removeprefix("NVIDIA ").strip() for name in (one, other))
    return not first or not second or first.startswith(second) or second.startswith(first)


def _merged(held: Card, card: Card) -> Card:
    """Both together: what moves as the later text says, the rest as the first does, counts of errors the larger."""
    values: dict[str, Any] = {}
    for one in fields(Card):
        old, new = getattr(held, one.name), getattr(card, one.name)
        if new in (None, "", ()) and not (one.name == "processes" and new == () and not held.processes):
            continue
        if old in (None, "", ()) or one.name in _MOVING or (one.name == "name" and old.endswith("...")):
            values[one.name] = new
        elif one.name == "mig_devices" and len(old) == len(new):
            values[one.name] = tuple(map(_both, old, new))
        elif one.name == "ecc_uncorrected":
            values[one.name] = max(old, new)
        elif one.name in ("remap_pending", "remap_failed"):
            values[one.name] = old or new
    if "quote" in values and len(values) == 1:
        del values["quote"]
    return replace(held, **values)


def _both(one: MigDevice, other: MigDevice) -> MigDevice:
    return MigDevice(
        one.profile or other.profile,
        other.total_bytes if one.total_bytes is None else one.total_bytes,
        one.uuid or other.uuid,
    )


def _plain_local(text: str) -> list[str]:
    """PEP 440 compares a local version's parts as numbers: "nv24.05" and "nv24.5" are one."""
    return [part.lstrip("0") for part in re.split(r"[._-]", text)]


def _one_build(held: TorchBuild, build: TorchBuild) -> TorchBuild | None:
    """Both as one where nothing that they say differs; None where they are two builds."""
    if held.wanted != build.wanted:
        return None
    values: dict[str, Any] = {}
    for one in fields(TorchBuild):
        old, new = getattr(held, one.name), getattr(build, one.name)
        if one.name in ("quote", "wanted") or old == new:
            continue
        if one.name == "local" and old and new and _plain_local(old) == _plain_local(new):
            continue
        if new in ("", ()) or (new is None and one.name == "available"):
            continue
        if one.name == "hip" and (old.startswith(f"{new}.") or new.startswith(f"{old}.")):
            continue
        if old in ("", ()) or (old is None and one.name == "available"):
            values[one.name] = new
            continue
        return None
    return replace(held, **values)
