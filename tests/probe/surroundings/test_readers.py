"""Each reader on files as Linux and its distributions write them."""

from __future__ import annotations

import os
import sys

import pytest

from oomph.probe.surroundings import cloud, driver, memory, network, system, toolkit
from oomph.probe.surroundings.seen import Seen, Untold, read
from tests.probe.surroundings.fake_root import made

GIB = 1 << 30
#: As the closed and the open kernel module print it.
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version: x\n"
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  Release Build  (dvs-builder@U16)  "
    "Thu Feb 22 01:44:30 UTC 2024\n"
)


def several(seen):
    assert not isinstance(seen, Untold), seen
    return seen


def value(seen):
    assert isinstance(seen, Seen), seen
    return seen.value


@pytest.mark.parametrize(("text", "version"), [(CLOSED, "535.104.05"), (OPEN, "550.54.14")])
def test_the_kernel_driver(tmp_path, text, version):
    (found,) = several(driver.kernel_drivers(made(tmp_path, {"/proc/driver/nvidia/version": text})))
    assert (found.value, found.source) == (version, "/proc/driver/nvidia/version")
    both = made(tmp_path, {"/sys/module/nvidia/version": "535.161.08\n"})
    assert [one.value for one in several(driver.kernel_drivers(both))] == ["535.161.08", version]


def test_no_kernel_driver(tmp_path):
    found = driver.kernel_drivers(tmp_path)
    assert isinstance(found, Untold)
    assert "not loaded" in found.why


def test_the_drivers_libraries(tmp_path):
    """As `ldconfig -p` prints them; a compatibility package's libcuda is another one by design."""
    for name, real in (
        ("libcuda.so.1", "libcuda.so.535.104.05"),
        ("libnvidia-ml.so.1", "libnvidia-ml.so.535.161.08"),
    ):
        (tmp_path / real).write_text("")
        (tmp_path / name).symlink_to(tmp_path / real)
    (tmp_path / "compat").mkdir()
    (tmp_path / "compat" / "libcuda.so.1").write_text("")
    listing = (
        "1204 libs found in cache `/etc/ld.so.cache'\n"
        f"\tlibnvidia-ml.so.1 (libc6,x86-64) => {tmp_path}/libnvidia-ml.so.1\n"
        f"\tlibcuda.so.1 (libc6,x86-64) => {tmp_path}/compat/libcuda.so.1\n"
        f"\tlibcuda.so.1 (libc6) => {tmp_path}/libcuda.so.1\n"
        f"\tlibcuda.so.1 (libc6,x86-64) => {tmp_path}/libcuda.so.1\n"
    )
    assert [one.value for one in driver.driver_libraries(listing)] == ["535.161.08", "535.104.05"]
    assert driver.driver_libraries("") == ()


def test_toolkits(tmp_path):
    root = made(
        tmp_path,
        {
            "/usr/local/cuda/version.json": '{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}',
            "/opt/cuda-11.0/version.txt": "CUDA Version 11.0.228\n",
        },
    )
    found = toolkit.toolkits(root, {"CUDA_HOME": "/opt/cuda-11.0"})
    assert [one.value for one in found] == ["11.0.228", "12.4.1"]
    made(root, {"/usr/local/cuda/version.json": "[" * 100})
    assert toolkit.toolkits(root) == ()


def link(name, number, state="up", flags="0x1003", **more):
    base = f"/sys/class/net/{name}"
    files = {f"{base}/type": number, f"{base}/operstate": state, f"{base}/flags": flags}
    return files | {f"{base}/{each}/": "" for each in more}


def test_interfaces(tmp_path):
    """ARPHRD numbers of linux/if_arp.h: 1 Ethernet, 32 InfiniBand, 772 loopback."""
    root = made(
        tmp_path,
        link("lo", "772", "unknown", "0x9")
        | link("eth0", "1")
        | link("ens6", "1", "down")
        | link("ib0", "32")
        | link("docker0", "1", "down", bridge=True)
        | link("br7", "1", bridge=True)
        | link("veth12ab", "1")
        | link("odd", "1", "dormant", "nonsense")
        | {
            "/proc/net/if_inet6": "00000000000000000000000000000001 01 80 10 80       lo\n"
            "fe800000000000000000000000000001 02 40 20 80     eth0\nbroken line\n"
        },
    )
    found = several(network.interfaces(root, {"eth0": "10.0.0.4"}.get))
    assert [(one.name, one.up, one.kind) for one in found] == [
        ("br7", True, "virtual"),
        ("docker0", False, "virtual"),
        ("ens6", False, "ethernet"),
        ("eth0", True, "ethernet"),
        ("ib0", True, "infiniband"),
        ("lo", True, "loopback"),
        ("odd", None, "ethernet"),
        ("veth12ab", True, "virtual"),
    ]
    addresses = {one.name: one.addresses for one in found}
    assert (addresses["eth0"], addresses["lo"], addresses["ens6"]) == (("10.0.0.4", "fe80::1"), ("::1",), ())
    assert isinstance(network.interfaces(tmp_path / "empty"), Untold)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /sys")
