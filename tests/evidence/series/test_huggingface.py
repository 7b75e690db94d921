from tests.evidence.series.text import MIB, figures, samples


def test_trainer_peak_is_the_sum_of_its_four_parts():
    line = (
        "{'train_runtime': 157.1, 'init_mem_cpu_alloc_delta': 8192, 'init_mem_gpu_alloc_delta': 1000, "
        "'init_mem_gpu_peaked_delta': 0, 'train_mem_gpu_alloc_delta': 126487040, "
        "'train_mem_gpu_peaked_delta': 11016635392, 'before_init_mem_gpu': 4747206656, 'epoch': 0.04}"
    )
    (one,) = samples(line)
    assert one.what == "max_allocated"
    assert one.value.bytes == 4_747_206_656 + 1000 + 126_487_040 + 11_016_635_392
    assert (one.value.slack_bytes, one.context) == (0, "train")


def test_trainer_block_in_mb_and_a_negative_delta():
    block = (
        "***** train metrics *****\n"
        "  before_init_mem_cpu        =     5253MB\n"
        "  before_init_mem_gpu        =    34467MB\n"
        "  init_mem_gpu_alloc_delta   =        0MB\n"
        "  train_mem_gpu_alloc_delta  =   -16681MB\n"
        "  train_mem_gpu_peaked_delta =    25509MB\n"
    )
    (one,) = samples(block)
    assert one.value.bytes == (34467 + 0 - 16681 + 25509) * MIB
    assert one.value.slack_bytes == 4 * MIB


def test_a_delta_alone_is_no_size():
    assert (
        figures("{'train_mem_gpu_alloc_delta': 126487040, 'train_mem_gpu_peaked_delta': 11016635392}") == []
    )
    assert figures("  train_mem_gpu_peaked_delta =     7044MB") == []


def test_tracer_of_the_examples():
    log = (
        "GPU Memory before entering the train : 1916\n"
        "GPU Memory consumed at the end of the train (end-begin): 66\n"
        "GPU Peak Memory consumed during the train (max-begin): 7488\n"
        "GPU Total Peak Memory consumed during the train (max): 9404\n"
        "CPU Memory before entering the train : 19411\n"
        "CPU Total Peak Memory consumed during the train (max): 19411"
    )
    assert figures(log) == [
        ("allocated", 1916 * MIB),
        ("max_allocated", 9404 * MIB),
        ("host_used", 19411 * MIB),
    ]


def test_gpu_memory_occupied():
    assert figures("GPU memory occupied: 2631 MB.") == [("used", 2631 * MIB)]
