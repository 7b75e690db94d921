"""Kubernetes: pods and all that holds a pod's template (Job, Deployment, JobSet, PyTorchJob, RayCluster, ...), also
several in one file, rendered by Helm, or as `kubectl get -o yaml|json` prints them.

Of a pod the containers that ask for GPUs count, or all where none does. `Launch.gpus` is a pod's, its memory the
limit (else nothing is told: a request limits nothing), `shm_bytes` the size of what is mounted at /dev/shm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from oomph.evidence.environment.formats import images
from oomph.evidence.environment.formats.shell import Shell
from oomph.evidence.environment.formats.shell_words import LONGEST_VALUE, UNKNOWN, Word, commands, known
from oomph.evidence.environment.formats.values import suffixed
from oomph.evidence.environment.formats.yaml_nodes import Node, documents
from oomph.evidence.environment.found import Found
from oomph.evidence.environment.model import Launch, Variable
from oomph.evidence.environment.parts import Part

_MACHINE = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_GPU_LABELS = (
    "cloud.google.com/gke-accelerator",
    "nvidia.com/gpu.product",
    "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "gpu.nvidia.com/class",
    "gpu.nvidia.com/model",
)
_SHM = "/dev/shm"  # noqa: S108 (where it is mounted, not a file of ours)
_KINDS = re.compile(r"^(?:apiVersion|kind):\s", re.MULTILINE)


def parse(part: Part, found: Found) -> bool:
    """Whether it is a manifest."""
    text = part.text[:200_000]
    if len({match[0] for match in _KINDS.finditer(text)}) < 2 and '"apiVersion"' not in text:
        return False
    read = False
    for document in documents(part):
        read = read_document(document, found) or read
    if read:
        found.take(part.source, "Kubernetes manifest")
    return read


def read_document(document: Node, found: Found) -> bool:
    """Whether there is a pod in it."""
    if document.get("kind") is None and document.get("apiVersion") is None:
        return False
    read = False
    seen: set[int] = set()
    for _, value in [("", document), *document.walk()]:
        inside = value.get("containers")
        if inside is not None and inside.kind == "sequence" and id(value.raw) not in seen:
            seen.add(id(value.raw))
            _pod(value, found)
            read = True
    kind = document.get("kind")
    if kind is not None and kind.text == "Node":
        _labels(document.at("metadata", "labels"), found)
        read = True
    if read:
        found.told.add("launches")
    return read


def _pod(pod: Node, found: Found) -> None:
    _labels(pod.get("nodeSelector"), found)
    _affinity(pod.get("affinity"), found)
    containers_node = pod.get("containers")
    containers = [one for one in (containers_node.each() if containers_node else []) if one.kind == "mapping"]
    gpus = {id(one.raw): _gpus(one) for one in containers}
    asking = [one for one in containers if gpus[id(one.raw)] is not None]
    host_ipc = pod.get("hostIPC")
    for container in asking or containers:
        image = container.get("image")
        if image is not None and image.text:
            images.tell(found, image.text, image.quote)
        shell = Shell(container.part.source, found, scope="pod")
        _variables(container, found, shell)
        anchor = (
            container.at("resources", "limits") or container.get("resources") or container.get("name") or pod
        )
        memory = container.at("resources", "limits", "memory")
        quote = anchor.quote
        gpu = _gpu_node(container)
        if gpu is not None:
            quote = gpu.quote
        launch = Launch(
            quote=quote,
            program="Kubernetes",
            gpus=gpus[id(container.raw)],
            memory_bytes=suffixed(memory.text, binary_alone=False) if memory is not None else None,
            shm_bytes=_shm(pod, container),
            # Where the document is cut, or a template has more, the mount may be in what is missing.
            host_ipc=(host_ipc is not None and host_ipc.text == "true") or (None if pod.partial else False),
        )
        before = found.launches[:]
        run(container, shell)
        started = found.launches[len(before) :]
        # A container that neither asks for GPUs nor starts ranks is no training.
        if gpu is not None or started:
            found.launches[:] = before
            found.add_launch(launch)
            found.launches += started


def _gpu_node(container: Node) -> Node | None:
    for place in ("limits", "requests"):
        for key, value in _items(container.at("resources", place)):
            if key in ("nvidia.com/gpu", "nvidia.com/gpu.shared") or key.startswith("nvidia.com/mig-"):
                return value
    return None


def _gpus(container: Node) -> int | None:
    node = _gpu_node(container)
    return node.number if node is not None else None


def _items(node: Node | None) -> list[tuple[str, Node]]:
    return node.items() if node is not None else []


def _variables(container: Node, found: Found, shell: Shell) -> None:
    env = container.get("env")
    for one in env.each() if env is not None else []:
        name, value = one.get("name"), one.get("value")
        if name is None or not name.text:
            continue
        text = value.text if value is not None else None
        if value is not None and text is None and value.kind == "scalar" and value.raw.value == "":
            text = ""
        if text is not None:
            text = known(_references(text, shell))
        shell.define(name.text, text)
        found.add_variable(Variable(name.text, text, "pod", value.quote if value is not None else name.quote))


def _references(text: str, shell: Shell) -> str:
    """$(NAME) means a variable that stands above; one that does not is not known."""
    for name in re.findall(r"(?<!\$)\$\(([A-Za-z_]\w*)\)", text)[:20]:
        value = shell.variables.get(name)
        text = text.replace(f"$({name})", UNKNOWN if value is None else value)
        if len(text) > LONGEST_VALUE:
            return UNKNOWN
    return text


def _shm(pod: Node, container: Node) -> int | None:
    """The size of the volume at /dev/shm: its limit, or the container's memory limit where it has none (-1 where
    that is not told either: it may take what the node has)."""
    mounts, volumes = container.get("volumeMounts"), pod.get("volumes")
    for mount in mounts.each() if mounts is not None else []:
        path, name = mount.get("mountPath"), mount.get("name")
        if path is None or name is None or (path.text or "").rstrip("/") != _SHM:
            continue
        for volume in volumes.each() if volumes is not None else []:
            own = volume.get("name")
            if own is None or own.text != name.text:
                continue
            limit = volume.at("emptyDir", "sizeLimit")
            if limit is not None:
                return suffixed(limit.text, binary_alone=False)
            memory = container.at("resources", "limits", "memory")
            return (suffixed(memory.text, binary_alone=False) if memory is not None else None) or -1
    return None


def run(container: Node, shell: Shell) -> None:
    """The command with its arguments."""
    words: list[Word] = []
    quote = None
    for key in ("command", "entrypoint", "args"):
        node = container.get(key)
        if node is None:
            continue
        quote = quote or node.quote
        if node.kind == "scalar":
            for command in commands(node.text or "", shell.variables)[:1]:
                words += command
            continue
        for one in node.each():
            text = one.text
            words.append(Word(text or "", UNKNOWN if text is None else _references(text, shell)))
    if words and quote is not None:
        shell.command(words, quote)


def _labels(labels: Node | None, found: Found) -> None:
    for key, value in _items(labels):
        if value.text:
            _label(key, [value], found)


def _label(key: str, values: Iterable[Node], found: Found) -> None:
    known = [value for value in values if value.text]
    if key in _MACHINE and len(known) == 1:
        found.tell("machine_type", known[0].text, known[0].quote)
    elif key in _GPU_LABELS:
        for value in known:
            found.add("expected_gpus", value.text or "", value.quote)


def _affinity(affinity: Node | None, found: Found) -> None:
    if affinity is None:
        return
    terms = affinity.at("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    for term in terms.each() if terms is not None else []:
        expressions = term.get("matchExpressions")
        for one in expressions.each() if expressions is not None else []:
            key, operator, values = one.get("key"), one.get("operator"), one.get("values")
            if key is not None and key.text and values is not None and operator is not None:
                if operator.text == "In":
                    _label(key.text, values.each(), found)
