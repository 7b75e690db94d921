from __future__ import annotations

import time

import pytest

from oomph.report.redact import Redactor, redact


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # paths: the file's name stays, a library's path from its package on
        ('File "/home/alice/proj/train.py", line 70, in train', 'File "<path>/train.py", line 70, in train'),
        (
            'File "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1',
            'File "torch/nn/modules/module.py", line 1',
        ),
        (r'File "C:\Users\Jane Doe\x\site-packages\torch\_tensor.py"', 'File "torch/_tensor.py"'),
        (r"C:\Users\Jane Doe\proj\train.py by Jane Doe", "<path>/train.py by <user>"),
        ("--output_dir=/fsx/secret-project/out", "--output_dir=<path>"),
        # a last name without the ending of a kind of file may be a person's or a project's
        ("cd /lustre/mrossi", "cd <path>"),
        ("saved to /home/alice/data/secretproj for bob", "saved to <path> for bob"),
        ("~/mrossi-secret and ~/a/train.py", "<path> and <path>/train.py"),
        ("/lustre/john.doe", "<path>"),
        (r"\\fileserver\share\data\x.bin", "<path>/x.bin"),
        ("/fsx/team/logs/attempt_0/3/stderr.log", "<path>/attempt_0/3/stderr.log"),
        ("at ../c10/cuda/CUDACachingAllocator.cpp:1154", "at ../c10/cuda/CUDACachingAllocator.cpp:1154"),
        # people
        ("/home/alice/x.py ran for alice, alice_test", "<path>/x.py ran for <user>, <user>_test"),
        ("/home/alice/a.py /Users/bob/b.py", "<path>/a.py <path>/b.py"),
        ("uid=1000(carol) gid=1000", "uid=1000(<user>) gid=1000"),
        ("USER=dave; dave's job", "USER=<user>; <user>'s job"),
        ("/home/ubuntu/x.py on ubuntu", "<path>/x.py on ubuntu"),
        ("write to erin.s+x@lab.example.org", "write to <email>"),
        # machines
        ("  host      : gpu-a100-03.hpc.uni.edu", "  host      : <host>"),
        ("--host gpu-node-17 --lr 1", "--host <host> --lr 1"),
        ("--host localhost --node-rank 3", "--host localhost --node-rank 3"),
        ("--server dgx-03.acme.internal", "--server <host>"),
        ("--master-addr mybox --main-process-ip otherbox", "--master-addr <host> --main-process-ip <host-2>"),
        ("x.acme.internal --server dgx-03.acme.internal", "<host-3> --server <host>"),
        ("--username mrossi, --user bob", "--username <user>, --user <user-2>"),
        ("--user x --lr 1", "--user <user> --lr 1"),
        ("  host      : localhost", "  host      : localhost"),
        ("srun: error: frontier-7: task 3: Killed", "srun: error: <host>: task 3: Killed"),
        (
            "slurmstepd: error: *** STEP 12.0 ON nid001234 CANCELLED",
            "slurmstepd: error: *** STEP 12.0 ON <host> CANCELLED",
        ),
        (
            "nid01:1234:1299 [3] NCCL WARN Cuda failure 2; nid01",
            "<host>:1234:1299 [3] NCCL WARN Cuda failure 2; <host>",
        ),
        ("rendezvous at node-0:5100", "rendezvous at <host>:5100"),
        ("SLURM_NODELIST=ada[01-04] then ada03 died", "SLURM_NODELIST=<host> then <host-2> died"),
        ("connect to db.intern.corp failed", "connect to <host> failed"),
        ("[10.1.2.3]:39317, 10.1.2.4, 10.1.2.3", "[<ip>]:39317, <ip-2>, <ip>"),
        ("MASTER_ADDR=10.1.2.3", "MASTER_ADDR=<ip>"),
        ("[127.0.0.1]:39317", "[127.0.0.1]:39317"),
        ("fe80::1ff:fe23:4567:890a up", "<ip> up"),
        ("mac 00:1a:2b:3c:4d:5e", "mac <mac>"),
        # addresses on the web; the documentation that messages name stays
        (
            "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)",
            "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)",
        ),
        ("View run at https://wandb.ai/team/project/runs/ab12cd", "View run at <url>"),
        ("s3://bucket/key and wandb.ai/team/run", "<url> and <url>"),
        ("git@github.com:org/secret.git", "<url>"),
        # secrets
        ("hf_AbCdEfGhIjKlMnOp", "<secret>"),
        ("wandb: 0123456789abcdef0123456789abcdef01234567", "wandb: <secret>"),
        ("key sk-proj-abcDEF123456", "key <secret>"),
        ("AKIAIOSFODNN7EXAMPLE", "<secret>"),
        ("Authorization: Bearer abc.def-123", "Authorization: <secret> <secret>"),
        ('"api_key": "two words", "lr": 3e-4', '"api_key": <secret>, "lr": 3e-4'),
        ("password=p,w]x lr=3", "password=<secret> lr=3"),
        ("--wandb-token abc123 --lr 3", "--wandb-token <secret> --lr 3"),
        ("--pw abc --password x7 --token y", "--pw <secret> --password <secret> --token <secret>"),
        ("--hf-token hf_AbCdEfGhIjKlMnOp --next 1", "--hf-token <secret> --next 1"),
        (
            "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE+/\nxx==\n-----END RSA PRIVATE KEY-----\nb",
            "a\n<secret>\nb",
        ),
        (r"-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl", "<secret>"),
        ("MIIEpAIBAAKCAQEA1c7+9z4Pad7OejecsQ0bu3aumzq5z9O2vV0b/ZbGmmK5abcd", "<secret>"),
        (r"DB_PASSWORD: 'it\'s' x", "DB_PASSWORD: <secret> x"),
        ("GPU-8f3a1b2c-1d2e-3f4a-5b6c-7d8e9f0a1b2c", "GPU-<uuid>"),
    ],
)
def test_private_things_go(text, expected):
    assert redact(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a capacity of 79.11 GiB",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:512",
        "  4%|4         | 17/400 [00:51<19:22,  3.04s/it, loss=5.1]",
        "config: {'seq_len': 4096, 'micro_batch': 4, 'precision': 'bf16'}",
        "torch.nn.functional.cross_entropy(logits.view(-1, vocab), labels)",
        "at::native::add c10::Error std::runtime_error",
        "tokens/s 21000, pad_token=<pad>, num_tokens: 4096, use_auth_token=None",
        "torch 2.11.0+cu130, cudnn 8.9.2.26, nvidia-cudnn-cu12==9.1.0.70",
        "2026-11-30 07:33:15,456 | INFO | rank0 | step 25/400 loss 5.6888 lr 3.00e-04 mem 61.5 GiB",
        "class Phi3SmallForSequenceClassification, model.layers.31.mlp.down_proj.weight",
        "NVIDIA H100 80GB HBM3, A100-SXM4-80GB, cuda:0, rank3: step100",
        "bus error: enlarge /dev/shm, see /proc/meminfo",
        "uname: Linux 5.15.153.1-microsoft-standard-WSL2",
        "leave --global-batch-size as it is, sk-learn-contrib, sk_model_pipeline, hf_tokenizer, hf_hub_download",
        "checkpoint-500/optimizer.pt and and/or 1/2",
    ],
)
def test_what_a_diagnosis_needs_stays(text):
    assert redact(text) == text


