"""Interfaces, RDMA, memory, the kernel log, machine types, NCCL's log, processes."""

from __future__ import annotations

import pytest

from oomph.units import GIB, KIB, MIB
from tests.evidence.environment.texts import given

IP = """
1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default qlen 1000
    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00
    inet 127.0.0.1/8 scope host lo
2: ens5: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9001 qdisc mq state UP group default qlen 1000
    link/ether 0a:1b:2c:3d:4e:5f brd ff:ff:ff:ff:ff:ff
    inet 10.0.3.7/20 metric 100 brd 10.0.15.255 scope global dynamic ens5
    inet6 fe80::81b:2cff:fe3d:4e5f/64 scope link
3: ibp24s0: <BROADCAST,MULTICAST> mtu 4092 qdisc mq state DOWN group default qlen 256
    link/infiniband 00:00:10:29:fe:80:00:00 brd 00:ff
4: docker0: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 qdisc noqueue state DOWN group default
5: veth41c@if4: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue master docker0 state UP
"""


def test_ip_addr(tmp_path) -> None:
    told = given(tmp_path, IP)
    assert [(one.name, one.up, one.kind) for one in told.interfaces] == [
        ("lo", True, "loopback"),
        ("ens5", True, "ethernet"),
        ("ibp24s0", False, "infiniband"),
        ("docker0", False, "virtual"),
        ("veth41c", True, "virtual"),
    ]
    assert told.interfaces[1].addresses == ("10.0.3.7", "fe80::81b:2cff:fe3d:4e5f")


