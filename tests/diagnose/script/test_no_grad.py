import pytest

from tests.diagnose.script.marked import fix_of, found, marked

BAD = [
    """
    def evaluate(model, loader):
        model.eval()
        for x in loader:
            y = model(x)  # SCR106
    """,
    """
    def validate(model, loader):
        for x in loader:
            y = model(x)  # SCR106
    """,
    """
    def train(model, loader, test, optimizer):
        for epoch in range(3):
            model.train()
            for x in loader:
                model(x).sum().backward()
            model.eval()
            for x in test:
                y = model(x)  # SCR106
    """,
    """
    import torch
    net.eval()
    with torch.autocast("cuda"):
        y = net(x)  # SCR106
    """,
    """
    import torch
    class Runner:
        def run(self, x):
            self.model.eval()
            with torch.set_grad_enabled(True):
                return self.model(x)  # SCR106
    """,
]
GOOD = [
    """
    import torch
    @torch.no_grad()
    def evaluate(model, loader):
        model.eval()
        for x in loader:
            y = model(x)
    """,
    """
    from torch import inference_mode
    def evaluate(model, loader):
        model.eval()
        with inference_mode():
            for x in loader:
                y = model(x)
    """,
    """
    import torch
    def evaluate(model, loader):
        model.eval()
        torch.set_grad_enabled(False)
        for x in loader:
            y = model(x)
    """,
    """
    import torch
    def run(model, loader, phase):
        model.eval()
        with torch.set_grad_enabled(phase == "train"):
            y = model(loader)
    """,
    """
    import torch
    def evaluate(model, loader):
        model.eval()
        for x in loader:
            y = model(x)
    def main(model, loader):
        with torch.no_grad():
            evaluate(model, loader)
    """,
    """
    def attack(model, x):
        model.eval()
        loss = model(x).sum()
        loss.backward()
    """,
    """
    import lightning
    class Lit(lightning.LightningModule):
        def validation_step(self, batch, index):
            for part in batch:
                y = self.model(part)
    """,
    """
    def distill(teacher, student, loader):
        teacher.eval()
        teacher.requires_grad_(False)
        for x in loader:
            (student(x) - teacher(x)).sum().backward()
    """,
    """
    def distill(teacher, x):
        teacher.eval()
        for p in teacher.parameters():
            p.requires_grad = False
        return teacher(x)
    """,
    """
    def step(model, x):
        model.eval()
        model.train()
        return model(x)
    """,
    """
    import pandas as pd
    df.eval("a + b")
    y = df(x)
    """,
]


@pytest.mark.parametrize("text", BAD)
def test_a_graph_in_evaluation(tmp_path, text):
    assert found(tmp_path, text, "SCR106") == marked(text)
    assert marked(text)


@pytest.mark.parametrize("text", GOOD)
def test_no_graph_or_one_that_is_meant(tmp_path, text):
    assert found(tmp_path, text, "SCR106") == []


def test_the_decorator_is_put_on(tmp_path):
    mended = fix_of(
        tmp_path,
        """
        import torch

        class Trainer:
            def evaluate(self, loader):
                self.model.eval()
                return [self.model(x).argmax(-1) for x in loader]
        """,
    )
    assert "    @torch.no_grad()\n    def evaluate(self, loader):\n" in mended.text
    assert found(tmp_path, mended.text) == []


def test_a_loop_that_trains_as_well_is_not_changed(tmp_path):
    mended = fix_of(
        tmp_path,
        """
        import torch
        def train(model, loader, test, optimizer):
            model.train()
            for x in loader:
                model(x).sum().backward()
                optimizer.step()
            model.eval()
            for x in test:
                print(model(x))
        """,
    )
    assert mended.text == mended.script.text
    assert mended.codes == ()


def test_outputs_that_are_collected(tmp_path):
    text = """
    import torch
    @torch.no_grad()
    def predict(model, loader):
        model.eval()
        kept, small, moved, ids = [], [], [], []
        for x in loader:
            out = model(x)
            kept.append(out.logits)  # SCR116
            small.append(out.loss.item())
            moved.append(out.logits.float().cpu())
            ids.append(out.logits.argmax(-1))
        return torch.cat(kept)
    """
    assert found(tmp_path, text) == marked(text)