def test_the_loopback_of_this_machine():
    found = {one.name: one for one in several(network.interfaces())}
    assert (found["lo"].kind, "127.0.0.1" in found["lo"].addresses) == ("loopback", True)


def test_rdma_devices(tmp_path):
    """Without a driver for it the kernel has no class: that there are none is a fact. Without /sys nothing is."""
    assert isinstance(network.rdma_devices(tmp_path), Untold)
    root = made(tmp_path, {"/sys/class/net/": ""})
    assert network.rdma_devices(root) == ()
    made(root, {"/sys/class/infiniband/mlx5_1/": "", "/sys/class/infiniband/mlx5_0/": ""})
    assert network.rdma_devices(root) == ("mlx5_0", "mlx5_1")
    assert not network.rdma_reachable(root)
    assert network.rdma_reachable(made(root, {"/dev/infiniband/": ""}))


def test_the_system(tmp_path):
    root = made(
        tmp_path,
        {
            "/etc/os-release": 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 22.04.4 LTS"\n',
            "/proc/sys/kernel/osrelease": "5.15.0-105-generic\n",
            "/proc/sys/kernel/hostname": "gpu07\n",
        },
    )
    assert value(system.system(root)) == "Ubuntu 22.04.4 LTS, Linux 5.15.0-105-generic"
    assert (value(system.hostname(root)), value(system.wsl(root))) == ("gpu07", False)
    assert isinstance(system.system(root / "x"), Untold)
    assert isinstance(system.wsl(root / "x"), Untold)


def test_wsl(tmp_path):
    root = made(tmp_path, {"/proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2\n"})
    assert value(system.wsl(root)) is True
    old = made(
        tmp_path / "b", {"/proc/version": "Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com)\n"}
    )
    assert value(system.wsl(old)) is True