def test_ip_brief_ifconfig_and_a_listing(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        lo               UNKNOWN        127.0.0.1/8 ::1/128
        eth0@if9         UP             172.17.0.2/16
        ib0              DOWN
        """,
    )
    assert [(one.name, one.up, one.addresses) for one in told.interfaces] == [
        ("lo", True, ("127.0.0.1", "::1")),
        ("eth0", True, ("172.17.0.2",)),
        ("ib0", False, ()),
    ]
    told = given(
        tmp_path,
        "eno1: flags=4163<UP,BROADCAST,RUNNING,MULTICAST>  mtu 1500\n        inet 10.1.1.4  netmask 255.255.0.0\n",
    )
    assert [(one.name, one.up, one.addresses) for one in told.interfaces] == [("eno1", True, ("10.1.1.4",))]
    told = given(tmp_path, "$ ls /sys/class/net\nbond0  eth0  lo\n")
    assert [one.name for one in told.interfaces] == ["bond0", "eth0", "lo"]
    told = given(
        tmp_path,
        "$ ls -l /sys/class/net/\ntotal 0\nlrwxrwxrwx 1 root root 0 Mar  3 10:00 eth0 -> ../../devices/x/net/eth0\n",
    )
    assert [one.name for one in told.interfaces] == ["eth0"]


@pytest.mark.parametrize(
    "text",
    [
        "hca_id:\tmlx5_0\n\ttransport:\t\tInfiniBand (0)\nhca_id: mlx5_3\n",
        "    device  \t node GUID\n    ---- \t----\n    mlx5_0  \t0c42a10300aabbcc\n    mlx5_3  \t0c42a10300aabbcd\n",
        "CA 'mlx5_0'\n\tCA type: MT4123\nCA 'mlx5_3'\n",
        "$ ls /sys/class/infiniband\nmlx5_0  mlx5_3\n",
        "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens1\nlink mlx5_3/1 state DOWN\n",
    ],
)
def test_rdma_devices(tmp_path, text: str) -> None:
    told = given(tmp_path, text)
    assert told.rdma_devices == ("mlx5_0", "mlx5_3")


@pytest.mark.parametrize(
    "text",
    [
        "No IB devices found\n",
        "    device                 node GUID\n    ------              ----------------\n",
        "$ ls /sys/class/infiniband\nls: cannot access '/sys/class/infiniband': No such file or directory\n",
    ],
)
def test_no_rdma_device_is_told(tmp_path, text: str) -> None:
    told = given(tmp_path, text)
    assert told.rdma_devices == ()
    assert told.tells("rdma_devices")
    assert not told.tells("interfaces")


@pytest.mark.parametrize(
    ("command", "total", "available", "unit"),
    [
        ("$ free -h", "251Gi", "228Gi", GIB),
        ("$ free -m", "257566", "230000", MIB),
        ("$ free", "263747952", "230000000", KIB),
        ("", "251", "228", GIB),
        ("", "257566", "230000", MIB),
        ("", "263747952", "230000000", KIB),
        ("", "270077902848", "240000000000", 1),
    ],
)
def test_free(tmp_path, command: str, total: str, available: str, unit: int) -> None:
    head = "               total        used        free      shared  buff/cache   available"
    row = f"Mem:    {total}        20         1        10         1   {available}"
    host = given(tmp_path, f"{command}\n{head}\n{row}\n").host
    assert host.ram_bytes.value == int(total.removesuffix("Gi")) * unit
    assert host.available_bytes.value == int(available.removesuffix("Gi")) * unit


def test_free_in_another_language(tmp_path) -> None:
    head = "               total        used        free      shared  buff/cache   available"
    rows = "内存：        503       18      411        2       73      480\n交换：          7        1        6\n"
    host = given(tmp_path, f"$ free -g\n{head}\n{rows}").host
    assert (host.ram_bytes.value, host.available_bytes.value) == (503 * GIB, 480 * GIB)
    assert (host.swap_bytes.value, host.swap_free_bytes.value) == (7 * GIB, 6 * GIB)


def test_meminfo(tmp_path) -> None:
    host = given(tmp_path, "MemTotal:       263747952 kB\nSwapTotal:       8388604 kB\nSwapFree: 0 kB\n").host
    assert host.ram_bytes.value == 263747952 * KIB
    assert (host.swap_bytes.value, host.swap_free_bytes.value) == (8388604 * KIB, 0)


def test_limits(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        $ df -h /dev/shm
        Filesystem      Size  Used Avail Use% Mounted on
        shm              64M   16M   48M  25% /dev/shm
        $ ulimit -l
        8192
        $ cat /sys/fs/cgroup/memory.max
        68719476736
        $ swapon
        """,
    )
    host = told.host
    assert (host.shm_bytes.value, host.shm_free_bytes.value) == (64 * MIB, 48 * MIB)
    assert host.memlock_bytes.value == 8192 * KIB
    assert host.cgroup_limit_bytes.value == 68719476736
    told = given(
        tmp_path,
        "Filesystem     1K-blocks  Used Available Use% Mounted on\n"
        "tmpfs          131884472    12 131884460   1% /dev/shm\n"
        "max locked memory           (kbytes, -l) unlimited\n",
    )
    assert told.host.shm_bytes.value == 131884472 * KIB
    assert told.host.memlock_bytes.value == -1
    told = given(tmp_path, "shm on /dev/shm type tmpfs (rw,nosuid,nodev,noexec,relatime,size=65536k)\n")
    assert told.host.shm_bytes.value == 64 * MIB
    told = given(
        tmp_path,
        "Filesystem  Type   Size  Used Avail Use% Mounted on\ntmpfs       tmpfs  504G     0  504G   0% /dev/shm\n",
    )
    assert (told.host.shm_bytes.value, told.host.shm_free_bytes.value) == (504 * GIB, 504 * GIB)
    told = given(tmp_path, "Max locked memory         67108864             67108864             bytes\n")
    assert told.host.memlock_bytes.value == 64 * MIB


def test_no_cgroup_limit(tmp_path) -> None:
    told = given(
        tmp_path, "$ cat /sys/fs/cgroup/memory/memory.limit_in_bytes\n9223372036854771712\n$ nproc\n8\n"
    )
    assert told.host.cgroup_limit_bytes is None
    assert told.host.vcpus.value == 8


