import textwrap

import pytest

from tests.diagnose.script.marked import findings, fix_of, found, marked


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        ("dist.init_process_group('nccl')  # SCR108\nmodel.cuda()", "error"),
        ("dist.init_process_group(backend='nccl')  # SCR108\nx = x.to('cuda')", "error"),
        ("dist.init_process_group('nccl')  # SCR108\nmodel.to(local_rank)", "warning"),
        ("dist.init_process_group()  # SCR108\ndevice = torch.device('cuda')", "error"),
        ("dist.init_process_group('nccl')  # SCR108\nmodel.cuda(local_rank)", "warning"),
    ],
)
def test_no_device_is_set(tmp_path, body, severity):
    text = "import torch\nimport torch.distributed as dist\n" + body + "\n"
    assert found(tmp_path, text) == marked(text)
    assert [str(one.problem.severity) for one in findings(tmp_path, text)] == [severity]


@pytest.mark.parametrize(
    "body",
    [
        "dist.init_process_group('nccl')\ntorch.cuda.set_device(rank)\nmodel.cuda()",
        "dist.init_process_group('nccl', device_id=device)\nmodel.cuda()",
        "dist.init_process_group('gloo')\nmodel.cuda()",
        "dist.init_process_group(args.backend, **kw)\nmodel.cuda()",
        "mesh = torch.distributed.init_device_mesh('cuda', (8,))\ndist.init_process_group('nccl')\nmodel.cuda()",
        "from accelerate import Accelerator\naccelerator = Accelerator()\ndist.init_process_group('nccl')",
        "os.environ['CUDA_VISIBLE_DEVICES'] = str(rank)\ndist.init_process_group('nccl')\nmodel.cuda()",
        "model.cuda()",
        "dist.init_process_group('nccl', rank=rank, world_size=n)",
        "dist.init_process_group(backend=backend)\nmodel.to(device)",
    ],
)
def test_a_device_is_set_or_there_is_one_rank(tmp_path, body):
    text = "import os\nimport torch\nimport torch.distributed as dist\n" + body + "\n"
    assert found(tmp_path, text, "SCR108") == []


def test_the_device_is_named_and_not_inserted(tmp_path):
    """Where each rank sees one GPU alone, or uses another than its local rank's, the line would break the script."""
    text = textwrap.dedent(
        """
        import os
        import torch
        import torch.distributed as dist

        def main():
            local_rank = int(os.environ["LOCAL_RANK"])
            dist.init_process_group("nccl")
            model = Net().to(local_rank)

        main()
        """,
    )
    (one,) = [one for one in findings(tmp_path, text) if one.code == "SCR108"]
    assert one.problem.paste == "torch.cuda.set_device(local_rank)"
    assert fix_of(tmp_path, text).text == text


@pytest.mark.parametrize(
    ("line", "several", "wrong"),
    [
        ("torch.cuda.set_per_process_memory_fraction(0.85, device=0)", True, True),
        ("torch.cuda.set_per_process_memory_fraction(0.85, 0)", False, True),
        ("torch.cuda.set_per_process_memory_fraction(0.85, 'cuda:0')", True, True),
        ("torch.cuda.set_per_process_memory_fraction(0.85, torch.device('cuda:0'))", True, True),
        ("torch.cuda.set_per_process_memory_fraction(0.85, device=local_rank)", True, False),
        ("torch.cuda.set_per_process_memory_fraction(0.85)", True, False),
    ],
)
def test_a_fraction_on_one_device(tmp_path, line, several, wrong):
    head = (
        "import os\nimport torch\nlocal_rank = int(os.environ['LOCAL_RANK'])\n"
        if several
        else "import torch\n"
    )
    result = findings(tmp_path, head + line + "\n")
    assert [one.code for one in result] == (["SCR103"] if wrong else [])
    if wrong:
        assert ("by every rank" in result[0].problem.says) == several


