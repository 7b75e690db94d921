"""The recorder against arithmetic: what a few operators take, keep and give back. Each program runs in a process of
its own, as traces change torch for the process."""

from __future__ import annotations

from tests.tracing.programs import traced

MIB = 1 << 20


def test_a_tensor_takes_its_bytes_and_gives_them_back():
    seen = traced(
        """
        x = torch.zeros(1024, 1024, device="cuda")
        y = x[:10]
        del x
        """
    )
    # 1024 * 1024 floats; the view keeps them until the end.
    assert seen.events[0] == ("alloc", 4 * MIB)
    assert seen.allocated_at_the_end == 4 * MIB


def test_a_view_keeps_the_whole_storage_and_lets_it_go_with_the_last_one():
    seen = traced(
        """
        x = torch.zeros(1024, 1024, device="cuda")
        y = x.view(-1).detach()
        del x
        torch.ones(3, device="cuda")
        del y
        """
    )
    assert seen.events == [("alloc", 4 * MIB), ("alloc", 12), ("free", 12), ("free", 4 * MIB)]


def test_cpu_tensors_are_real():
    seen = traced(
        """
        a = torch.arange(6).reshape(2, 3)
        print((a * 2).sum().item(), a.numpy().tolist())
        """
    )
    assert seen.printed == "30 [[0, 1, 2], [3, 4, 5]]\n"
    assert seen.events == []


def test_copies_to_the_device_take_memory_and_small_values_stay_known():
    seen = traced(
        """
        mask = torch.tensor([True, False, True, True]).cuda()
        ids = torch.tensor([5, 6, 7, 8]).to("cuda")
        print(mask.all().item(), mask.sum().item(), ids[mask].tolist(), ids.max().item(), mask.nonzero().shape[0])
        """
    )
    assert seen.printed == "False 3 [5, 7, 8] 8 3\n"
    assert ("alloc", 4) in seen.events
    assert ("alloc", 32) in seen.events


def test_values_that_were_overwritten_are_not_believed():
    seen = traced(
        """
        x = torch.tensor([4.0, 4.0]).cuda()
        view = x[:1]
        big = torch.randn(5000, device="cuda")
        x.copy_(big[:2])
        print(view.item(), x.sum().item())
        """
    )
    assert seen.printed == "1.0 1.0\n"
    assert any("are 1" in text for text in seen.assumptions)


def test_what_only_a_gpu_knows_is_counted_in_full_and_said():
    seen = traced(
        """
        x = torch.randn(100_000, device="cuda")
        print(x[x > 0].shape[0], bool((x > 100).any()))
        """
    )
    assert seen.printed == "100000 False\n"
    assert any("all were taken" in text for text in seen.assumptions)


def test_a_parameter_stays_the_same_object_when_its_module_moves():
    seen = traced(
        """
        layer = torch.nn.Linear(256, 256)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        weight = layer.weight
        layer.cuda()
        print(weight is layer.weight, weight.device, isinstance(weight, torch.nn.Parameter), weight.is_leaf)
        layer(torch.randn(4, 256, device="cuda")).sum().backward()
        print(weight.grad.device, optimizer.param_groups[0]["params"][0] is weight)
        optimizer.step()
        """
    )
    assert seen.printed == "True cuda:0 True True\ncuda:0 True\n"


def test_tied_weights_stay_tied():
    seen = traced(
        """
        model = torch.nn.Module()
        model.one = torch.nn.Linear(512, 512, bias=False)
        model.two = torch.nn.Linear(512, 512, bias=False)
        model.two.weight = model.one.weight
        model.to("cuda")
        print(model.one.weight is model.two.weight)
        """
    )
    assert seen.printed == "True\n"
    assert seen.allocated_at_the_end == 512 * 512 * 4


def test_a_model_larger_than_the_machine_costs_no_host_memory():
    # 64 layers of 16384 x 16384 floats: 64 GiB.
    seen = traced(
        """
        import resource
        model = torch.nn.Sequential(*[torch.nn.Linear(16384, 16384, bias=False) for _ in range(64)]).cuda()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 3 << 20)
        """
    )
    assert seen.printed == "True\n"
    assert seen.allocated_at_the_end == 64 * 16384 * 16384 * 4


