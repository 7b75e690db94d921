"""How Lightning's Trainer is led through a trace."""

from __future__ import annotations

import pytest

from tests.tracing.libraries.harness import program

pytest.importorskip("lightning", reason="what is tested is Lightning")

_FIT = """
    import lightning as L
    import torch

    seen = {{"train": 0, "validation": 0, "test": 0}}

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 4)
            self.automatic_optimization = {automatic}
        def loss(self, batch, stage):
            if not self.trainer.sanity_checking:
                seen[stage] += 1
            return self.layer(batch[0]).sum()
        def training_step(self, batch, index):
            loss = self.loss(batch, "train")
            if self.automatic_optimization:
                return loss
            for optimizer in self.optimizers():
                optimizer.zero_grad()
                self.manual_backward(self.layer(batch[0]).sum())
                optimizer.step()
        def validation_step(self, batch, index):
            self.log("val_loss", self.loss(batch, "validation"))
        def test_step(self, batch, index):
            self.loss(batch, "test")
        {more}
        def configure_optimizers(self):
            if self.automatic_optimization:
                return torch.optim.SGD(self.parameters(), lr=0.1)
            return [torch.optim.SGD([one], lr=0.1) for one in self.parameters()]

    def batches(rows):
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(rows, 8)), batch_size=2)

    trainer = L.Trainer(accelerator="gpu", devices=1, {arguments})
    module = Module()
    trainer.fit(module, batches(400), batches(400))
    print("fit", trainer.global_step, *seen.values())
    trainer.test(module, batches(20), ckpt_path={checkpoint})
    print("test", seen["test"])
"""


def _program(arguments: str, *, more: str = "", automatic: bool = True, checkpoint: str = "None") -> str:
    return _FIT.format(arguments=arguments, more=more, automatic=automatic, checkpoint=checkpoint)


def _lines(printed: str) -> list[str]:
    return [line for line in printed.splitlines() if line.startswith(("fit", "test "))]


def test_training_ends_by_itself_and_validation_and_test_run() -> None:
    seen = program(_program("max_epochs=7"), steps=3)
    assert _lines(seen.printed) == ["fit 3 3 4 0", "test 4"]
    assert "a validation ran 4 of its 200 batches" in seen.said
    assert "a test ran 4 of its 10 batches" in seen.said
    assert seen.answer["steps"] == 3
    assert "eval" in seen.answer["phases"]


def test_accumulation_takes_more_batches() -> None:
    seen = program(_program("max_epochs=7, accumulate_grad_batches=4, check_val_every_n_epoch=5"), steps=2)
    assert _lines(seen.printed)[0] == "fit 2 8 4 0"


def test_fewer_steps_than_wanted_are_what_the_script_says() -> None:
    seen = program(_program("max_steps=2"), steps=3)
    assert _lines(seen.printed)[0].startswith("fit 2 2 ")


def test_every_optimizer_has_its_steps() -> None:
    seen = program(_program("max_epochs=7", automatic=False), steps=3)
    assert _lines(seen.printed)[0] == "fit 6 3 4 0"
    assert seen.answer["steps"] == 3


def test_a_module_that_sums_up_at_the_end_is_validated_longer() -> None:
    more = "def on_validation_epoch_end(self): pass"
    seen = program(_program("max_epochs=7", more=more), steps=2)
    assert _lines(seen.printed)[0] == "fit 2 2 64 0"
    assert "what the module keeps of each" in seen.said


def test_the_best_checkpoint_is_tested() -> None:
    seen = program(_program("max_epochs=7", checkpoint="'best'"), steps=2)
    assert _lines(seen.printed) == ["fit 2 2 4 0", "test 4"]
