"""nvidia-smi -q as drivers of several years print it; sizes are what stands there times 2**20."""

from __future__ import annotations

from tests.evidence.environment.texts import given, mib

A100 = """
==============NVSMI LOG==============

Timestamp                                 : Thu May  2 09:14:05 2024
Driver Version                            : 535.161.08
CUDA Version                              : 12.2

Attached GPUs                             : 2
GPU 00000000:07:00.0
    Product Name                          : NVIDIA A100-SXM4-80GB
    Product Brand                         : NVIDIA
    Product Architecture                  : Ampere
    Display Mode                          : Enabled
    Display Active                        : Disabled
    Persistence Mode                      : Enabled
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
    Driver Model
        Current                           : N/A
        Pending                           : N/A
    Serial Number                         : 1563221000017
    GPU UUID                              : GPU-11111111-2222-3333-4444-555555555555
    Minor Number                          : 0
    PCI
        Bus                               : 0x07
        Bus Id                            : 00000000:07:00.0
    FB Memory Usage
        Total                             : 81920 MiB
        Reserved                          : 569 MiB
        Used                              : 18042 MiB
        Free                              : 63308 MiB
    BAR1 Memory Usage
        Total                             : 131072 MiB
        Used                              : 13 MiB
        Free                              : 131059 MiB
    Compute Mode                          : Default
    Utilization
        Gpu                               : 97 %
        Memory                            : 41 %
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable            : 0
            DRAM Correctable              : 12
            DRAM Uncorrectable            : 0
        Aggregate
            SRAM Correctable              : 0
            SRAM Uncorrectable            : 0
            DRAM Correctable              : 177
            DRAM Uncorrectable            : 3
    Retired Pages
        Single Bit ECC                    : N/A
        Double Bit ECC                    : N/A
        Pending Page Blacklist            : N/A
    Remapped Rows
        Correctable Error                 : 1
        Uncorrectable Error               : 3
        Pending                           : Yes
        Remapping Failure Occurred        : No
        Bank Remap Availability Histogram
            Max                           : 636 bank(s)
            None                          : 0 bank(s)
    Temperature
        GPU Current Temp                  : 41 C
    Processes
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 40211
            Type                          : C
            Name                          : /opt/conda/bin/python
            Used GPU Memory               : 17456 MiB
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 2117
            Type                          : G
            Name                          : /usr/lib/xorg/Xorg
            Used GPU Memory               : 4 MiB

GPU 00000000:0B:00.0
    Product Name                          : NVIDIA A100-SXM4-80GB
    Persistence Mode                      : Disabled
    GPU UUID                              : GPU-66666666-7777-8888-9999-000000000000
    FB Memory Usage
        Total                             : 81920 MiB
        Reserved                          : 569 MiB
        Used                              : 4 MiB
        Free                              : 81346 MiB
    Compute Mode                          : Exclusive_Process
    Remapped Rows                         : N/A
    Processes                             : None
"""


def test_two_cards(tmp_path) -> None:
    told = given(tmp_path, A100)
    assert [one.value for one in told.drivers] == ["535.161.08"]
    assert told.drivers[0].quote.line == 4
    assert told.driver_cuda.value == "12.2"
    first, second = told.cards
    assert (first.index, first.name, first.bus_id) == (0, "NVIDIA A100-SXM4-80GB", "00000000:07:00.0")
    assert first.uuid == "GPU-11111111-2222-3333-4444-555555555555"
    assert (first.total_bytes, first.reserved_bytes) == (mib(81920), mib(569))
    assert (first.used_bytes, first.free_bytes) == (mib(18042), mib(63308))
    assert (first.utilization, first.persistence, first.mig, first.display_active) == (97, True, False, False)
    # The larger of the volatile sum (0) and the aggregate one (0 + 3); correctable errors are none.
    assert (first.ecc, first.ecc_uncorrected) == (True, 3)
    assert (first.remap_pending, first.remap_failed) == (True, False)
    assert [(one.pid, one.used_bytes, one.name, one.kind) for one in first.processes] == [
        (40211, mib(17456), "/opt/conda/bin/python", "C"),
        (2117, mib(4), "/usr/lib/xorg/Xorg", "G"),
    ]
    assert (second.index, second.persistence, second.compute_mode) == (1, False, "Exclusive_Process")
    assert second.processes == ()
    assert (second.ecc, second.ecc_uncorrected, second.remap_pending) == (None, None, None)


