"""`python -m tests.predict.grid [WORD ...]`: every pair of the product (those whose names have all the words), a line
each: how far each phase of the plan is from the trace."""

from __future__ import annotations

import sys
import time

from tests.predict.grid.product import selected
from tests.predict.grid.running import Tracer, planned


def main(words: list[str]) -> int:
    """Prints, and returns how many are further than one percent from their traces."""
    tracer, wrong = Tracer(), 0
    for case in selected():
        if not all(word in case.name for word in words):
            continue
        began = time.perf_counter()
        try:
            traced = tracer.peaks(case)
            found = planned(case)
        except Exception as error:  # noqa: BLE001 - the next case is tried
            print("!!", case.name, str(error)[-300:], flush=True)
            wrong += 1
            continue
        errors = {phase: found.get(phase, 0) / size - 1 for phase, size in traced.items()}
        far = any(abs(error) > 0.01 for error in errors.values())
        wrong += far
        words_of = " ".join(f"{phase} {error:+.2%}" for phase, error in errors.items())
        print("!!" if far else "ok", case.name, f"{time.perf_counter() - began:.1f} s", words_of, flush=True)
    tracer.close()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
