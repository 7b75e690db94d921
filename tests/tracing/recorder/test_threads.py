"""Threads of the script are traced like the rest of it."""

from __future__ import annotations

from tests.tracing.programs import traced


def test_a_thread_allocates() -> None:
    seen = traced("""
        import threading
        from concurrent.futures import ThreadPoolExecutor
        made = []
        mark()
        thread = threading.Thread(target=lambda: made.append(torch.empty(1000, device="cuda")))
        thread.start()
        thread.join()
        with ThreadPoolExecutor(1) as pool:
            made.append(pool.submit(torch.empty, 2000, device="cuda").result())
        print([one.device.type for one in made])
    """)
    # Four bytes an element.
    assert seen.events_after_mark == [("alloc", 4000), ("alloc", 8000)]
    assert seen.printed == "['cuda', 'cuda']\n"


def test_a_thread_runs_backward() -> None:
    seen = traced("""
        import threading
        weight = torch.ones(256, 256, device="cuda", requires_grad=True)
        thread = threading.Thread(target=lambda: (weight * 2).sum().backward())
        thread.start()
        thread.join()
        print(weight.grad.shape == weight.shape)
    """)
    assert seen.printed == "True\n"
