"""`PYTORCH_ALLOC_CONF`: what PyTorch 2.13 did with each of these texts (run on its CPU build), and older rules."""

from __future__ import annotations

import pytest

from oomph.errors import UsageError
from oomph.memory.allocator.errors import SettingsError
from oomph.memory.allocator.settings import AllocatorSettings

MIB = 2**20
INDEX = "Index out of bounds in ConfigTokenizer"
ACCEPTED = [
    "",
    "max_split_size_mb:20",
    "max_split_size_mb:-1",
    "max_split_size_mb:99999999999",
    "max_split_size_mb:128abc",
    "max_split_size_mb:128,",
    "max_split_size_mb: 128 , expandable_segments : True",
    "max_split_size_mb:12 8",
    "max_split_size_mb:+64",
    "max_split_size_mb:0064",
    "max_non_split_rounding_mb:20",
    "large_segment_size_mb:11",
    "large_segment_size_mb:20",
    "garbage_collection_threshold:0.8",
    "garbage_collection_threshold:1e-3",
    "garbage_collection_threshold:0.5x",
    "roundup_power2_divisions:1",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
    "roundup_power2_divisions:[]",
    "roundup_power2_divisions:[64:8,]",
    "roundup_power2_divisions:[64:8,>:1],expandable_segments:True",
    "roundup_power2_divisions:[>:4]",
    "roundup_power2_divisions:[>:4,64:2]",
    "roundup_power2_divisions:[131072:8]",
    "expandable_segments:False",
    "pinned_use_background_threads:True",
    "pinned_max_round_threshold_mb:5",
    "pinned_max_cached_size_mb:5",
    "backend:native",
    "backend:cudaMallocAsync",
    "release_lock_on_cudamalloc:True",
    "per_process_memory_fraction:0.9",
]
REFUSED = [
    (",", INDEX),
    (",,", INDEX),
    (":", INDEX),
    ("max_split_size_mb:19", "CachingAllocator option max_split_size_mb too small, must be >= 20"),
    ("max_split_size_mb:1.5", "CachingAllocator option max_split_size_mb too small, must be >= 20"),
    ("max_split_size_mb:0x80", "CachingAllocator option max_split_size_mb too small, must be >= 20"),
    ("max_split_size_mb:abc", "stoull"),
    ("max_split_size_mb:99999999999999999999999", "stoull"),
    ("max_split_size_mb:", INDEX),
    ("max_split_size_mb", INDEX),
    ("max_split_size_mb=128", INDEX),
    ("max_non_split_rounding_mb:10", "option max_non_split_rounding_mb too small, must be >= 20"),
    ("large_segment_size_mb:10", "CachingAllocator option large_segment_size_mb must be > 10 MB"),
    ("large_segment_size_mb:64,max_split_size_mb:32", "max_split_size_mb too small, must be >= 64"),
    ("max_split_size_mb:32,large_segment_size_mb:64", "max_split_size_mb too small, must be >= 64"),
    ("garbage_collection_threshold:0", "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"),
    ("garbage_collection_threshold:1.0", "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"),
    ("garbage_collection_threshold:nan", "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"),
    ("garbage_collection_threshold:-0.1", "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"),
    ("garbage_collection_threshold:inf", "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"),
    ("garbage_collection_threshold:80", "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"),
    ("garbage_collection_threshold:x", "stod"),
    ("roundup_power2_divisions:0", "For roundups, the divisions has to be power of 2"),
    ("roundup_power2_divisions:3", "For roundups, the divisions has to be power of 2"),
    ("roundup_power2_divisions:[256:1,>:3]", "has to be power of 2 or 0 to disable roundup"),
    ("roundup_power2_divisions:[64:8 128:4]", "has to be power of 2 or 0 to disable roundup"),
    ("roundup_power2_divisions:[3:4]", "For roundups, the intervals have to be power of 2"),
    ("roundup_power2_divisions:[0:8]", "For roundups, the intervals have to be power of 2"),
    ("roundup_power2_divisions:[0.5:8]", "For roundups, the intervals have to be power of 2"),
    ("roundup_power2_divisions:[64:8", INDEX),
    ("roundup_power2_divisions:[64]", INDEX),
    ("expandable_segments:true", "Expected 'True' or 'False' at index 2 in ConfigTokenizer but got 'true'"),
    ("expandable_segments:1", "Expected 'True' or 'False' at index 2 in ConfigTokenizer but got '1'"),
    ("expandable_segments:[True]", "at index 2 in ConfigTokenizer but got '['"),
    ("expandable_segments::True", "at index 2 in ConfigTokenizer but got ':'"),
    ("expandable_segments=True", INDEX),
    ("expandable_segments:True expandable", "at index 2 in ConfigTokenizer but got 'Trueexpandable'"),
    ("expandable_segments:True;max_split_size_mb:128", "but got 'True;max_split_size_mb'"),
    ("expandable_segments:True max_split_size_mb:128", "but got 'Truemax_split_size_mb'"),
    ("expandable_segments:True:max_split_size_mb", INDEX),
    ("pinned_use_background_threads:x", "at index 2 in ConfigTokenizer but got 'x'"),
    ("pinned_max_round_threshold_mb:x", "stoull"),
    ("nonsense", INDEX),
    ("nonsense:[1", "Expected closing bracket ']' in ConfigTokenizer but reached end of config"),
]
#: The CPU build lets these pass; the reasons are those of CUDAAllocatorConfig.cpp.
REFUSED_BY_CUDA = [
    ("nonsense:1", "Unrecognized key 'nonsense' in CUDA allocator config."),
    ("nonsense:[1,2]", "Unrecognized key 'nonsense' in CUDA allocator config."),
    ("expandable_segments:True,,max_split_size_mb:128", "Unrecognized key ','"),
    ("backend:foo", "Unknown allocator backend, options are native and cudaMallocAsync"),
    ("release_lock_on_cudamalloc:x", "Expected 'True' or 'False'"),
    ("per_process_memory_fraction:1.5", "per_process_memory_fraction is invalid, set it in [0.0, 1.0]"),
    ("pinned_num_register_threads:3", "Number of register threads has to be power of 2, got 3"),
    ("pinned_num_register_threads:256", "should be less than or equal to 128, got 256"),
    ("pinned_reserve_segment_size_mb:0", "Pinned reserve segment size has to be greater than 0"),
    ("throw_on_cudamalloc_oom:yes", "but got 'yes'"),
]
#: CUDAAllocatorConfig.cpp of 2.9 and before.
REFUSED_BEFORE_2_10 = [
    ("max_split_size_mb:20", "CachingAllocator option max_split_size_mb too small, must be > 20"),
    ("max_split_size_mb", "Error parsing CachingAllocator settings, expected :"),
    ("max_split_size_mb:", "Error, expecting max_split_size_mb value"),
    ("max_split_size_mb:99999999999", "stoi"),
    ("garbage_collection_threshold:0", "garbage_collect_threshold too small, set it 0.0~1.0"),
    ("garbage_collection_threshold:1", "garbage_collect_threshold too big, set it 0.0~1.0"),
    ("expandable_segments:true", "Expected a single True/False argument for expandable_segments"),
    ("expandable_segments:True:True", "Error parsing CachingAllocator settings, expected ,"),
    ("large_segment_size_mb:64", "Unrecognized CachingAllocator option: large_segment_size_mb"),
    ("backend:", "Error parsing backend value"),
    ("pinned_num_register_threads:3", "Number of register threads has to be power of 2"),
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text):
    AllocatorSettings.parse(text)