@pytest.mark.parametrize(
    ("files", "variables", "kind"),
    [
        ({}, {}, None),
        ({"/.dockerenv": ""}, {}, "docker"),
        ({"/.dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"/run/.containerenv": ""}, {}, "podman"),
        ({}, {"APPTAINER_CONTAINER": "/images/torch.sif"}, "apptainer"),
        ({"/run/systemd/container": "lxc\n"}, {}, "lxc"),
        ({"/proc/1/cgroup": "0::/kubepods/besteffort/pod1\n"}, {}, "kubernetes"),
        ({"/proc/1/cgroup": "12:memory:/docker/0123\n"}, {}, "docker"),
        ({"/proc/1/cgroup": "0::/init.scope\n"}, {}, None),
    ],
)
def test_containers(tmp_path, files, variables, kind):
    found = system.container(made(tmp_path, files), variables)
    assert (found.value if found else None) == kind


def test_who_sees_all_processes(tmp_path):
    """The first PID namespace has a fixed number, 0xEFFFFFFC (linux/proc_ns.h)."""
    namespaces = made(tmp_path, {"/proc/self/ns/": "", "/proc/mounts": "proc /proc proc rw,relatime 0 0\n"})
    assert "no /proc" in system.why_processes_are_hidden(tmp_path)
    place = namespaces / "proc/self/ns/pid"
    place.symlink_to(f"pid:[{0xEFFFFFFC}]")
    assert system.why_processes_are_hidden(tmp_path, privileged=False) == ""
    (tmp_path / "proc/mounts").write_text("proc /proc proc rw,hidepid=2 0 0\n")
    assert "hidepid" in system.why_processes_are_hidden(tmp_path, privileged=False)
    assert system.why_processes_are_hidden(tmp_path, privileged=True) == ""
    place.unlink()
    place.symlink_to("pid:[4026532281]")
    assert "container" in system.why_processes_are_hidden(tmp_path)


def test_main_memory(tmp_path):
    root = made(
        tmp_path,
        {
            "/proc/meminfo": "MemTotal:       528280536 kB\nMemFree: 1 kB\nMemAvailable:   500000000 kB\n"
            "SwapTotal:       8388604 kB\nSwapFree:        8000000 kB\nHugePages_Total: 0\n",
            "/dev/shm/": "",
            "/sys/devices/system/cpu/online": "0-47,96\n",
        },
    )
    found = {name: seen.value for name, seen in memory.meminfo(root).items()}
    assert found == {
        "ram": 528280536 * 1024,
        "available": 500000000 * 1024,
        "swap": 8388604 * 1024,
        "swap_free": 8000000 * 1024,
    }
    assert memory.meminfo(root / "x") == {}
    assert value(memory.vcpus(root)) == 49
    size, free = several(memory.shared_memory(root))
    assert size.value >= free.value > 0
    assert isinstance(memory.shared_memory(root / "x"), Untold)


def test_cpus_by_cpuinfo(tmp_path):
    root = made(tmp_path, {"/proc/cpuinfo": "processor\t: 0\nmodel name\t: x\nprocessor\t: 1\n"})
    assert value(memory.vcpus(root)) == 2
    assert isinstance(memory.vcpus(root / "x"), Untold)


@pytest.mark.parametrize(
    ("line", "size"),
    [("Max locked memory         65536                65536                bytes", 65536),
     ("Max locked memory         unlimited            unlimited            bytes", -1)],
)  # fmt: skip
def test_the_limit_of_locked_memory(tmp_path, line, size):
    text = f"Limit                     Soft Limit           Hard Limit           Units     \n{line}     \n"
    root = made(tmp_path, {"/proc/self/limits": text, "/proc/77/limits": text.replace("65536", "131072")})
    assert value(memory.locked_limit(root)) == size
    assert value(memory.locked_limit(root, 77)) == (-1 if size == -1 else 131072)
    assert isinstance(memory.locked_limit(root, 78), Untold)


def test_the_control_groups_limit(tmp_path):
    root = made(
        tmp_path, {"/proc/self/cgroup": "0::/job\n", "/sys/fs/cgroup/job/memory.max": f"{32 * GIB}\n"}
    )
    found = memory.cgroup_limit(root)
    assert found is not None
    assert found.value == 32 * GIB
    made(root, {"/sys/fs/cgroup/job/memory.max": "max\n"})
    assert memory.cgroup_limit(root) is None


def dmi(**values):
    return {f"/sys/class/dmi/id/{name}": f"{value}\n" for name, value in values.items()}


AZURE = "7783-7084-3265-9085-8269-3286-77"


@pytest.mark.parametrize(
    ("files", "provider", "machine_type"),
    [
        (dmi(sys_vendor="Amazon EC2", product_name="p4d.24xlarge"), "AWS", "p4d.24xlarge"),
        (dmi(sys_vendor="Amazon EC2", product_name="u-6tb1.metal"), "AWS", "u-6tb1.metal"),
        (dmi(sys_vendor="Google", product_name="Google Compute Engine"), "Google Cloud", None),
        (
            dmi(sys_vendor="Microsoft Corporation", product_name="Virtual Machine", chassis_asset_tag=AZURE)
            | {
                "/run/cloud-init/instance-data.json": '{"ds": {"meta_data": {"imds": {"compute": {"vmSize": '
                '"Standard_ND96asr_v4"}}}}}'
            },
            "Azure",
            "Standard_ND96asr_v4",
        ),
        (
            dmi(sys_vendor="Microsoft Corporation", product_name="Virtual Machine"),
            "Microsoft Corporation",
            None,
        ),
        (dmi(sys_vendor="Supermicro", product_name="AS -4124GO-NART"), "Supermicro", None),
        (
            {
                "/run/cloud-init/instance-data.json": '{"v1": {"cloud_name": "aws"}, '
                '"ds": {"meta_data": {"instance-type": "g5.xlarge"}}}'
            },
            "AWS",
            "g5.xlarge",
        ),
        ({"/run/cloud-init/instance-data.json": "not json"}, None, None),
        (
            {"/run/cloud-init/instance-data.json": '{"ds": {"meta_data": {"instance-type": "; rm -rf"}}}'},
            None,
            None,
        ),
        ({}, None, None),
    ],
)
def test_clouds(tmp_path, files, provider, machine_type):
    root = made(tmp_path, files)
    told, kind = cloud.provider(root), cloud.machine_type(root)
    assert (told.value if isinstance(told, Seen) else None) == provider
    assert (kind.value if isinstance(kind, Seen) else None) == machine_type


def test_a_file_is_read_to_a_limit_and_no_error_is_raised(tmp_path):
    (tmp_path / "large").write_bytes(b"x" * (5 << 20))
    assert len(read(tmp_path, "/large") or "") == 4 << 20
    assert read(tmp_path, "/nothing") is None
    assert read(tmp_path, "/") is None
    if hasattr(os, "geteuid") and os.geteuid() != 0:
        (tmp_path / "large").chmod(0)
        assert read(tmp_path, "/large") is None
