"""What a script reads of memory is what the simulated allocator has."""

from __future__ import annotations

from tests.tracing.programs import traced

MIB = 1 << 20


def test_the_counters_follow_the_tensors():
    said = traced(
        """
        x = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")  # a segment of 20 MiB
        print(torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), torch.cuda.max_memory_allocated())
        del x
        print(torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), torch.cuda.max_memory_allocated())
        torch.cuda.reset_peak_memory_stats()
        print(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
        torch.cuda.empty_cache()
        print(torch.cuda.memory_reserved(), torch.accelerator.memory_reserved())
        print(torch.cuda.memory.memory_reserved("cuda:0"))
        """
    ).printed.splitlines()
    assert said == [
        f"{3 * MIB} {20 * MIB} {3 * MIB}",
        f"0 {20 * MIB} {3 * MIB}",
        f"0 {20 * MIB}",
        "0 0",
        "0",
    ]


def test_statistics_summary_and_reset():
    said = traced(
        """
        x = [torch.empty(1000, device="cuda") for _ in range(3)]
        x.pop()
        stats = torch.cuda.memory_stats()
        print(stats["allocation.all.allocated"], stats["allocation.all.freed"], stats["allocation.all.current"])
        torch.cuda.reset_accumulated_memory_stats()
        x.append(torch.empty(1000, device="cuda"))
        stats = torch.cuda.memory_stats()
        print(stats["allocation.all.allocated"], stats["allocation.all.freed"], stats["allocation.all.current"])
        nested = torch.cuda.memory_stats_as_nested_dict()
        print(nested["allocated_bytes"]["all"]["current"], nested["num_ooms"])
        print(torch.cuda.memory_summary(abbreviated=True))
        """
    ).printed.splitlines()
    assert said[0] == "3 1 2"
    assert said[1] == "1 0 3"
    # 4,000 bytes are rounded to 4,096.
    assert said[2] == f"{3 * 4096} 0"
    table = "\n".join(said[3:])
    assert "PyTorch CUDA memory summary, device ID 0" in table
    assert "| Allocated memory      |  12288 B   |" in table


def test_free_memory_is_the_capacity_less_what_is_reserved_and_total_the_card():
    said = traced(
        """
        print(*torch.cuda.mem_get_info())
        x = torch.empty(30 << 20, dtype=torch.uint8, device="cuda")
        total = torch.cuda.get_device_properties(0).total_memory
        print(*torch.cuda.mem_get_info(), total, torch.cuda.device_memory_used())
        print(torch.cuda.list_gpu_processes().splitlines()[0])
        """,
        capacity_bytes=1 << 30,
    ).printed.splitlines()
    free, total = map(int, said[0].split())
    assert free == 1 << 30
    later, same, properties, used = map(int, said[1].split())
    assert free - later == 30 * MIB
    assert total == same == properties
    assert used == total - later
    assert said[2] == "GPU:0"


def test_a_fraction_makes_the_card_full_earlier_and_the_error_is_torch_s():
    said = traced(
        """
        torch.cuda.set_per_process_memory_fraction(0.25)
        total = torch.cuda.mem_get_info()[1]
        print(torch.cuda.get_per_process_memory_fraction())
        try:
            torch.empty(total // 3, dtype=torch.uint8, device="cuda")
        except torch.cuda.OutOfMemoryError as error:
            print(str(error)[:19], torch.cuda.memory_allocated())
        torch.empty(total // 5, dtype=torch.uint8, device="cuda")
        """
    ).printed.splitlines()
    assert said == ["0.25", "CUDA out of memory. 0"]


def test_memory_without_tensors_and_private_pools():
    said = traced(
        """
        address = torch.cuda.caching_allocator_alloc(1 << 20)
        print(torch.cuda.memory_allocated())
        torch.cuda.caching_allocator_delete(address)
        print(torch.cuda.memory_allocated())
        torch.cuda.empty_cache()
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            x = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
        y = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
        pools = sorted(tuple(segment["segment_pool_id"]) for segment in torch.cuda.memory_snapshot())
        print(pools == sorted([(0, 0), pool.id]), len(pool.snapshot()), torch.cuda.memory_reserved())
        del x, pool
        torch.cuda.empty_cache()
        print(torch.cuda.memory_reserved())
        """
    ).printed.splitlines()
    # 1 MiB is a small request: a segment of 2 MiB in each pool.
    assert said == [str(MIB), "0", f"True 1 {4 * MIB}", str(2 * MIB)]


def test_settings_that_the_script_changes():
    seen = traced(
        """
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")
        x = torch.empty(30 << 20, dtype=torch.uint8, device="cuda")
        print(torch.cuda.memory_snapshot()[0]["is_expandable"])
        torch.cuda.memory._set_allocator_settings("max_split_size_mb:64")
        try:
            torch.cuda.memory._set_allocator_settings("no_such_key:1")
        except ValueError as error:
            print("no_such_key" in str(error))
        """
    )
    assert seen.printed.splitlines()[0] == "True"
    assert any("max_split_size_mb:64" in note for note in seen.notes)


def test_the_script_s_own_history_is_a_window_and_no_file_is_written(tmp_path):
    target = tmp_path / "snapshot.pickle"
    seen = traced(
        f"""
        x = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
        torch.cuda.memory._record_memory_history(max_entries=1000)
        y = torch.empty(2 << 20, dtype=torch.uint8, device="cuda")
        del y
        snapshot = torch.cuda.memory._snapshot()
        print([event["action"] for event in snapshot["device_traces"][0]])
        block = snapshot["segments"][0]["blocks"][0]
        print(block["state"], block["size"], block["frames"][0]["filename"])
        torch.cuda.memory._dump_snapshot({str(target)!r})
        torch.cuda.memory._record_memory_history(enabled=None)
        print(torch.cuda.memory._snapshot()["device_traces"])
        from oomph.tracing.recorder.recorder import current
        print(current().memory(0).windows[-1])
        """
    )
    said = seen.printed.splitlines()
    # 2 MiB is a large request: a new segment of 20 MiB.
    assert said[0] == "['segment_alloc', 'alloc', 'free_requested', 'free_completed']"
    assert said[1] == f"active_allocated {MIB} program.py"
    assert said[2] == "[[]]"
    # Events 0 and 1 are the first segment and block.
    assert said[3] == "(2, 6)"
    assert not target.exists()
    assert seen.suppressed == [f"the memory snapshot {target}"]
