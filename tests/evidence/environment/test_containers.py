"""Dockerfiles, docker-compose files, Kubernetes manifests, SkyPilot tasks."""

from __future__ import annotations

from oomph.units import GIB, MIB
from tests.evidence.environment.texts import given


def of(told, scope: str) -> dict[str, str | None]:
    return {one.name: one.value for one in told.variables if one.scope == scope}


def test_a_dockerfile_with_stages_and_arguments(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        # syntax=docker/dockerfile:1
        ARG CUDA=12.1.1
        ARG TAG
        FROM nvidia/cuda:11.8.0-devel-ubuntu20.04 AS other
        ENV NCCL_DEBUG=TRACE
        FROM nvidia/cuda:${CUDA}-runtime-ubuntu22.04 AS base
        ENV NCCL_DEBUG=INFO \\
            # a comment between
            LD_LIBRARY_PATH="/usr/local/cuda/compat:${LD_LIBRARY_PATH}" \\
            WITH_SPACES="a b"
        ENV PYTORCH_CUDA_ALLOC_CONF max_split_size_mb:64
        FROM base
        ARG CUDA
        ENV CUDA_TAG=$CUDA UNKNOWN=$TAG
        RUN apt-get update && apt-get install -y python3-pip \\
            && pip3 install --no-cache-dir torch==2.4.0 --extra-index-url https://download.pytorch.org/whl/cu124
        ENV NCCL_DEBUG=WARN
        LABEL maintainer="somebody"
        CMD ["torchrun", "--nproc_per_node=4", "train.py"]
        """,
        "Dockerfile",
    )
    assert [one.value for one in told.images] == ["nvidia/cuda:12.1.1-runtime-ubuntu22.04"]
    assert [one.value for one in told.toolkits] == ["12.1.1"]
    assert [one.value for one in told.all_of("NCCL_DEBUG")] == ["INFO", "WARN"]
    assert told.variable("NCCL_DEBUG").value == "WARN"
    image = of(told, "image")
    assert image["LD_LIBRARY_PATH"] == "/usr/local/cuda/compat:"
    assert image["WITH_SPACES"] == "a b"
    assert image["PYTORCH_CUDA_ALLOC_CONF"] == "max_split_size_mb:64"
    assert (image["CUDA_TAG"], image["UNKNOWN"]) == ("12.1.1", None)
    (build,) = told.torch
    assert (build.version, build.local, build.cuda, build.wanted) == ("2.4.0", "cu124", "12.4", True)
    assert [(one.program, one.processes) for one in told.launches] == [("torchrun", 4)]
    assert told.sources == ((str(tmp_path / "Dockerfile"), "Dockerfile"),)


def test_from_in_a_sentence_is_no_dockerfile(tmp_path) -> None:
    told = given(tmp_path, "FROM the log it is clear\nNCCL_DEBUG=INFO\n")
    assert told.images == ()


def test_compose(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        version: "3.8"
        services:
          db:
            image: postgres:16
            environment:
              PGDATA: /x
          train:
            image: ${REGISTRY:-local}/train:1
            command: torchrun --nproc_per_node=2 train.py
            shm_size: "2gb"
            ulimits:
              memlock: {soft: -1, hard: -1}
            environment:
              - NCCL_DEBUG=INFO
              - HF_TOKEN
            deploy:
              resources:
                limits:
                  memory: 48G
                reservations:
                  devices:
                    - driver: nvidia
                      device_ids: ["0", "1"]
                      capabilities: [gpu]
        """,
        "docker-compose.yml",
    )
    container, launch = told.launches
    assert (container.gpus, container.shm_bytes, container.memory_bytes) == (2, 2 * GIB, 48 * GIB)
    assert (container.pinned_limit_bytes, container.host_ipc) == (-1, False)
    assert launch.processes == 2
    assert [one.value for one in told.images] == ["local/train:1"]
    assert of(told, "pod") == {"NCCL_DEBUG": "INFO", "HF_TOKEN": None}


MANIFEST = """
apiVersion: v1
kind: ConfigMap
metadata: {name: nothing}
data: {a: b}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: llama
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          hostIPC: false
          nodeSelector:
            cloud.google.com/gke-accelerator: nvidia-h100-80gb
            node.kubernetes.io/instance-type: a3-highgpu-8g
          containers:
            - name: sidecar
              image: busybox:1
              env: [{name: NCCL_DEBUG, value: TRACE}]
            - name: pytorch
              image: pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime
              command: ["torchrun"]
              args: ["--nproc_per_node=8", "train.py"]
              env:
                - name: NCCL_SOCKET_IFNAME
                  value: eth0
                - name: NODE
                  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
                - name: BOTH
                  value: $(NCCL_SOCKET_IFNAME),eth1
              resources:
                requests: {memory: 100Gi}
                limits:
                  nvidia.com/gpu: "8"
                  memory: 1500Gi
              volumeMounts:
                - {name: shm, mountPath: /dev/shm}
          volumes:
            - name: shm
              emptyDir: {medium: Memory, sizeLimit: 64Gi}
"""


