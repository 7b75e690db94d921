import pytest

from tests.evidence.series.text import GIB, MIB, figures, gib, samples


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "step 0: loss 0.4412 mem_alloc 74.5 GiB mem_reserved 77.25 GiB",
            [("allocated", gib(74.5)), ("reserved", gib(77.25))],
        ),
        ("step=00001 loss=7.1463 grad_norm=1.690 step_ms=168.6 reserved=74.5GiB", [("reserved", gib(74.5))]),
        (
            "| INFO | rank0 | step 12/400 loss 6.43 lr 3.00e-04 mem 61.25 GiB tok/s 21000",
            [("used", gib(61.25))],
        ),
        (
            "[ 120/9000] d_loss 1.820 g_loss 1.361 alloc 2.5 GiB max 3.5 GiB",
            [("allocated", gib(2.5)), ("max_allocated", gib(3.5))],
        ),
        (
            "[mem] step 125: allocated 22.5 GiB, reserved 22.75 GiB, max allocated 23.5 GiB",
            [("allocated", gib(22.5)), ("reserved", gib(22.75)), ("max_allocated", gib(23.5))],
        ),
        ("2025-03-04 09:01:00 step 0 loss 2.000 reserved 78.5 GiB", [("reserved", gib(78.5))]),
        (
            "epoch 1 iter 40/900 loss 1.79 lr 1.0e-04 data 0.03s step 0.34s mem 21988M",
            [("used", 21988 * MIB)],
        ),
        ("val 3/80 allocated 15.5 GiB", [("allocated", gib(15.5))]),
        ("torch allocated 0 B on cuda:2", [("allocated", 0)]),
        ("caching features: 88%  host rss 58.5 GiB", [("host_used", gib(58.5))]),
        (" Allocated: 3.5GB", [("allocated", gib(3.5))]),
        (
            "Memory Usage:\nAllocated: 3.5 GB\nCached:    4.0 GB",
            [("allocated", gib(3.5)), ("reserved", 4 * GIB)],
        ),
        (
            "GPU memory: 3.5 GB allocated, 4.5 GB reserved",
            [("allocated", gib(3.5)), ("reserved", gib(4.5))],
        ),
        (
            "GPU mem 3.5 GiB allocated 4.5 GiB reserved (step 3)",
            [("allocated", gib(3.5)), ("reserved", gib(4.5))],
        ),
        (
            "[GPU 0] Memory allocated: 1.50 GB",
            [("allocated", gib(1.5))],
        ),
        (
            "epoch 3 mem alloc/reserved 3.5/4.5 GB loss 0.1",
            [("allocated", gib(3.5)), ("reserved", gib(4.5))],
        ),
        ('{"step": 10, "loss": 1.2, "gpu_mem_gb": 12.5}', [("used", gib(12.5))]),
        ("step 4 peak_mem_alloc_gb=12.5 loss=2", [("max_allocated", gib(12.5))]),
        ("Peak GPU Memory Reserved (GB):  12.5", [("max_reserved", gib(12.5))]),
        ("Peak reserved memory = 13.5 GB.", [("max_reserved", gib(13.5))]),
        ("step 10 | loss 2.5 | peak mem 40.5 GiB", [("max_allocated", gib(40.5))]),
        ("VRAM used: 10.5 GB", [("used", gib(10.5))]),
        ("saved /work/out, peak memory allocated 61.5 GiB, free 12.5 GiB", [("max_allocated", gib(61.5))]),
    ],
)
def test_figures_that_people_log(line, expected):
    assert figures(line) == expected


def test_used_of_total():
    (one,) = samples("epoch 0 it 120/500 data 0.0052s gpu_mem 11.5/24.0 GiB")
    assert (one.what, one.value.bytes, one.step, one.context) == ("used", gib(11.5), 120, "train")
    assert one.total is not None
    assert one.total.bytes == 24 * GIB
    (other,) = samples("GPU memory before first step: allocated 9.5 GiB of 10.75 GiB")
    assert other.total is not None
    assert (other.what, other.value.bytes, other.total.bytes) == ("allocated", gib(9.5), gib(10.75))