def test_xids_and_the_driver(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        [    8.1] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build
        [Tue Mar  4 02:11:09 2025] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off.
        Mar  4 02:11:10 node7 kernel: NVRM: Xid (PCI:0000:5e:00): 31, pid=21877, name=python3, Ch 00000008, MMU Fault
        2025-03-04T02:11:11.501+0000 node7 kernel: NVRM: Xid (0000:5e:00): 13, Graphics SM Warp Exception
        [99.5] NVRM: GPU at 0000:86:00.0: Xid (PCI:0000:86:00): 94, pid=7, Contained: SM (0x1)
        """,
    )
    assert [(one.number, one.bus_id, one.pid, one.process) for one in told.xids] == [
        (79, "0000:3b:00", None, ""),
        (31, "0000:5e:00", 21877, "python3"),
        (13, "0000:5e:00", None, ""),
        (94, "0000:86:00", 7, ""),
    ]
    assert [one.time for one in told.xids[:3]] == [
        "Tue Mar  4 02:11:09 2025",
        "Mar  4 02:11:10",
        "2025-03-04T02:11:11.501+0000",
    ]
    assert told.driver.value == "570.86.15"


def test_the_drivers_own_file(tmp_path) -> None:
    told = given(
        tmp_path, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n"
    )
    assert told.driver.value == "535.183.01"


def test_an_empty_kernel_log_has_no_xid(tmp_path) -> None:
    told = given(
        tmp_path, "$ dmesg | grep -i nvrm\n[1.0] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.54.03\n"
    )
    assert told.xids == ()
    assert told.tells("xids")


def test_nvcc(tmp_path) -> None:
    told = given(
        tmp_path, "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 12.3, V12.3.107\n"
    )
    assert [one.value for one in told.toolkits] == ["12.3.107"]


@pytest.mark.parametrize(
    ("text", "machine", "provider"),
    [
        ("$ gcloud compute instances list\nx us-a\nmachine-type: g2-standard-4\n", "g2-standard-4", "Google Cloud"),
        ("projects/1234/machineTypes/a2-highgpu-8g\n", "a2-highgpu-8g", "Google Cloud"),
        ("$ cat /sys/class/dmi/id/product_name\np4d.24xlarge\n", "p4d.24xlarge", "AWS"),
        ("/sys/class/dmi/id/sys_vendor:Amazon EC2\n/sys/class/dmi/id/product_name:g5.xlarge\n", "g5.xlarge", "AWS"),
        ('{"compute": {"vmSize": "Standard_ND96asr_v4", "location": "eastus"}}\n', "Standard_ND96asr_v4", "Azure"),
        ('{\n  "accountId" : "1",\n  "instanceType" : "p5.48xlarge"\n}\n', "p5.48xlarge", "AWS"),
        ("System Information\n\tManufacturer: Amazon EC2\n\tProduct Name: g6e.12xlarge\n", "g6e.12xlarge", "AWS"),
        ('{"Reservations": [{"Instances": [{"InstanceType": "g6.xlarge", "x": 1}]}]}\n', "g6.xlarge", "AWS"),
        ('{\n "hardwareProfile": {\n  "vmSize": "Standard_NV6ads_A10_v5"\n }\n}\n', "Standard_NV6ads_A10_v5", "Azure"),
        ('{"instance_type": {"name": "gpu_8x_a100"}}\n', "gpu_8x_a100", "Lambda"),
        ("$ curl -s http://169.254.169.254/latest/meta-data/instance-type\ng4dn.xlarge\n", "g4dn.xlarge", "AWS"),
    ],
)  # fmt: skip
def test_machine_types(tmp_path, text: str, machine: str, provider: str) -> None:
    told = given(tmp_path, text)
    assert (told.machine_type.value, told.provider.value) == (machine, provider)


def test_nccls_log(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        node1:901:901 [0] NCCL INFO Bootstrap : Using ens5:10.0.3.7<0>
        node1:901:901 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB ens5:10.0.3.7<0>
        NCCL version 2.21.5+cuda12.4
        node1:901:990 [0] NCCL INFO comm 0x55 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 7000 commId 0x9 - Init COMPLETE
        node1:902:991 [1] NCCL INFO comm 0x56 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId b000 commId 0x9 - Init COMPLETE
        node1:902:995 [1] NCCL INFO comm 0x77 rank 0 nranks 2 cudaDev 1 nvmlDev 1 busId b000 commId 0xa - Init COMPLETE
        """,
    )
    # What NCCL uses is what its variables leave, not what the machine has.
    assert not told.tells("interfaces")
    assert not told.tells("rdma_devices")
    assert told.torch[0].nccl == "2.21.5"
    assert [(one.rank, one.device, one.bus_id, one.host) for one in told.rank_devices] == [
        (0, 0, "00000000:07:00.0", "node1"),
        (1, 1, "00000000:0B:00.0", "node1"),
    ]


