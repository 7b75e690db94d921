import pytest

from tests.diagnose.script.marked import fix_of, found, marked

LOOP = """
import torch
import torch.nn.functional as F

def train(model, loader, optimizer, scaler, accelerator, criterion, writer):
    total, losses, log = 0.0, [], {{}}
    for step, (x, y) in enumerate(loader):
        out = model(x)
        loss = criterion(out, y)
        {backward}
        optimizer.step()
        {keep}
    {after}
    return total
"""


@pytest.mark.parametrize(
    "backward",
    [
        "loss.backward()",
        "scaler.scale(loss).backward()",
        "accelerator.backward(loss)",
        "(loss / 4).backward()",
        "model.backward(loss)",
    ],
)
@pytest.mark.parametrize(
    "keep",
    [
        "total += loss  # SCR105",
        "total = total + loss  # SCR105",
        "total += loss / len(loader)  # SCR105",
        "total += loss.mean()  # SCR105",
        "losses.append(loss)  # SCR105",
        "total += loss.cpu()  # SCR105",
    ],
)
def test_a_loss_that_is_kept(tmp_path, backward, keep):
    text = LOOP.format(backward=backward, keep=keep, after="")
    assert found(tmp_path, text) == marked(text)
    assert len(marked(text)) == 1


@pytest.mark.parametrize(
    "keep",
    [
        "total += loss.item()",
        "total += loss.detach()",
        "total += float(loss)",
        "total += loss.detach().cpu().item() * len(x)",
        "total += loss.data",
        "losses.append(loss.item())",
        "losses.append(float(loss.detach()))",
        "log['loss'] = loss.item()",
        "writer.add(loss.item())",
        "total += len(x)",
        "step += 1",
        "with torch.no_grad():\n            total += loss",
    ],
)
def test_a_number_that_is_kept(tmp_path, keep):
    assert found(tmp_path, LOOP.format(backward="loss.backward()", keep=keep, after="")) == []


def test_losses_that_are_summed_to_go_backward(tmp_path):
    text = """
    import torch

    def train(models, loader, optimizer, criterion):
        for x, y in loader:
            loss = 0
            for model in models:
                part = criterion(model(x), y)
                loss += part
            loss.backward()
            optimizer.step()

    def accumulate(model, loader, optimizer, criterion):
        total = 0
        for step, (x, y) in enumerate(loader):
            loss = criterion(model(x), y)
            total = total + loss
            if step % 4 == 3:
                total.backward()
                optimizer.step()
                total = 0

    def policy(env, model, optimizer):
        saved = []
        for t in range(100):
            saved.append(model(env.state))
        loss = torch.stack(saved).sum()
        loss.backward()
    """
    assert found(tmp_path, text, "SCR105") == []


def test_one_name_in_a_loop_that_trains_and_in_one_that_evaluates(tmp_path):
    text = """
    import torch

    def run(model, loader, held_out, optimizer):
        for epoch in range(3):
            model.train()
            for batch in loader:
                loss = model(**batch).loss
                loss.backward()
                optimizer.step()
            model.eval()
            losses = []
            for batch in held_out:
                with torch.no_grad():
                    outputs = model(**batch)
                loss = outputs.loss
                losses.append(loss)
    """
    assert found(tmp_path, text) == []


def test_a_part_of_the_loss_that_is_kept(tmp_path):
    text = """
    def train(model, loader, optimizer, criterion, router):
        kept = 0
        for x, y in loader:
            out = model(x)
            ce = criterion(out, y)
            aux = router(out)
            loss = ce + 0.01 * aux
            loss.backward()
            kept += aux  # SCR105
    """
    assert found(tmp_path, text) == marked(text)


def test_a_validation_loss_with_gradients_on(tmp_path):
    text = """
    def evaluate(model, loader, criterion):
        model.eval()
        total = 0
        for x, y in loader:
            loss = criterion(model(x), y)  # SCR106
            total += loss  # SCR105
        return total / len(loader)
    """
    assert found(tmp_path, text) == marked(text)


def test_the_fix_keeps_the_value_and_drops_the_graph(tmp_path):
    mended = fix_of(
        tmp_path,
        """
        import torch

        def train(model, loader, optimizer):
            total = torch.zeros(())
            for x, y in loader:
                loss = ((model(x) - y) ** 2).mean()
                loss.backward()
                total += loss * 2
                optimizer.step()
                optimizer.zero_grad()
            return total
        """,
    )
    assert "total += (loss * 2).detach()" in mended.text
    import torch

    values = []
    for text in (mended.script.text, mended.text):
        scope: dict = {}
        exec(text, scope)  # noqa: S102 - the text above and its fix
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = [(torch.randn(4, 3), torch.randn(4, 1)) for _ in range(3)]
        values.append(scope["train"](model, data, optimizer))
    assert values[0].grad_fn is not None
    assert values[1].grad_fn is None
    assert torch.equal(values[0], values[1])


@pytest.mark.parametrize(
    "again",
    [
        "loss = loss.item()",
        "loss = loss.detach()",
        "loss = float(loss)",
        "loss, count = loss.item(), len(x)",
        "loss = reduce_tensor(loss.data)",
        "loss = accelerator.gather(loss.detach()).mean()",
    ],
)
@pytest.mark.parametrize("keep", ["total += loss", "losses.append(loss)"])
def test_a_name_that_holds_something_else_by_then(tmp_path, again, keep):
    text = LOOP.format(backward="loss.backward()", keep=f"{again}\n        {keep}", after="")
    assert found(tmp_path, text) == []


def test_a_number_from_evaluation_is_no_loss_with_a_graph(tmp_path):
    text = """
    import torch

    def evaluate(model, loader, criterion):
        model.eval()
        total = 0
        for x, y in loader:
            out = model(x)  # SCR106
            loss = criterion(out, y).item()
            total += loss
        return total
    """
    assert found(tmp_path, text) == marked(text)


def test_a_setting_on_self_is_no_loss(tmp_path):
    text = """
    import torch

    class Trainer:
        def steps(self, loader):
            for x in loader:
                self.kl = self.model(x)
                loss = self.beta * self.kl
                self.accelerator.backward(loss)
                self.stats["beta"].append(self.beta)
    """
    assert found(tmp_path, text, "SCR105") == []


@pytest.mark.parametrize("keep", ["losses.append({'loss': loss})", "losses.append((step, loss))"])
def test_a_loss_inside_of_what_is_appended(tmp_path, keep):
    text = LOOP.format(backward="loss.backward()", keep=f"{keep}  # SCR105", after="")
    assert found(tmp_path, text) == marked(text)
    assert fix_of(tmp_path, text).codes == ()


@pytest.mark.parametrize(
    ("backward", "keep"),
    [
        ("loss.backward(retain_graph=True)", "total += loss"),
        ("loss.backward(create_graph=True)", "losses.append(loss)"),
        # A part of the loss may be the number 0 in some passes, which has no detach().
        ("aux = model.aux(x)\n        loss = loss + aux\n        loss.backward()", "total += aux"),
    ],
)
def test_what_may_need_the_graph_or_be_a_number_is_not_changed(tmp_path, backward, keep):
    text = LOOP.format(backward=backward, keep=f"{keep}", after="")
    assert [code for _, code in found(tmp_path, text)] == ["SCR105"]
    assert fix_of(tmp_path, text).codes == ()