def test_a_manifest(tmp_path) -> None:
    told = given(tmp_path, MANIFEST, "job.yaml")
    pod, launch = told.launches
    assert (pod.program, pod.gpus, pod.memory_bytes) == ("Kubernetes", 8, 1500 * GIB)
    assert (pod.shm_bytes, pod.host_ipc) == (64 * GIB, False)
    assert pod.quote.text == 'nvidia.com/gpu: "8"'
    assert (launch.program, launch.processes, launch.nodes) == ("torchrun", 8, None)
    assert (told.machine_type.value, told.machine_type.quote.line) == ("a3-highgpu-8g", 19)
    assert [one.value for one in told.expected_gpus] == ["nvidia-h100-80gb"]
    assert of(told, "pod") == {"NCCL_SOCKET_IFNAME": "eth0", "NODE": None, "BOTH": "eth0,eth1"}
    assert [one.value for one in told.images] == ["pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime"]


def test_decimal_units_and_a_memory_mount_without_a_size(tmp_path) -> None:
    text = MANIFEST.replace("1500Gi", "64G").replace(", sizeLimit: 64Gi", "")
    pod = given(tmp_path, text, "job.yaml").launches[0]
    assert pod.memory_bytes == 64 * 10**9
    assert pod.shm_bytes == 64 * 10**9
    pod = given(tmp_path, text.replace("memory: 64G\n", "cpu: 4\n"), "job.yaml").launches[0]
    assert (pod.memory_bytes, pod.shm_bytes) == (None, -1)


def test_no_memory_mount(tmp_path) -> None:
    pod = given(tmp_path, MANIFEST.replace("/dev/shm", "/data"), "job.yaml").launches[0]
    assert (pod.shm_bytes, pod.host_ipc) == (None, False)


def test_a_cut_manifest_and_a_template(tmp_path) -> None:
    cut = MANIFEST[: MANIFEST.index("              volumeMounts")] + "              volumeMounts: [{na"
    pod = given(tmp_path, cut, "job.yaml").launches[0]
    assert pod.gpus == 8
    assert (pod.shm_bytes, pod.host_ipc) == (None, None)  # the mount may be in what is missing
    template = MANIFEST.replace("value: eth0", "value: {{ .Values.ifname }}").replace(
        "spec:\n  pytorch", "{{- if .Values.on }}\nspec:\n  pytorch"
    )
    told = given(tmp_path, template, "job.yaml")
    assert of(told, "pod")["NCCL_SOCKET_IFNAME"] is None
    assert told.launches[0].gpus == 8


def test_affinity(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        apiVersion: v1
        kind: Pod
        spec:
          affinity:
            nodeAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
                nodeSelectorTerms:
                  - matchExpressions:
                      - {key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-A100-SXM4-80GB]}
                      - {key: node.kubernetes.io/instance-type, operator: NotIn, values: [p3.2xlarge]}
          containers:
            - {name: a, image: "x:1", resources: {limits: {nvidia.com/gpu: 1}}}
        """,
    )
    assert [one.value for one in told.expected_gpus] == ["NVIDIA-A100-SXM4-80GB"]
    assert told.machine_type is None


def test_kubectl_as_json(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        {
          "apiVersion": "v1",
          "kind": "List",
          "items": [
            {"apiVersion": "v1", "kind": "Pod", "spec": {"hostIPC": true, "containers": [
              {"name": "a", "image": "x:1", "env": [{"name": "NCCL_DEBUG", "value": "INFO"}],
               "resources": {"limits": {"nvidia.com/gpu": "2", "memory": "512Mi"}}}]}}
          ]
        }
        """,
        "pods.json",
    )
    pod = told.launches[0]
    assert (pod.gpus, pod.memory_bytes, pod.host_ipc) == (2, 512 * MIB, True)
    assert of(told, "pod") == {"NCCL_DEBUG": "INFO"}


def test_a_sky_task(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        resources:
          accelerators: H100:8
          image_id: docker:nvcr.io/nvidia/pytorch:24.05-py3
        num_nodes: 2
        envs:
          NCCL_DEBUG: INFO
        run: |
          export NCCL_SOCKET_IFNAME=eth0
          torchrun --nnodes=2 --nproc_per_node=8 train.py
        """,
        "task.yaml",
    )
    task, launch = told.launches
    assert (task.program, task.nodes, task.gpus) == ("SkyPilot", 2, 8)
    assert (launch.processes, launch.quote.line) == (8, 9)
    assert [one.value for one in told.expected_gpus] == ["H100"]
    assert told.variable("NCCL_SOCKET_IFNAME").value == "eth0"


def test_accelerates_configuration(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        compute_environment: LOCAL_MACHINE
        distributed_type: FSDP
        num_machines: 2
        num_processes: 16
        """,
        "fsdp.yaml",
    )
    assert [(one.program, one.nodes, one.processes) for one in told.launches] == [("accelerate", 2, 8)]


def test_a_pod_that_is_no_training(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        apiVersion: apps/v1
        kind: Deployment
        spec:
          template:
            spec:
              containers:
                - {name: web, image: "nginx:1", resources: {limits: {memory: 128Mi}}}
        """,
    )
    assert told.launches == ()
    assert [one.value for one in told.images] == ["nginx:1"]