def test_the_same_name_has_the_same_placeholder_in_one_report():
    redactor = Redactor()
    texts = ["alice started it", "/home/alice/a.py and /home/bob/b.py", "bob waits for alice"]
    for text in texts:
        redactor.learn(text)
    assert [redactor(text) for text in texts] == [
        "<user> started it",
        "<path>/a.py and <path>/b.py",
        "<user-2> waits for <user>",
    ]


def test_two_files_of_one_name_stay_apart():
    redactor = Redactor()
    assert redactor.path("/a/train.log") == "<path>/train.log"
    assert redactor.path("/b/train.log") == "<path-2>/train.log"
    assert redactor.path("/a/train.log") == "<path>/train.log"


def test_whole_paths_may_have_blanks():
    assert Redactor().path("/data/jane doe/my run/train.log") == "<path>/train.log"
    assert Redactor().path("-") == "-"
    assert Redactor().path("train.log") == "train.log"
    assert Redactor().path("<ipython-input-3>") == "<ipython-input-3>"


JUNK = [
    "a",
    "a.",
    "/a",
    "'/",
    "token=",
    "a@",
    "-",
    "a:",
    '"\\',
    "0:",
    "token ",
    "<a",
    "host:",
    "a-1",
    "1.",
    "\\\\a",
    "é/",
]


@pytest.mark.parametrize("piece", JUNK)
def test_junk_takes_linear_time(piece):
    text = piece * (200_000 // len(piece))
    started = time.perf_counter()
    redact(text)
    assert time.perf_counter() - started < 10


def test_inputs_have_numbers_for_names():
    redactor = Redactor()
    redactor.learn_inputs(["gpu-node-17.log", "runs/mrossi/rank0.err.gz", "out", "-"])
    assert redactor.path("gpu-node-17.log") == "<file-1>.log"
    assert redactor.path("runs/mrossi/rank0.err.gz") == "<file-2>.err.gz"
    assert redactor.path("out") == "<file-3>"
    assert (
        redactor("gpu-node-17.log:3: ran out, see rank0.err.gz")
        == "<file-1>.log:3: ran out, see <file-2>.err.gz"
    )
