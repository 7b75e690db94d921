"""The frame to look at."""

from __future__ import annotations

import pytest

from oomph.diagnose.snapshot.places import is_generated, is_python, is_users, place_of
from oomph.memory.stacks import Frame

PACKAGES = "/opt/venv/lib/python3.11/site-packages"
MALLOC = Frame("c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::malloc(void**)", "", 0)
LINEAR = Frame("forward", f"{PACKAGES}/torch/nn/modules/linear.py", 125)
EVAL = Frame("_PyEval_EvalFrameDefault", "??", 0)
MODEL = Frame("forward", "/home/someone/project/model.py", 40)
TRAIN = Frame("train", "/home/someone/project/train.py", 12)
THREAD = Frame("_bootstrap_inner", "/usr/lib/python3.11/threading.py", 1045)


def test_the_innermost_frame_of_the_users_own():
    assert place_of((MALLOC, LINEAR, EVAL, MODEL, TRAIN)) == MODEL


def test_without_the_users_own_the_innermost_in_python():
    assert place_of((MALLOC, EVAL, LINEAR, THREAD)) == LINEAR


def test_without_python_none():
    assert place_of((MALLOC, EVAL)) is None
    assert place_of(()) is None


@pytest.mark.parametrize(
    "frame",
    [
        Frame("update", r"C:\Users\someone\project\model.py", 3),
        Frame("<module>", "/tmp/ipykernel_81/2091124272.py", 5),
        Frame("<module>", "<ipython-input-3-0f2b>", 5),
        Frame("<module>", "<stdin>", 1),
        Frame("main", "/home/someone/bin/train", 7),
    ],
)
def test_what_is_the_users(frame: Frame):
    assert is_python(frame)
    assert is_users(frame)


@pytest.mark.parametrize(
    "frame",
    [
        Frame("forward", r"C:\Python311\Lib\site-packages\torch\nn\modules\linear.py", 125),
        Frame("_run_module_as_main", "<frozen runpy>", 198),
        Frame("f", "<string>", 2),
        Frame("apply", "/usr/lib/python3/dist-packages/numpy/core.py", 2),
        # What torch.compile writes: base32 of a SHA-256.
        Frame(
            "call",
            f"/tmp/torchinductor_someone/bb/{'cbb22t4zaktzespak2hunxqe4se6wmtw4eqeshc6l6dyfgwswcuu'}.py",
            3,
        ),
    ],
)
def test_what_is_python_but_not_the_users(frame: Frame):
    assert is_python(frame)
    assert not is_users(frame)


@pytest.mark.parametrize(
    "frame",
    [
        # Interpreters built with debug information have lines: seen in real snapshots.
        Frame("_PyEval_EvalFrameDefault", "/usr/local/src/conda/python-3.10.14/Python/ceval.c", 4213),
        Frame("execute_native_thread_routine", "/build/gcc/libstdc++-v3/src/c++11/thread.cc", 82),
        Frame("at::_ops::mm::call(at::Tensor const&, at::Tensor const&)", "Operators_2.cpp", 31),
        Frame("start_thread", "./nptl/pthread_create.c", 442),
        Frame("?", "?", 0),
    ],
)
def test_what_is_no_python(frame: Frame):
    assert not is_python(frame)


def test_generated_code_is_known_by_its_name():
    name = "cbb22t4zaktzespak2hunxqe4se6wmtw4eqeshc6l6dyfgwswcuu"
    assert len(name) == 52  # 32 bytes in base32, without padding
    assert is_generated(Frame("call", f"/workspace/{name}.py", 3))
    assert not is_generated(Frame("call", "/workspace/model.py", 3))