def test_ranks_on_one_device(tmp_path) -> None:
    told = given(
        tmp_path,
        "n:1:2 [0] init.cc:943 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1a000\n",
    )
    assert [(one.rank, one.bus_id) for one in told.rank_devices] == [
        (1, "00000000:1A:00.0"),
        (0, "00000000:1A:00.0"),
    ]
    told = given(
        tmp_path,
        "rank 0: using cuda:0\nrank=1, local_rank=1, device=cuda:0\nProcess rank: 2, device: cuda:2, n_gpu: 1\n",
    )
    assert [(one.rank, one.local_rank, one.device) for one in told.rank_devices] == [
        (0, None, 0),
        (1, 1, 0),
        (2, None, 2),
    ]


def test_processes_that_live_and_that_do_not(tmp_path) -> None:
    table = """
        | NVIDIA-SMI 535.54.03              Driver Version: 535.54.03    CUDA Version: 12.2     |
        |   0  NVIDIA A10                     On  | 00000000:17:00.0 Off |                    0 |
        |  0%   30C    P8              9W / 150W  |  9000MiB / 23028MiB  |      0%      Default |
        | Processes:                                                                            |
        |=======================================================================================|
        |    0   N/A  N/A      1234      C   python                                     4000MiB |
        |    0   N/A  N/A      5678      C   python                                     4000MiB |
        |    0   N/A  N/A      9999      C   python                                      500MiB |
        +---------------------------------------------------------------------------------------+
        """
    told = given(
        tmp_path,
        table
        + """
        $ ps -p 1234,5678
            PID TTY          TIME CMD
           1234 pts/0    00:10:00 python
        $ ps aux | grep defunct
        USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND
        me          9999  0.0  0.0      0     0 ?        Zl   10:00   0:00 [python] <defunct>
        """,
    )
    assert {one.pid: one.alive for one in told.cards[0].processes} == {1234: True, 5678: False, 9999: False}


def test_uname_and_containers(tmp_path) -> None:
    told = given(tmp_path, "Linux node7 5.15.0-1053-aws #58~20.04.1-Ubuntu SMP x86_64 GNU/Linux\n")
    assert (told.hostname.value, told.system.value) == ("node7", "Linux 5.15.0-1053-aws")
    assert told.wsl is None
    told = given(tmp_path, "$ cat /proc/1/cgroup\n12:memory:/docker/0123456789abcdef\n")
    assert told.container.value == "docker"
    told = given(
        tmp_path, "$ ls /.dockerenv\nls: cannot access '/.dockerenv': No such file or directory\n$ nproc\n4\n"
    )
    assert told.container is None


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("bash: nvidia-smi: command not found\n", {"cards": "nvidia-smi is not there"}),
        (
            "$ ibv_devinfo\n-bash: ibv_devinfo: command not found\n",
            {"rdma_devices": "ibv_devinfo is not there"},
        ),
        ("sh: 1: ip: not found\n", {"interfaces": "ip is not there"}),
        (
            "$ dmesg\ndmesg: read kernel buffer failed: Operation not permitted\n",
            {"xids": "dmesg may not be read there"},
        ),
    ],
)
def test_tools_that_are_not_there(tmp_path, text: str, missing: dict[str, str]) -> None:
    told = given(tmp_path, text)
    assert told.missing == missing
    assert not told.tells(next(iter(missing)))


def test_a_search_that_found_nothing(tmp_path) -> None:
    told = given(tmp_path, "$ sudo dmesg -T | grep -i xid\n$ nproc\n8\n")
    assert told.tells("xids")
    assert told.xids == ()
    assert not given(tmp_path, "$ sudo dmesg -T\n$ nproc\n8\n").tells("xids")
