"""What counts as a training step where several optimizers take part."""

from __future__ import annotations

from tests.tracing.programs import traced

GAN = """
critic, generator = torch.nn.Linear(64, 64).cuda(), torch.nn.Linear(64, 64).cuda()
of_critic = torch.optim.Adam(critic.parameters())
of_generator = torch.optim.Adam(generator.parameters())
for _ in range(4):
    for _ in range(5):
        critic(torch.randn(2, 64, device="cuda")).sum().backward()
        of_critic.step()
        of_critic.zero_grad()
    generator(torch.randn(2, 64, device="cuda")).sum().backward()
    of_generator.step()
    print("whole")
"""


def test_a_critic_that_steps_five_times_is_one_step_with_its_generator():
    assert traced(GAN).steps_done == 4
    # The trace ends in the generator's second step: the first round printed, the second did not come to it.
    seen = traced(GAN, steps=2)
    assert (seen.steps_done, seen.printed) == (2, "whole\n")


def test_an_optimizer_for_each_parameter_that_steps_in_backward():
    seen = traced(
        """
        model = torch.nn.Sequential(*[torch.nn.Linear(32, 32) for _ in range(3)]).cuda()
        optimizers = {one: torch.optim.AdamW([one], foreach=False) for one in model.parameters()}
        def step(parameter):
            optimizers[parameter].step()
            optimizers[parameter].zero_grad()
        for one in model.parameters():
            one.register_post_accumulate_grad_hook(step)
        for _ in range(5):
            model(torch.randn(2, 32, device="cuda")).sum().backward()
        """,
        steps=2,
    )
    assert seen.steps_done == 2
    # Two moments of each of three weights, made in the first step.
    sizes = [one["size"] for one in seen.blocks if one["category"] == "optimizer state"]
    assert sizes.count(32 * 32 * 4) == 6


def test_an_optimizer_whose_turn_never_comes_does_not_hold_up_the_trace():
    seen = traced(
        """
        model, later = torch.nn.Linear(32, 32).cuda(), torch.nn.Linear(32, 32).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        second = torch.optim.SGD(later.parameters(), lr=0.1)
        for number in range(100):
            model(torch.randn(2, 32, device="cuda")).sum().backward()
            optimizer.step()
        """,
        steps=2,
    )
    assert seen.steps_done == 2


def test_the_step_of_a_base_class_inside_its_subclass_is_no_other():
    seen = traced(
        """
        class Mine(torch.optim.Adam):
            @torch.no_grad()
            def step(self, closure=None):
                return super().step(closure)
        model = torch.nn.Linear(32, 32).cuda()
        replaced = torch.optim.Adam(model.parameters())
        optimizer = Mine(model.parameters())
        for _ in range(3):
            model(torch.randn(2, 32, device="cuda")).sum().backward()
            optimizer.step()
        """
    )
    # The first Adam never steps, and has nothing left to change.
    assert seen.steps_done == 3
