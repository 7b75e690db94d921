"""Logs that repeat one thing many times: what costs a careless tool the square of their length."""

from __future__ import annotations

from collections.abc import Callable


def message(number: int) -> str:
    """The allocator's message with figures of its own for each number below a million."""
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {number % 900 + 1}.{number % 100:02d} MiB. "
        f"GPU {number % 8} has a total capacity of 79.11 GiB of which {number % 70 + 1}.02 MiB is free. Including "
        f"non-PyTorch memory, this process has 78.{number // 1000 % 100:02d} GiB memory in use. Of the allocated "
        f"memory {number % 74}.90 GiB is allocated by PyTorch, and 1.31 GiB is reserved by PyTorch but unallocated."
    )


def traceback(number: int, last: str) -> str:
    """Two frames and the line that ends them."""
    return (
        "Traceback (most recent call last):\n"
        f'  File "/a/train.py", line {number}, in main\n    loss.backward()\n'
        f'  File "/a/net.py", line {number}, in step\n    x = y\n{last}'
    )


def _lines(row: Callable[[int], str]) -> Callable[[int], str]:
    return lambda count: "\n".join(row(number) for number in range(count)) + "\n"


def _prefix(number: int) -> str:
    letters = "".join(chr(97 + number // 26**place % 26) for place in range(4))
    return f"{letters}> "


def _interleaved(count: int) -> str:
    texts = [traceback(rank, message(rank)).split("\n") for rank in range(count)]
    return "\n".join(f"[rank{rank}]: {rows[at]}" for at in range(6) for rank, rows in enumerate(texts)) + "\n"


def _frames(count: int) -> str:
    rows = "\n".join(f'  File "/a/b.py", line {number}, in f{number}\n    g()' for number in range(count))
    return f"{'Traceback (most recent call last):' + chr(10)}{rows}\n{message(1)}\n"


#: name -> a function that makes the log with so many repetitions.
SHAPES: dict[str, Callable[[int], str]] = {
    "different failures": _lines(message),
    "one failure, printed often": _lines(lambda _: message(1)),
    "failures with tracebacks": _lines(lambda number: traceback(number, message(number))),
    "failures and steps": _lines(
        lambda number: f"{message(number)}\nstep {number}: loss 2.5\nstep {number + 1}: loss 2"
    ),
    "failures of scripts and steps": _lines(
        lambda number: (
            traceback(number, message(number)).replace("main", "<module>") + f"\nstep {number}: loss 2.5\nx"
        )
    ),
    "failures, success and exits": _lines(
        lambda number: f"{message(number)}\nTraining completed.\nexit code: 1"
    ),
    "failures of many ranks": _lines(lambda number: f"[rank{number}]: {message(number)}"),
    "interleaved tracebacks of many ranks": _interleaved,
    "failures of many actors": _lines(lambda number: f"(Worker pid={number + 1}) {message(number)}"),
    "many ranks": _lines(lambda number: f"[rank{number}]: on GPU {number % 8} with CUDA"),
    "other tracebacks": _lines(lambda number: traceback(number, "ValueError: x")),
    "many kinds of prefixes": _lines(
        lambda number: (
            f'{_prefix(number)}Traceback (most recent call last):\n{_prefix(number)}  File "a.py", line 1, in f'
        )
    ),
    "killed": lambda count: "Killed\n" * count,
    "exit codes": _lines(lambda number: f"exitcode: -9 (pid: {number})"),
    "the launcher's table": _lines(
        lambda number: (
            f"  rank      : {number} (local_rank: {number % 8})\n  exitcode  : -9 (pid: {number + 5000})"
        )
    ),
    "bus errors": _lines(
        lambda number: f"RuntimeError: DataLoader worker (pid {number}) is killed by signal: Bus error."
    ),
    "bus errors on one line": lambda count: "\n".join(["line 11: 1111 Bus error" * 80] * (count // 80 + 1)),
    "driver errors": lambda count: "RuntimeError: CUDA error: out of memory\n" * count,
    "library errors": lambda count: (
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling x\n" * count
    ),
    "unified memory": lambda count: (
        (
            "RuntimeError: MPS backend out of memory (MPS allocated: 1.00 GB, other allocations: 2.00 GB, max allowed: "
            "3.00 GB). Tried to allocate 4.00 MB on private pool.\n"
        )
        * count
    ),
    "steps": lambda count: _lines(lambda number: f"step {number}: loss 2.5")(count) + message(1),
    "announcements": lambda count: (
        "***** Running Evaluation *****\n***** Running training *****\n" * count + message(1)
    ),
    "settings": lambda count: (
        "per_device_train_batch_size=4\nresuming from checkpoint-7\n" * count + message(1)
    ),
    "a deep traceback": _frames,
    "a deep traceback with two headers": lambda count: (
        "Traceback (most recent call last):\n" + _frames(count)
    ),
    "processes of the card": lambda count: (
        _lines(
            lambda number: (
                f"|    0   N/A  N/A   {number + 1:7d}      C   python                            1234MiB |"
            )
        )(count)
        + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79 GiB"
    ),
    "process clauses": lambda count: message(1).replace(
        " Including",
        "".join(f" Process {number} has 1.00 GiB memory in use." for number in range(count)) + " Including",
    ),
    "carriage returns": lambda count: (
        "\r".join(f"{number}/{count} [00:01<00:02]" for number in range(count)) + "\n"
    ),
    "failures between carriage returns": lambda count: "\r".join(message(number) for number in range(count)),
}