def test_the_newest_layout_with_uncorrectable_parity_and_sec_ded(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        ==============NVSMI LOG==============

        Driver Version                                         : 580.95.05
        CUDA Version                                           : 13.0

        Attached GPUs                                          : 1
        GPU 00000000:1B:00.0
            Product Name                                       : NVIDIA H100 80GB HBM3
            ECC Errors
                Volatile
                    SRAM Correctable                           : 0
                    SRAM Uncorrectable Parity                  : 1
                    SRAM Uncorrectable SEC-DED                 : 2
                    DRAM Correctable                           : 0
                    DRAM Uncorrectable                         : 4
                Aggregate
                    SRAM Uncorrectable Parity                  : 0
                    SRAM Uncorrectable SEC-DED                 : 0
                    DRAM Uncorrectable                         : 0
                    SRAM Threshold Exceeded                    : No
                Aggregate Uncorrectable SRAM Sources
                    SRAM L2                                    : 90
        """,
    )
    assert told.cards[0].ecc_uncorrected == 1 + 2 + 4


def test_double_bits_and_retired_pages_of_older_cards(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        ==============NVSMI LOG==============
        Driver Version                      : 418.87.00
        Attached GPUs                       : 1
        GPU 00000000:3B:00.0
            Product Name                    : Tesla V100-PCIE-32GB
            Ecc Mode
                Current                     : Enabled
            ECC Errors
                Volatile
                    Single Bit
                        Device Memory       : 9
                        Total               : 9
                    Double Bit
                        Device Memory       : 1
                        Register File       : 0
                        Total               : 1
                Aggregate
                    Single Bit
                        Total               : 12
                    Double Bit
                        Total               : 5
            Retired Pages
                Single Bit ECC              : 2
                Double Bit ECC              : 1
                Pending                     : Yes
            Processes
                Process ID                  : 9011
                    Type                    : C
                    Name                    : python
                    Used GPU Memory         : Not available in WDDM driver model
        """,
    )
    card = told.cards[0]
    assert (card.ecc_uncorrected, card.remap_pending, card.remap_failed) == (5, True, None)
    assert [(one.pid, one.used_bytes) for one in card.processes] == [(9011, None)]