@pytest.mark.parametrize(("text", "reason"), REFUSED + REFUSED_BY_CUDA)
def test_refused_with_the_reason(text, reason):
    with pytest.raises(SettingsError) as caught:
        AllocatorSettings.parse(text)
    assert reason in str(caught.value)
    assert isinstance(caught.value, UsageError)


@pytest.mark.parametrize(("text", "reason"), REFUSED_BEFORE_2_10)
def test_older_versions_are_stricter(text, reason):
    with pytest.raises(SettingsError) as caught:
        AllocatorSettings.parse(text, torch=(2, 9))
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("key", "last_without"),
    [
        ("expandable_segments:True", (2, 0)),
        ("max_non_split_rounding_mb:64", (2, 5)),
        ("per_process_memory_fraction:0.5", (2, 9)),
        ("expandable_segments_reserve:0.5", (2, 13)),
    ],
)
def test_a_key_is_unknown_before_its_version(key, last_without):
    with pytest.raises(SettingsError, match=r"Unrecognized (key|CachingAllocator option)"):
        AllocatorSettings.parse(key, torch=last_without)
    AllocatorSettings.parse(key, torch=(last_without[0], last_without[1] + 1))


def test_values():
    found = AllocatorSettings.parse(
        "expandable_segments:True,max_split_size_mb:128,max_non_split_rounding_mb:64,"
        "garbage_collection_threshold:0.75,large_segment_size_mb:32,per_process_memory_fraction:0.5,"
        "pinned_num_register_threads:8"
    )
    assert found.expandable_segments
    assert found.max_split_size_bytes == 128 * MIB
    assert found.max_non_split_rounding_bytes == 64 * MIB
    assert found.garbage_collection_threshold == 0.75
    assert found.large_segment_size_bytes == 32 * MIB
    assert found.fraction == 0.5
    assert found.other == (("pinned_num_register_threads", "8"),)
    assert AllocatorSettings.parse("") == AllocatorSettings()


