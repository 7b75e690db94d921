from tests.evidence.series.text import GIB, gib, samples

LOG = """\
[2024-07-24 02:13:16,632] [INFO] [utils.py:781:see_memory_usage] Before initializing optimizer states
[2024-07-24 02:13:16,632] [INFO] [utils.py:782:see_memory_usage] MA 0.81 GB         Max_MA 0.9 GB         CA 0.96 GB         Max_CA 1 GB
[2024-07-24 02:13:16,632] [INFO] [utils.py:789:see_memory_usage] CPU Virtual Memory:  used = 17.18 GB, percent = 6.8%
"""  # noqa: E501


def test_see_memory_usage():
    found = samples(LOG)
    assert [(one.what, one.value.bytes) for one in found] == [
        ("allocated", gib(0.81)),
        ("max_allocated", gib(0.9)),
        ("reserved", gib(0.96)),
        ("max_reserved", GIB),
        ("host_used", gib(17.18)),
    ]
    assert {one.printer for one in found} == {"deepspeed"}
    # Max_CA is rounded to whole GB by DeepSpeed, so it may be off by half of one.
    assert found[3].value.slack_bytes == GIB // 2


def test_throughput_timer_with_its_step():
    found = samples(
        "[2024-03-07 15:27:02,646] [INFO] [timer.py:260:stop] epoch=0/micro_step=199/global_step=199, "
        "RunningAvgSamplesPerSec=58.730622229657506, CurrSamplesPerSec=61.35304005128382, "
        "MemAllocated=6.01GB, MaxMemAllocated=19.52GB"
    )
    assert [(one.what, one.value.bytes, one.step) for one in found] == [
        ("allocated", gib(6.01), 199),
        ("max_allocated", gib(19.52), 199),
    ]


def test_a_line_cut_off_gives_what_is_whole():
    found = samples("MA 2.51 GB         Max_MA 2.51 GB         CA 2.6")
    assert [one.what for one in found] == ["allocated", "max_allocated"]


def test_words_that_only_contain_the_labels():
    assert samples("LLAMA 7 GB and CA 92122; Max_MA see docs") == []
