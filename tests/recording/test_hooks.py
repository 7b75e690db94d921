"""Phases of real loops of PyTorch, on a device that counts nothing."""

from __future__ import annotations

import copy
import gc
import pickle
import threading

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from tests.recording.told import told

STEP = ["forward {0}", "backward {0}", "optimizer {0}", "step {0}"]


def steps(*numbers: int, of: list[str] = STEP) -> list[str]:
    return [line.format(number) for number in numbers for line in of]


class Net(torch.nn.Module):
    def __init__(self, reentrant=None):
        super().__init__()
        self.first = torch.nn.Linear(4, 8)
        self.last = torch.nn.Linear(8, 2)
        self.reentrant = reentrant

    def forward(self, x, mask=None):
        h = self.first(x)
        if self.reentrant is not None:
            h = checkpoint(torch.relu, h, use_reentrant=self.reentrant)
        return self.last(h)


@pytest.fixture
def net():
    return Net()


def sgd(net):
    return torch.optim.SGD(net.parameters(), lr=0.1)


def train(net, optimizer, count=2, rows=3):
    for _ in range(count):
        net(torch.ones(rows, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_a_loop_as_it_is(record, net):
    optimizer = sgd(net)
    with record(model=net, optimizer=optimizer) as run:
        train(net, optimizer)
    assert told(run) == ["load -1", *steps(0, 1), "end completed"]
    forward = run.writer.held[2]
    assert forward.batch == {"x": (3, 4)}


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputation_is_backward(record, reentrant):
    net = Net(reentrant)
    optimizer = sgd(net)
    with record(model=net, optimizer=optimizer) as run:
        train(net, optimizer)
    assert told(run) == ["load -1", *steps(0, 1), "end completed"]


def test_accumulation_clipping_evaluation_and_saving(record, net, tmp_path):
    optimizer = sgd(net)
    with record(model=net, optimizer=optimizer) as run:
        for _ in range(3):
            net(torch.ones(3, 4)).sum().backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            net(torch.ones(5, 4))
            net(torch.ones(6, 4))
        torch.save(net.state_dict(), tmp_path / "x.pt")
        train(net, optimizer, 1)
    assert told(run) == [
        "load -1",
        "forward 0",
        "backward 0",
        "forward 0 x2",
        "backward 0 x2",
        "optimizer 0",
        "step 0",
        "eval 1 x2",
        "save 1 save",
        *steps(1),
        "end completed",
    ]
    assert next(one for one in run.writer.held if getattr(one, "phase", None) == "eval").batch == {
        "x": (6, 4)
    }


def test_evaluation_mode_with_gradients_is_evaluation_unless_a_backward_follows(record, net):
    optimizer = sgd(net)
    with record(model=net, optimizer=optimizer) as run:
        train(net, optimizer, 1)
        net.eval()
        net(torch.ones(3, 4))
        net.train()
        train(net, optimizer, 1)
        net.eval()  # frozen statistics, and trained all the same
        train(net, optimizer, 1)
    assert told(run) == ["load -1", *steps(0), "eval 1", *steps(1, 2), "end completed"]


def test_a_model_that_is_always_in_evaluation_mode_is_trained(record, net):
    net.eval()
    optimizer = sgd(net)
    with record(model=net, optimizer=optimizer) as run:
        train(net, optimizer, 1)
    assert told(run) == ["load -1", *steps(0), "end completed"]


def test_several_models_and_optimizers(record):
    generator, critic = torch.nn.Linear(4, 4), Net()
    ours, theirs = sgd(generator), sgd(critic)
    with record(model=[generator, critic], optimizer={"g": ours, "c": theirs}) as run:
        for _ in range(2):
            critic(generator(torch.ones(2, 4)).detach()).sum().backward()
            theirs.step()
            critic(generator(torch.ones(2, 4))).sum().backward()
            ours.step()
    once = ["forward {0} x2", "backward {0}", "optimizer {0}"]
    assert told(run) == [
        "load -1",
        *steps(0, of=[*once, *once, "step {0}"]),
        *steps(1, of=[*once, *once, "step {0}"]),
        "end completed",
    ]


def test_an_optimizer_that_steps_no_more_does_not_hold_the_others_up(record):
    net, other = Net(), Net()
    optimizer, idle = sgd(net), sgd(other)
    with record(model=net, optimizer=[optimizer, idle]) as run:
        train(net, optimizer, 20)
    assert run.phases.step > 10


def test_a_closure_in_an_optimizer(record, net):
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=1)

    def closure():
        optimizer.zero_grad()
        loss = net(torch.ones(3, 4)).pow(2).sum()
        loss.backward()
        return loss

    with record(model=net, optimizer=optimizer) as run:
        optimizer.step(closure)
        optimizer.step(closure)
    assert told(run) == ["load -1", *steps(0, 1), "end completed"]


def test_optimizers_that_step_in_backward(record, net):
    every = {one: torch.optim.SGD([one], lr=0.1) for one in net.parameters()}

    def step(parameter):
        every[parameter].step()
        every[parameter].zero_grad()

    for one in net.parameters():
        one.register_post_accumulate_grad_hook(step)
    with record(model=net, optimizer=list(every.values())) as run:
        for _ in range(2):
            net(torch.ones(3, 4)).sum().backward()
    of = ["forward {0}", "backward {0}", "step {0}"]
    assert told(run) == ["load -1", *steps(0, 1, of=of), "end completed"]


def test_a_scaler_and_a_step_that_it_skips(record, net):
    optimizer = sgd(net)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    with record(model=net, optimizer=optimizer) as run:
        for value in (1.0, float("inf"), 1.0):
            scaler.scale(net(torch.full((3, 4), value)).sum()).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    # Of the skipped step there is the preparation, and the next batch is the same step's.
    assert told(run) == [
        "load -1",
        *steps(0),
        "forward 1",
        "backward 1",
        "optimizer 1",
        "forward 1",
        "backward 1",
        "optimizer 1",
        "step 1",
        "end completed",
    ]


@pytest.mark.parametrize("when", ["before", "after", "in place before", "in place after"])
def test_compiled_models_are_seen_from_outside(record, net, when):
    optimizer = sgd(net)
    given = net
    if when == "before":
        given = torch.compile(net, backend="eager", fullgraph=True)
    elif when == "in place before":
        net.compile(backend="eager", fullgraph=True)
    with record(model=given, optimizer=optimizer) as run:
        called = given
        if when == "after":
            called = torch.compile(net, backend="eager", fullgraph=True)
        elif when == "in place after":
            net.compile(backend="eager", fullgraph=True)
        train(called, optimizer)
    assert told(run) == ["load -1", *steps(0, 1), "end completed"]
    assert run.writer.held[2].batch == {"x": (3, 4)}
    torch.compiler.reset()


def test_phases_that_the_loop_says(record, net):
    optimizer = sgd(net)
    with record(model=net, optimizer=optimizer) as run:
        batch = torch.ones(3, 4)
        for _ in range(2):
            with run.phase("forward", batch={"x": batch}):
                loss = net(batch).sum()
            with run.phase("backward"):
                loss.backward()
            with run.phase("optimizer"):
                optimizer.step()
        with run.phase("eval", where="whole"), torch.no_grad():
            net(batch)
        with run.phase("my own"):
            pass
    assert told(run) == ["load -1", *steps(0, 1), "eval 2 whole", "unknown 2 my own", "end completed"]


def test_a_loop_without_a_model(record, net):
    optimizer = sgd(net)
    with record() as run:
        train(net, optimizer, 3)
    # What came before the first backward is not told apart.
    assert told(run) == [
        "load -1",
        *steps(0, of=STEP[1:]),
        *steps(1, 2),
        "end completed",
    ]


@pytest.mark.parametrize("place", ["forward", "backward", "optimizer"])
def test_an_exception_that_is_caught_leaves_no_phase_open(record, place):
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            if place == "forward":
                raise ValueError("forward")
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            if place == "backward":
                raise ValueError("backward")
            return grad

    class Breaks(torch.optim.SGD):
        def step(self, closure=None):
            if place == "optimizer" and fails:
                raise ValueError("optimizer")
            return super().step(closure)

    class Failing(Net):
        def forward(self, x, mask=None):
            h = super().forward(x)
            return Fails.apply(h) if fails else h

    net = Failing()
    optimizer = Breaks(net.parameters(), lr=0.1)
    fails = False
    with record(model=net, optimizer=optimizer) as run:
        train(net, optimizer, 1)
        fails = True
        with pytest.raises(ValueError, match=place):
            train(net, optimizer, 1)
        fails = False
        train(net, optimizer, 1)
    lines = told(run)
    broken = [line for line in lines if line.endswith(("ValueError", "exception"))]
    assert len(broken) == 1
    assert broken[0].startswith(f"{place} 1")
    assert lines[-5:-1] == steps(1)


def test_an_exception_that_is_being_handled_is_not_the_forwards(record, net):
    with record(model=net) as run:
        try:
            raise KeyError("outside")
        except KeyError:
            net(torch.ones(3, 4))
    assert told(run) == ["load -1", "forward 0", "end completed"]


def test_ctrl_c_in_a_forward(record, net):
    class Interrupted(Net):
        def forward(self, x, mask=None):
            if stop:
                raise KeyboardInterrupt
            return super().forward(x)

    net = Interrupted()
    optimizer = sgd(net)
    stop = True
    with record(model=net, optimizer=optimizer) as run:
        with pytest.raises(KeyboardInterrupt):
            net(torch.ones(3, 4))
        stop = False  # a notebook goes on
        train(net, optimizer, 1)
    assert told(run) == ["load -1", "forward 0 interrupted", *steps(0), "end completed"]


def test_everything_is_put_back(record, net):
    def hooks():
        from torch.optim import optimizer

        return (
            torch.save,
            torch.autograd._engine_run_backward,
            torch.autograd.graph._engine_run_backward,
            torch.nn.utils.clip_grad_norm_,
            torch.amp.GradScaler.unscale_,
            torch.nn.Module.compile,
            len(optimizer._global_optimizer_pre_hooks),
            len(optimizer._global_optimizer_post_hooks),
            len(net._forward_pre_hooks),
            len(net._forward_hooks),
            dict(vars(net)).keys(),
        )

    before = hooks()
    with record(model=net):
        assert torch.save is not before[0]
    assert hooks() == before


def test_a_patch_of_somebody_else_around_ours_stays(record, monkeypatch):
    calls = []
    with record():
        ours = torch.save

        def theirs(*args, **kwargs):
            calls.append(args)
            return ours(*args, **kwargs)

        monkeypatch.setattr(torch, "save", theirs)
    assert torch.save is theirs
    import io

    torch.save(torch.ones(1), io.BytesIO())
    assert len(calls) == 1


def test_a_copy_is_not_recorded_and_a_pickle_needs_no_oomph(record, net):
    with record(model=net) as run:
        copied = copy.deepcopy(net)
        averaged = torch.optim.swa_utils.AveragedModel(net)
        written = pickle.dumps(net)
        again = pickle.loads(written)  # noqa: S301 - written above
        for one in (copied, averaged, again):
            one(torch.ones(3, 4))
        assert b"oomph" not in written
        assert told(run) == []
        net(torch.ones(3, 4))
    assert told(run) == ["load -1", "forward 0", "end completed"]
    with torch.no_grad():
        assert torch.equal(again(torch.ones(3, 4)), net(torch.ones(3, 4)))


def test_a_model_that_was_wrapped_anew_is_let_go(record):
    with record(model=Net()) as run:
        gc.collect()
        assert len(run.hooks._models) == 0
        again = Net()
        run.watch(again)
        again(torch.ones(3, 4))
    assert told(run) == ["load -1", "forward 0", "end completed"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_trace_for_deployment_is_not_disturbed(record, net):
    with record(model=net):
        traced = torch.jit.trace(net, torch.ones(3, 4))
        exported = torch.export.export(net, (torch.ones(3, 4),))
    assert traced(torch.ones(5, 4)).shape == (5, 2)
    assert exported.module()(torch.ones(3, 4)).shape == (3, 2)


def test_training_in_a_thread(record, net):
    optimizer = sgd(net)
    with record(model=net, optimizer=optimizer) as run:
        thread = threading.Thread(target=train, args=(net, optimizer))
        thread.start()
        thread.join(timeout=60)
    assert told(run) == ["load -1", *steps(0, 1), "end completed"]


def test_generation(record):
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=16, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1
        )
    )
    with record(model=model) as run:
        model.generate(torch.ones(1, 3, dtype=torch.long), max_new_tokens=2, pad_token_id=0)
    assert told(run) == ["load -1", "generate -1 generate", "end completed"]
    generate = run.writer.held[2]
    assert generate.batch["input_ids"] == (1, 3)
