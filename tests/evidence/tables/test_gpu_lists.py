"""torch.cuda.list_gpu_processes() and gpustat."""

from tests.evidence.tables.text import listed, readings, used_total


def test_list_gpu_processes():
    text = """\
GPU:0
process      12345 uses     1234.000 MB GPU memory
process     999999 uses    40000.000 MB GPU memory
GPU:1
no processes are running
"""
    assert listed(text) == [(0, 12345, "", 1234), (0, 999999, "", 40000)]


def test_a_process_without_its_gpu_is_left_out():
    assert listed("process      12345 uses     1234.000 MB GPU memory") == []


def test_gpustat():
    text = """\
node7  Sat Oct 19 11:31:51 2024  550.90.07
[0] NVIDIA RTX A5000 | 47'C,   0 % | 11389 / 24564 MB | alice:ollama/8919(526M) python3/486829(10544M)
[1] Tesla V100-SXM2-32GB | 38'C,   0 % |     0 / 32480 MB |
[2] GeForce GTX TITAN 2 | 71'C,  ?? % |     5 / 12189 MB | (Not Supported)
"""
    assert used_total(text) == [(0, 11389, 24564), (1, 0, 32480), (2, 5, 12189)]
    assert readings(text)[1].name == "Tesla V100-SXM2-32GB"
    assert listed(text) == [(0, 8919, "ollama", 526), (0, 486829, "python3", 10544)]
