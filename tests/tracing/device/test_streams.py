"""Streams, events, random numbers and profilers."""

from __future__ import annotations

from tests.tracing.programs import traced


def test_allocations_go_to_the_current_stream():
    said = traced(
        """
        side = torch.cuda.Stream()
        print(torch.cuda.current_stream() == torch.cuda.default_stream(), isinstance(side, torch.Stream))
        with torch.cuda.stream(side):
            print(torch.cuda.current_stream() == side)
            x = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
        with side:
            print(torch.accelerator.current_stream() == side)
        y = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
        streams = sorted(segment["stream"] for segment in torch.cuda.memory_snapshot())
        print(streams == [0, side.cuda_stream], torch.cuda.current_stream().cuda_stream)
        side.wait_stream(torch.cuda.current_stream())
        print(side.query(), side == torch.cuda.default_stream(), len({side, torch.cuda.default_stream(), side}))
        print(isinstance(torch.Stream("cuda"), torch.cuda.Stream), torch.cuda.Stream(priority=-1).priority)
        """
    ).printed.splitlines()
    assert said == ["True True", "True", "True", "True 0", "True False 2", "True -1"]


def test_pools_of_streams_are_handed_out_in_turn():
    said = traced(
        """
        streams = [torch.cuda.Stream() for _ in range(33)]
        print(len({stream.cuda_stream for stream in streams}), streams[0] == streams[32])
        print(torch.cuda.Stream(priority=-1) in streams, torch.cuda.default_stream() in streams)
        """
    ).printed.splitlines()
    # kStreamsPerPool = 32 (c10/cuda/CUDAStream.h): the 33rd is the first again.
    assert said == ["32 True", "False False"]


def test_memory_used_on_another_stream_waits_for_the_host():
    said = traced(
        """
        side = torch.cuda.Stream()
        x = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
        x.record_stream(side)
        del x
        state = lambda: sorted(b["state"] for s in torch.cuda.memory_snapshot() for b in s["blocks"])
        print(state())
        torch.cuda.synchronize()
        y = torch.empty(512, dtype=torch.uint8, device="cuda")
        print(state())
        """
    ).printed.splitlines()
    assert "active_pending_free" in said[0] or "active_awaiting_free" in said[0]
    assert said[1] == "['active_allocated', 'inactive']"


def test_events():
    seen = traced(
        """
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        end.record(torch.cuda.current_stream())
        end.synchronize()
        print(begin.elapsed_time(end) > 0, end.query(), isinstance(end, torch.Event))
        torch.cuda.current_stream().wait_event(end)
        print(torch.cuda.current_stream().record_event() is not None)
        try:
            torch.cuda.Event().elapsed_time(end)
        except ValueError as error:
            print("enable_timing" in str(error))
        other = torch.Event("cuda", enable_timing=True)
        other.record()
        print(isinstance(other, torch.cuda.Event))
        """
    )
    assert seen.printed.splitlines() == ["True True True", "True", "True", "True"]
    assert any("CUDA events" in text for text in seen.assumptions)


def test_random_state():
    said = traced(
        """
        state = torch.cuda.get_rng_state()
        print(state.device, state.dtype, state.numel())
        torch.manual_seed(7)
        print(torch.cuda.initial_seed())
        with torch.random.fork_rng(devices=[0]):
            torch.manual_seed(8)
            print(torch.cuda.initial_seed())
        print(torch.cuda.initial_seed())
        torch.cuda.set_rng_state(state)
        print(torch.equal(torch.cuda.get_rng_state(), state), len(torch.cuda.get_rng_state_all()))
        generator = torch.Generator(device="cuda").manual_seed(3)
        print(generator.device, generator.initial_seed(), isinstance(generator, torch.Generator))
        print(torch.randn(2, device="cuda", generator=generator).shape[0])
        cpu = torch.Generator().manual_seed(3)
        print(cpu.device, isinstance(cpu, torch.Generator), torch.rand(1, generator=cpu).device)
        """
    ).printed.splitlines()
    # CUDAGeneratorImpl: a seed and an offset, 8 bytes each, on the CPU.
    assert said[0] == "cpu torch.uint8 16"
    assert said[1:4] == ["7", "8", "7"]
    assert said[4] == "True 1"
    assert said[5:] == ["cuda:0 3 True", "2", "cpu True cpu"]


def test_checkpointing_saves_and_restores_the_state():
    said = traced(
        """
        from torch.utils.checkpoint import checkpoint
        layer = torch.nn.Linear(4, 4, device="cuda")
        for reentrant in (False, True):
            x = torch.ones(2, 4, device="cuda", requires_grad=True)
            checkpoint(torch.nn.Sequential(layer, torch.nn.Dropout(0.1)), x, use_reentrant=reentrant).sum().backward()
            print(x.grad.shape[0])
        """
    ).printed
    assert said == "2\n2\n"


def test_profilers_and_markers():
    seen = traced(
        """
        from torch.profiler import ProfilerActivity, profile, record_function
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            with record_function("mine"), torch.cuda.nvtx.range("marked"):
                torch.ones(3) + 1
        print(any(event.key == "mine" for event in profiler.key_averages()))
        with torch.autograd.profiler.emit_nvtx():
            torch.ones(3) + 1
        print(torch.cuda.nvtx.range_push("a"), torch.cuda.nvtx.range_push("b"), torch.cuda.nvtx.range_pop())
        torch.cuda.profiler.start()
        torch.cuda.profiler.stop()
        """
    )
    assert seen.printed.splitlines() == ["True", "0 1 1"]
    assert "torch's profiler recorded the CPU only" in seen.assumptions


def test_where_pinning_asks_a_driver_a_copy_stands_in():
    # As in CUDA builds of torch 2.4.
    said = traced(
        """
        from oomph.tracing.device.answers import host
        from oomph.tracing.device.answers.state import State
        from oomph.tracing.recorder.recorder import current
        def no_driver(tensor, *_):
            raise RuntimeError("CUDA error: no driver")
        current().patches.set(torch.Tensor, "pin_memory", no_driver)
        host.install(State(current()))
        x = torch.arange(3)
        y = x.pin_memory()
        y[0] = 7
        print(x.tolist(), y.tolist(), y.is_pinned())
        """
    ).printed
    assert said == "[0, 1, 2] [7, 1, 2] False\n"