def test_mig_devices(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        ==============NVSMI LOG==============
        Driver Version                            : 535.54.03
        Attached GPUs                             : 1
        GPU 00000000:81:00.0
            Product Name                          : NVIDIA A100-PCIE-40GB
            MIG Mode
                Current                           : Enabled
                Pending                           : Enabled
            MIG Device
                Index                             : 0
                GPU Instance ID                   : 3
                Compute Instance ID               : 0
                Device Attributes
                    Shared
                        Multiprocessor count      : 14
                FB Memory Usage
                    Total                         : 9856 MiB
                    Reserved                      : 0 MiB
                    Used                          : 12 MiB
                    Free                          : 9843 MiB
                BAR1 Memory Usage
                    Total                         : 16383 MiB
            MIG Device
                Index                             : 1
                GPU Instance ID                   : 4
                FB Memory Usage
                    Total                         : 4864 MiB
            GPU UUID                              : GPU-aaaaaaaa-0000-1111-2222-bbbbbbbbbbbb
            FB Memory Usage
                Total                             : 40960 MiB
        """,
    )
    card = told.cards[0]
    assert card.mig
    assert [one.total_bytes for one in card.mig_devices] == [mib(9856), mib(4864)]
    assert card.total_bytes == mib(40960)


def test_one_of_eight_cards_has_no_index_by_its_place(tmp_path) -> None:
    one = A100[: A100.index("GPU 00000000:0B")].replace("GPUs                             : 2", "GPUs  : 8")
    assert given(tmp_path, one).cards[0].index == 0  # its minor number is 0
    other = one.replace(
        "Minor Number                          : 0", "Minor Number                          : 5"
    )
    assert given(tmp_path, other).cards[0].index is None
    assert given(tmp_path, f"$ nvidia-smi -q -i 5\n{other}").cards[0].index == 5


def test_a_cut_end_leaves_what_stands_before_it(tmp_path) -> None:
    cut = A100[: A100.index("        Free                              : 63308")]
    card = given(tmp_path, cut).cards[0]
    assert (card.used_bytes, card.free_bytes, card.processes) == (mib(18042), None, None)


def test_the_same_report_as_xml(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        <?xml version="1.0" ?>
        <!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
        <nvidia_smi_log>
          <timestamp>Thu May  2 09:14:05 2024</timestamp>
          <driver_version>535.161.08</driver_version>
          <cuda_version>12.2</cuda_version>
          <attached_gpus>1</attached_gpus>
          <gpu id="00000000:07:00.0">
            <product_name>NVIDIA A100-SXM4-80GB</product_name>
            <persistence_mode>Enabled</persistence_mode>
            <mig_mode>
              <current_mig>Enabled</current_mig>
              <pending_mig>Enabled</pending_mig>
            </mig_mode>
            <mig_devices>
              <mig_device>
                <index>0</index>
                <gpu_instance_id>1</gpu_instance_id>
                <fb_memory_usage>
                  <total>40192 MiB</total>
                  <used>19 MiB</used>
                </fb_memory_usage>
              </mig_device>
            </mig_devices>
            <uuid>GPU-11111111-2222-3333-4444-555555555555</uuid>
            <minor_number>0</minor_number>
            <fb_memory_usage>
              <total>81920 MiB</total>
              <reserved>569 MiB</reserved>
              <used>18042 MiB</used>
              <free>63308 MiB</free>
            </fb_memory_usage>
            <compute_mode>Prohibited</compute_mode>
            <ecc_errors>
              <volatile>
                <sram_uncorrectable>0</sram_uncorrectable>
                <dram_uncorrectable>2</dram_uncorrectable>
              </volatile>
              <aggregate>
                <dram_uncorrectable>7</dram_uncorrectable>
              </aggregate>
            </ecc_errors>
            <remapped_rows>
              <remapped_row_corr>0</remapped_row_corr>
              <remapped_row_pending>No</remapped_row_pending>
              <remapped_row_failure>Yes</remapped_row_failure>
            </remapped_rows>
            <processes>
              <process_info>
                <gpu_instance_id>N/A</gpu_instance_id>
                <pid>40211</pid>
                <type>C</type>
                <process_name>/opt/conda/bin/python</process_name>
                <used_memory>17456 MiB</used_memory>
              </process_info>
            </processes>
          </gpu>
        </nvidia_smi_log>
        """,
        "smi.xml",
    )
    card = told.cards[0]
    assert (told.drivers[0].value, told.driver_cuda.value) == ("535.161.08", "12.2")
    assert (card.index, card.name, card.total_bytes) == (0, "NVIDIA A100-SXM4-80GB", mib(81920))
    assert (card.reserved_bytes, card.free_bytes, card.compute_mode) == (mib(569), mib(63308), "Prohibited")
    assert (card.ecc_uncorrected, card.remap_pending, card.remap_failed) == (7, False, True)
    assert card.mig
    assert [one.total_bytes for one in card.mig_devices] == [mib(40192)]
    assert [(one.pid, one.used_bytes) for one in card.processes] == [(40211, mib(17456))]
    assert card.quote.text.startswith("GPU")