def test_the_last_of_two_values_counts():
    found = AllocatorSettings.parse("max_split_size_mb:64,max_split_size_mb:32")
    assert found.max_split_size_bytes == 32 * MIB


def test_a_negative_size_wraps_to_unlimited():
    assert AllocatorSettings.parse("max_split_size_mb:-1").max_split_size_bytes is None


@pytest.mark.parametrize(
    ("text", "torch", "divisions"),
    [
        ("4", (2, 13), (4,) * 16),
        # 256 MB is entry 8; the first one named also fills all before it; > fills what is behind the last
        ("[256:1,512:2,1024:4,>:8]", (2, 13), (1,) * 9 + (2, 4) + (8,) * 5),
        ("[256:1,1024:4]", (2, 13), (1,) * 9 + (0, 4) + (0,) * 5),
        # before 2.10, > overwrote the last one named too
        ("[256:1,512:2,1024:4,>:8]", (2, 9), (1,) * 9 + (2,) + (8,) * 6),
        ("[131072:8]", (2, 13), (8,) * 16),
        ("[]", (2, 13), (0,) * 16),
    ],
)
def test_divisions(text, torch, divisions):
    found = AllocatorSettings.parse(f"roundup_power2_divisions:{text}", torch)
    assert found.roundup_power2_divisions == divisions


@pytest.mark.parametrize(
    ("torch", "fraction", "limit"),
    [
        ((2, 13), None, None),
        ((2, 13), 0.5, 500),
        ((2, 4), 0.5, 500),
        ((2, 4), 1.0, 1000),
        ((2, 5), 1.0, None),
        ((2, 13), 1.0, None),
        ((2, 13), 0.0, 0),
    ],
)
def test_the_limit_of_a_fraction(torch, fraction, limit):
    assert AllocatorSettings(fraction=fraction, torch=torch).limit_bytes(1000) == limit


def test_rounding_of_the_limit_since_2_13():
    # 0.29 * 100 is 28.999999999999996 in floating point
    assert AllocatorSettings(fraction=0.29, torch=(2, 13)).limit_bytes(100) == 29
    assert AllocatorSettings(fraction=0.29, torch=(2, 12)).limit_bytes(100) == 28
