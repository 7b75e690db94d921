from tests.evidence.series.text import GIB, MIB, figures, gib, samples


def test_verl():
    found = samples(
        "Before init actor, memory allocated (GB): 1.5, memory reserved (GB): 2.25, "
        "device memory used/total (GB): 2.5/79.25"
    )
    assert [(one.what, one.value.bytes) for one in found] == [
        ("allocated", gib(1.5)),
        ("reserved", gib(2.25)),
        ("used", gib(2.5)),
    ]
    assert found[2].total is not None
    assert found[2].total.bytes == gib(79.25)


def test_axolotl():
    line = "[load_model:560] GPU memory usage after model load: 3.500GB (+0.250GB cache, +1.125GB misc)"
    assert figures(line) == [("allocated", gib(3.5)), ("reserved", gib(3.75))]


def test_nanotron():
    assert figures(
        "10/02/2024 [INFO|DP=0]:  Memory usage: 3466.5MiB. Peak allocated 3466.5MiB. Peak reserved: 3498.00MiB"
    ) == [
        ("allocated", round(3466.5 * MIB)),
        ("max_allocated", round(3466.5 * MIB)),
        ("max_reserved", 3498 * MIB),
    ]


def test_llama_cookbook_truncates():
    found = samples("Max CUDA memory allocated was 21 GB\nMax CUDA memory reserved was 23 GB")
    assert [(one.what, one.value.bytes, one.value.slack_bytes) for one in found] == [
        ("max_allocated", 21 * GIB, GIB),
        ("max_reserved", 23 * GIB, GIB),
    ]
