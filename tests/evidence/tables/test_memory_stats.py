import json
from collections import OrderedDict
from pprint import pformat

from oomph.evidence.tables import parse_summaries
from tests.evidence.tables.text import document

STATS = {
    "active.all.allocated": 901244,
    "active_bytes.all.current": 22_441_099_264,
    "allocated_bytes.all.allocated": 5_818_070_073_344,
    "allocated_bytes.all.current": 22_441_099_264,
    "allocated_bytes.all.peak": 23_281_008_640,
    "allocated_bytes.small_pool.peak": 512,
    "allocation.all.current": 2214,
    "inactive_split_bytes.all.current": 1_730_674_688,
    "max_split_size": -1,
    "num_alloc_retries": 7,
    "num_device_alloc": 340,
    "num_ooms": 1,
    "oversize_allocations.peak": 3,
    "requested_bytes.all.peak": 23_000_000_000,
    "reserved_bytes.all.peak": 24_172_298_240,
    "segment.all.current": 311,
}
EXPECTED = {key: value for key, value in STATS.items() if value >= 0}


def read(text):
    (table,) = parse_summaries(document(text))
    assert all(value.slack_bytes == 0 for value in table.values.values())
    return {key: value.bytes for key, value in table.values.items()}


def test_a_repr_on_one_line():
    assert read(f"stats: {STATS!r}") == EXPECTED


def test_an_ordered_dict_of_old_pythons():
    pairs = ", ".join(f"('{key}', {value})" for key, value in STATS.items())
    assert read(f"OrderedDict([{pairs}])") == EXPECTED
    assert read(str(OrderedDict(STATS))) == EXPECTED


def test_pretty_printed_and_json():
    assert read(pformat(STATS)) == EXPECTED
    assert read(json.dumps(STATS, indent=2)) == EXPECTED
    assert read(json.dumps(STATS)) == EXPECTED


def test_key_value_lines():
    assert read("\n".join(f"{key:<40}: {value}" for key, value in STATS.items())) == EXPECTED


def test_two_prints_are_two_tables_and_devices_are_read():
    text = f"memory stats of cuda:1\n{pformat(STATS)}\nGPU 0\n{pformat(STATS)}"
    tables = parse_summaries(document(text))
    assert [table.device for table in tables] == [1, 0]
    assert [table.quote.line for table in tables] == [2, 2 + len(STATS) + 1]


def test_other_metrics_are_not_a_print_of_it():
    assert parse_summaries(document("memory/num_ooms: 0  num_alloc_retries: 3")) == []
    assert parse_summaries(document("on_train_batch_start/allocated_bytes.all.peak: 123")) == []
    assert parse_summaries(document("def f(): return stats['allocated_bytes.all.peak']")) == []