@pytest.mark.parametrize(
    ("lines", "late"),
    [
        ("model.cuda()\nos.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'expandable_segments:True'", True),
        ("torch.cuda.set_device(0)\nos.environ['PYTORCH_ALLOC_CONF'] = 'expandable_segments:True'", True),
        ("os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'expandable_segments:True'\nmodel.cuda()", False),
        ("os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'backend:cudaMallocAsync'\nmodel.cuda()", True),
        (
            "torch.cuda.is_available()\nos.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'expandable_segments:True'",
            False,
        ),
        ("torch.cuda.is_available()\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'", True),
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '1'\ntorch.cuda.is_available()", False),
        ("x = torch.zeros(2, device='cuda')\nos.environ.setdefault('PYTORCH_CUDA_ALLOC_CONF', 'a:b')", True),
        ("model.cuda()\nos.environ['OMP_NUM_THREADS'] = '1'", False),
    ],
)
def test_a_setting_that_comes_too_late(tmp_path, lines, late):
    assert [code for _, code in found(tmp_path, "import os\nimport torch\n" + lines + "\n")] == (
        ["SCR115"] if late else []
    )


@pytest.mark.parametrize(
    ("call", "found_code"),
    [
        ("torch.load(path)", True),
        ("torch.load(path, weights_only=True)", True),
        ("torch.load(path, map_location='cpu')", False),
        ("torch.load(path, device)", False),
        ("torch.load(path, **options)", False),
    ],
)
def test_a_checkpoint_without_a_place(tmp_path, call, found_code):
    text = f"import os\nimport torch\nrank = int(os.environ['LOCAL_RANK'])\nstate = {call}\n"
    assert bool(found(tmp_path, text, "SCR117")) == found_code
    assert found(tmp_path, f"import torch\nstate = {call}\n") == []


@pytest.mark.parametrize(
    ("line", "wrong", "mended"),
    [
        ("model.load_state_dict(torch.load(path))", True, True),
        ("optimizer.load_state_dict(torch.load(path))", True, True),
        ("checkpoint = torch.load(args.resume)", True, False),
        ("state_dict = torch.load(path)", True, False),
        # It stays where it was loaded, in these.
        ("model.load_state_dict(torch.load(path), assign=True)", True, False),
        ("model_ema.load_state_dict(torch.load(path))", True, False),
        ("shadow.load_state_dict(torch.load(path))", True, False),
        # None of these holds a tensor of a GPU.
        ("scheduler.load_state_dict(torch.load(os.path.join(args.model, 'scheduler.pt')))", False, False),
        ("scaler.load_state_dict(torch.load(path))", False, False),
        ("features = torch.load(cached_features_file)", False, False),
        ("embeds = torch.load(io.BytesIO(response.content))", False, False),
        ("items = torch.load(path)", False, False),
    ],
)
def test_what_is_loaded_onto_one_gpu(tmp_path, line, wrong, mended):
    text = f"import os, torch\nimport torch.distributed as dist\ndist.init_process_group('nccl')\n{line}\n"
    assert found(tmp_path, text, "SCR117") == ([(4, "SCR117")] if wrong else [])
    assert [code for code, _ in fix_of(tmp_path, text).codes] == (["SCR117"] if mended else [])


def test_a_load_for_one_rank_in_the_other_branch(tmp_path):
    text = """
    import torch
    import torch.distributed as dist
    dist.init_process_group("nccl")
    if args.gpu is None:
        checkpoint = torch.load(args.resume)
    else:
        checkpoint = torch.load(args.resume, map_location=f"cuda:{args.gpu}")
    """
    assert found(tmp_path, text, "SCR117") == []


def test_a_process_group_of_a_library(tmp_path):
    """Whoever uses the class may set the device."""
    text = """
    import torch
    class Strategy:
        def setup(self):
            torch.distributed.init_process_group(self.backend)
        def save(self):
            return torch.tensor(1).to("cuda")
    """
    assert found(tmp_path, text, "SCR108") == []
    helper = """
    import torch.distributed as dist
    def setup(model, gpu):
        dist.init_process_group("nccl")
        return model.to(gpu)
    """
    assert found(tmp_path, helper, "SCR108") == []
    assert found(tmp_path, helper + "\n    setup(Net(), 0)\n", "SCR108") == [(4, "SCR108")]
