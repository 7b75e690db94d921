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
]
GOOD = [
    """
    import torch
    class Runner:
        def run(self, x):
            self.model.eval()
            with torch.set_grad_enabled(True):
                return self.model(x)
    """,
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


@pytest.mark.parametrize(
    "body",
    [
        "def attack(model, x, y):\n    model.eval()\n    x.requires_grad_(True)\n    return crit(model(x), y)",
        "def attack(model, x, y):\n    model.eval()\n    x = torch.tensor(x, requires_grad=True)\n    print(model(x))",
        "def margin(model, x, y):\n    model.eval()\n    out = model(x)\n    return crit(out, y)",
        "def distill(student, teacher, x):\n    teacher.eval()\n    t = teacher(x)\n    return (t - student(x)).mean()",
        "class M(torch.nn.Module):\n    def forward(self, x):\n        self.tower.eval()\n        return self.tower(x)",
        "class M(torch.nn.Module):\n    def forward(self, x):\n        self.tower.eval()\n        print(self.tower(x))",
        "def test_grad(model, x):\n    model.eval()\n    y = model(x)\n    assert y.requires_grad",
        "class M:\n    def step(self, x):\n        self.m.eval()\n        self.out = self.m(x)",
    ],
)
def test_gradients_that_somebody_may_want(tmp_path, body):
    assert found(tmp_path, f"import torch\n\n{body}\n", "SCR106") == []


@pytest.mark.parametrize(
    "body",
    [
        # What is returned holds the graph: a caller may go backward through it.
        "import torch\ndef evaluate(m, l):\n    m.eval()\n    return torch.cat([m(x) for x in l])\n",
        # Above another decorator it breaks what that one makes of the function.
        "import torch\nclass T:\n    @staticmethod\n    def evaluate(m, l):\n        m.eval()\n        print(m(l))\n",
        # What it calls may train.
        "import torch\ndef main(m, l):\n    fit(m)\n    m.eval()\n    print(m(l))\n",
        # Without torch the module could be imported before, and not after.
        "try:\n    import torch\nexcept ImportError:\n    torch = 0\ndef evaluate(m):\n    m.eval()\n    print(m(0))\n",
        "def evaluate(m, l):\n    import torch\n    m.eval()\n    print(m(l))\n",
    ],
)
def test_a_decorator_that_could_break_something_is_left_to_the_user(tmp_path, body):
    assert [code for _, code in found(tmp_path, body)] == ["SCR106"]
    assert fix_of(tmp_path, body).codes == ()