def test_gradients_that_meet_are_added_in_place():
    # x is used twice: its two gradients of 4 MiB meet in autograd, and real tensors are added in place. With the
    # gradients that both products make (4 MiB each), nothing else may be allocated in backward but the loss's.
    seen = traced(
        """
        x = torch.ones(1024, 1024, device="cuda", requires_grad=True)
        loss = (x * 2).sum() + (x * 3).sum()
        mark()
        loss.backward()
        """
    )
    big = [size for kind, size in seen.events_after_mark if kind == "alloc" and size == 4 * MIB]
    assert len(big) == 2


def test_optimizers_use_their_foreach_kernels():
    # torch.optim.AdamW with foreach makes one temporary set of the parameters' size for the square roots.
    seen = traced(
        """
        layers = torch.nn.Sequential(*[torch.nn.Linear(512, 512, bias=False) for _ in range(4)]).cuda()
        optimizer = torch.optim.AdamW(layers.parameters())
        layers(torch.randn(2, 512, device="cuda")).sum().backward()
        optimizer.step()
        """
    )
    set_bytes = 4 * 512 * 512 * 4
    at_peak = seen.peak_by_phase["optimizer"]
    # Parameters, gradients, two moments, the temporary set, and a little beside (steps, input, workspace of cuBLAS).
    assert 5 * set_bytes <= at_peak < 5 * set_bytes + 20 * MIB


def test_autocast_keeps_its_casts_of_weights_until_it_ends():
    seen = traced(
        """
        layer = torch.nn.Linear(1024, 1024, bias=False, device="cuda")
        x = torch.randn(4, 1024, device="cuda")
        mark()
        with torch.autocast("cuda", torch.bfloat16):
            layer(x)
            layer(x)
        """
    )
    casts = [size for kind, size in seen.events_after_mark if kind == "alloc" and size == 2 * MIB]
    assert len(casts) == 1


def test_a_full_card_raises_the_real_exception_at_the_right_allocation():
    seen = traced(
        """
        kept = []
        try:
            for _ in range(10):
                kept.append(torch.zeros(256, 1024, 1024, device="cuda"))
        except torch.OutOfMemoryError as error:
            print(len(kept), str(error)[:58])
        """,
        capacity_bytes=4 << 30,
    )
    # Four of 1 GiB fit.
    assert seen.printed == "4 CUDA out of memory. Tried to allocate 1024.00 MiB. GPU 0 h\n"


def test_the_error_can_be_survived():
    seen = traced(
        """
        batch = 64
        while True:
            try:
                x = torch.zeros(batch, 64, 1024, 1024, device="cuda")
                break
            except RuntimeError:
                batch //= 2
        print(batch)
        """,
        capacity_bytes=3 << 30,
    )
    # 256 MiB for each element of the batch: 8 of them are 2 GiB, 16 would be 4.
    assert seen.printed == "8\n"


def test_views_of_normal_tensors_in_inference_mode_are_normal_each_time():
    seen = traced(
        """
        table = torch.randn(2, 64, 8, device="cuda")
        with torch.inference_mode():
            for _ in range(3):
                one, two = table[:, :16, :].unbind(0)
                print(one.is_inference(), (one * 2).is_inference())
        """
    )
    # As real tensors do: torch.inference_mode's documentation, "views of normal tensors are normal tensors".
    assert seen.printed == "False True\n" * 3


def test_a_module_can_go_to_meta_and_come_back():
    seen = traced(
        """
        model = torch.nn.Module()
        model.one = torch.nn.Linear(512, 512, bias=False)
        model.two = torch.nn.Linear(512, 512, bias=False)
        model.two.weight = model.one.weight
        model.to("meta")
        print(model.one.weight.device, model.one.weight is model.two.weight)
        model.to_empty(device="cuda")
        print(model.one.weight.device)
        """
    )
    assert seen.printed == "meta True\ncuda:0\n"


def test_an_operator_without_a_rule_is_listed_and_bounded():
    seen = traced(
        """
        @torch.library.custom_op("mine::pairs", mutates_args=())
        def pairs(x: torch.Tensor) -> torch.Tensor:
            raise NotImplementedError
        @pairs.register_fake
        def _(x):
            return x.new_empty(x.shape[0], x.shape[0])
        pairs(torch.randn(256, 64, device="cuda"))
        """
    )
    assert seen.unruled == ["mine.pairs.default"]
    # Its argument, and 256 x 256 results.
    assert seen.uncertain == (256 * 64 + 256 * 256) * 4


def test_recurrent_layers_are_said_to_be_an_estimate():
    seen = traced("torch.nn.LSTM(8, 16).cuda()(torch.randn(5, 2, 8, device='cuda'))")
    assert any("LSTM" in text and "estimate" in text for text in seen.assumptions)
