"""Task files of SkyPilot and dstack, and accelerate's configuration: what they ask for and start."""

from __future__ import annotations

import re

from oomph.evidence.environment.formats import images
from oomph.evidence.environment.formats.shell import Shell
from oomph.evidence.environment.formats.shell_lines import statements
from oomph.evidence.environment.formats.values import suffixed
from oomph.evidence.environment.formats.yaml_nodes import Node, documents
from oomph.evidence.environment.found import Found
from oomph.evidence.environment.model import Launch, Variable
from oomph.evidence.environment.parts import Part
from oomph.evidence.model import Line

_SKY = re.compile(r"^(?:resources|run|setup|num_nodes):", re.MULTILINE)
_DSTACK = re.compile(r"^type:\s{0,4}(?:task|dev-environment|service)\s*$", re.MULTILINE)
_ACCELERATE = re.compile(r"^(?:compute_environment|distributed_type|num_processes):", re.MULTILINE)


def parse(part: Part, found: Found) -> bool:
    """Whether it is one of them."""
    text = part.text[:100_000]
    if len({match[0] for match in _ACCELERATE.finditer(text)}) >= 2:
        return _accelerate(part, found)
    dstack = _DSTACK.search(text) is not None
    if not dstack and len({match[0] for match in _SKY.finditer(text)}) < 2:
        return False
    for document in documents(part):
        _task(part, document, found, "dstack" if dstack else "SkyPilot")
    found.take(part.source, "dstack configuration" if dstack else "SkyPilot task")
    return True


def _accelerate(part: Part, found: Found) -> bool:
    read = False
    for document in documents(part):
        processes, machines = document.get("num_processes"), document.get("num_machines")
        total = processes.number if processes is not None else None
        nodes = machines.number if machines is not None else None
        if processes is None or total is None:
            continue
        per_node = total // nodes if nodes and total % nodes == 0 else None
        found.add_launch(Launch(processes.quote, "accelerate", nodes=nodes, processes=per_node))
        found.take(part.source, "accelerate configuration")
        read = True
    return read


def _task(part: Part, document: Node, found: Found, program: str) -> None:
    resources = document.get("resources")
    gpus: int | None = None
    memory: int | None = None
    shm: int | None = None
    quote = (resources or document).quote
    if resources is not None:
        wanted = resources.get("accelerators", "gpu")
        if wanted is not None and wanted.text:
            quote = wanted.quote
            fields = wanted.text.split(":")
            found.add("expected_gpus", fields[0], wanted.quote)
            counts = [int(one) for one in fields[1:] if one.isdigit() and len(one) < 5]
            gpus = counts[-1] if counts else 1
        kind = resources.get("instance_type")
        if kind is not None and kind.text:
            found.tell("machine_type", kind.text, kind.quote)
        size = resources.get("shm_size")
        shm = suffixed(size.text) if size is not None and size.text else None
        image = resources.get("image_id")
        if image is not None and image.text:
            images.tell(found, image.text.removeprefix("docker:"), image.quote)
    nodes = document.get("num_nodes", "nodes")
    found.add_launch(
        Launch(
            quote,
            program,
            nodes=nodes.number if nodes is not None else 1,
            gpus=gpus,
            memory_bytes=memory,
            shm_bytes=shm,
        )
    )
    shell = Shell(part.source, found, scope="script")
    environment = document.get("envs", "env")
    for name, node in environment.items() if environment is not None else []:
        shell.define(name, node.text)
        found.add_variable(Variable(name, node.text, "pod", node.quote))
    image = document.get("image")
    if image is not None and image.text:
        images.tell(found, image.text, image.quote)
    for key in ("setup", "run", "commands"):
        block = document.get(key)
        if block is None:
            continue
        for one in block.each():
            _script(one, shell)


def _script(node: Node, shell: Shell) -> None:
    """The lines of a block of shell text, with their numbers in the file."""
    text = node.text or ""
    block = node.raw.style in ("|", ">")
    first = node.value_line + 1 if block else node.value_line
    own = node.part.lines
    lines = [
        Line(row, own[min(first + index, len(own) - 1)].number) for index, row in enumerate(text.split("\n"))
    ]
    for statement, quote in statements(Part(node.part.source, lines)):
        shell.line(statement, quote)
