"""Processes that a script gives a queue are workers: of a job of one process they are not its ranks."""

from __future__ import annotations

from tests.tracing.programs import traced


def test_workers_with_a_queue_run() -> None:
    seen = traced("""
        import multiprocessing
        context = multiprocessing.get_context("fork")
        queue = context.Queue()

        def work(number, queue):
            queue.put(number * 2)

        started = [context.Process(target=work, args=(number, queue)) for number in range(2)]
        for one in started:
            one.start()
        print(sorted(queue.get(timeout=60) for _ in started))
        for one in started:
            one.join()
    """)
    assert seen.printed == "[0, 2]\n"