def test_rank_device_and_context_of_the_line():
    (one,) = samples("[init] rank 2: torch allocated 512 B on cuda:3")
    assert (one.rank, one.device, one.step, one.printer) == (2, 3, None, "generic")
    (evaluation,) = samples("val 3/80 allocated 15.5 GiB")
    assert (evaluation.context, evaluation.step) == ("eval", 3)


def test_gb_may_be_decimal():
    (one,) = samples("step 3 loss 2.0 mem 20.0 GB")
    assert one.value.bytes == 20 * GIB
    assert one.value.low_bytes <= 20_000_000_000


@pytest.mark.parametrize(
    "line",
    [
        # files, data, models
        "2025-03-04 08:50:00 [data] shard-00000.tar ok, 7210 samples, 1.08 GB",
        "loading 4.27 GB checkpoint into memory",
        "model-00001-of-00004.safetensors: 100%|####| 4.98G/4.98G [00:10<00:00, 480MB/s]",
        "model to cuda:0 (fp16, 13.1 GB on disk)",
        "Model memory footprint: 13.1 GB on the GPU",
        "step 3: allocated 512 MB pinned buffers",
        # error messages, whole and wrapped
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB",
        "already allocated; 286.38 MiB free; 77.22 GiB reserved in total by PyTorch) If reserved memory is",
        "process has 23.13 GiB memory in use. Of the allocated memory 20.90 GiB is allocated by PyTorch, and",
        "Currently allocated     : 11.62 GiB",
        "PyTorch limit (set by user-supplied memory fraction): 12.00 GiB",
        "GPU 0; 4.00 GiB total capacity; 3.31 GiB already allocated; 3.43 GiB reserved in total by PyTorch",
        # estimates, needs, limits, engines
        "logits buffer estimate: 16384 x 262144 x 2 B = 8.00 GiB (bf16), 16.00 GiB (fp32)",
        "estimated peak GPU memory: 31.0 GiB",
        "this run would need GPU memory of 31.0 GiB",
        "model weights take 14.18 GiB; KV cache 0.61 GiB",
        "GPU KV cache memory: 15.02 GiB",
        "the current vLLM instance can use total_gpu_memory (79.11GiB) x gpu_memory_utilization (0.30) = 23.73GiB",
        "Tesla T4. Num GPUs = 1. Max memory: 14.741 GB. Platform: Linux.",
        "5 GPUs detected, 5 x 7.80 GiB",
        "total GPU memory: 24.0 GiB",
        "gpu memory 3.0 GiB free",
        "srun --mem=64G --gres=gpu:4 python train.py",
        "salloc: Granted job allocation 1234, 64 GB",
        "eager: 1.91 img/s, peak 22.7 GiB",
        "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128",
        # host memory and others'
        "pid=991, memory used=4.10GB) was running was 120.44GB / 125.70GB (0.958154), which exceeds",
        "memory 12.5 GB",
        "Cached: 12.5 GB",
        "reserved 10 GB of scratch",
        "worker 0: model 124.4M parameters built, memory mapped",
    ],
)
def test_figures_that_are_something_else(line):
    assert figures(line) == []


def test_a_wrapped_message_leaves_no_sample():
    wrapped = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB. GPU 0 has a\n"
        "total capacity of 23.64 GiB of which 521.31 MiB is free. Of the\n"
        "allocated memory 20.90 GiB\n"
        "is allocated by PyTorch, and 1.61 GiB is reserved by PyTorch but unallocated."
    )
    assert figures(wrapped) == []


def test_a_summary_table_is_not_read_as_log_lines():
    assert figures("| Allocated memory      |  21401 MiB |  22202 MiB |   5418 GiB |   5397 GiB |") == []


def test_order_is_that_of_the_text_and_no_figure_comes_twice():
    log = (
        "step 1 loss 2.0 mem 1.5 GiB\n"
        "MA 2.5 GB         Max_MA 2.5 GB         CA 2.5 GB         Max_CA 3 GB\n"
        "step 2 loss 2.0 mem 1.5 GiB"
    )
    found = samples(log)
    assert [one.position.line for one in found] == [0, 1, 1, 1, 1, 2]
    assert [one.what for one in found[1:5]] == ["allocated", "max_allocated", "reserved", "max_reserved"]
