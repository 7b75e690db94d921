"""docker-compose files: services that ask for GPUs, or all where none does; and devcontainer-like "runArgs" are not."""

from __future__ import annotations

import re

from oomph.evidence.environment.formats import docker_run, images, manifests
from oomph.evidence.environment.formats.shell import Shell
from oomph.evidence.environment.formats.shell_words import expand
from oomph.evidence.environment.formats.values import suffixed
from oomph.evidence.environment.formats.yaml_nodes import Node, documents
from oomph.evidence.environment.found import Found
from oomph.evidence.environment.model import Launch, Variable
from oomph.evidence.environment.parts import Part


def parse(part: Part, found: Found) -> bool:
    """Whether it is one."""
    if not any(line.text.rstrip() == "services:" for line in part.lines[:5_000]):
        return False
    read = False
    for document in documents(part):
        services = document.get("services")
        if services is None:
            continue
        all_of = [one for _, one in services.items() if one.kind == "mapping"]
        asking = [one for one in all_of if _asks(one)]
        for service in asking or all_of:
            _service(service, found)
            read = True
    if read:
        found.told.add("launches")
        found.take(part.source, "docker-compose file")
    return read


def _asks(service: Node) -> bool:
    runtime = service.get("runtime")
    return (
        service.get("gpus") is not None
        or service.at("deploy", "resources", "reservations", "devices") is not None
        or (runtime is not None and runtime.text == "nvidia")
    )


def _service(service: Node, found: Found) -> None:
    image = service.get("image")
    if image is not None and image.text:
        name = expand(image.text, {})
        if name:
            images.tell(found, name, image.quote)
    shell = Shell(service.part.source, found, scope="pod")
    _variables(service, found, shell)
    memory = service.get("mem_limit") or service.at("deploy", "resources", "limits", "memory")
    shm, ipc = service.get("shm_size"), service.get("ipc")
    anchor = service.get("shm_size", "ipc", "deploy", "gpus", "image", "command") or service
    found.add_launch(
        Launch(
            quote=anchor.quote,
            program="docker compose",
            gpus=_gpus(service),
            memory_bytes=suffixed(memory.text) if memory is not None and memory.text else None,
            shm_bytes=suffixed(shm.text) if shm is not None and shm.text else None,
            host_ipc=ipc is not None and ipc.text == "host",
            pinned_limit_bytes=_pinned(service),
        )
    )
    manifests.run(service, shell)


def _variables(service: Node, found: Found, shell: Shell) -> None:
    environment = service.get("environment")
    if environment is None:
        return
    pairs: list[tuple[str, str | None, Node]] = []
    if environment.kind == "mapping":
        pairs = [(name, node.text, node) for name, node in environment.items()]
    else:
        for node in environment.each():
            name, equals, text = (node.text or "").partition("=")
            pairs.append((name, text if equals else None, node))
    for name, given, node in pairs:
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            continue
        value = expand(given, {}) if given is not None and "$" in given else given
        shell.define(name, value)
        found.add_variable(Variable(name, value, "pod", node.quote))


def _gpus(service: Node) -> int | None:
    own = service.get("gpus")
    if own is not None and own.number is not None:
        return own.number
    devices = service.at("deploy", "resources", "reservations", "devices")
    for device in devices.each() if devices is not None else []:
        count, ids = device.get("count"), device.get("device_ids")
        if ids is not None and ids.kind == "sequence":
            return len(ids.each())
        if count is not None and count.number is not None:
            return count.number
    return None


def _pinned(service: Node) -> int | None:
    memlock = service.at("ulimits", "memlock")
    if memlock is None:
        return None
    if memlock.kind == "mapping":
        soft = memlock.get("soft")
        return docker_run.memlock(soft.text or "") if soft is not None else None
    return docker_run.memlock(memlock.text or "")
