"""From any bytes to all five reports: an answer or a sentence, never an exception, never more than text.

The judge is that of benchmarks/fuzz_explain.py, which looks further and longer for the same.
"""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.fuzz_explain import TOKENS, load_pipeline, mutate, seeds
from tests.conftest import ROOT
from tests.hostile.shapes import message, traceback

CHECK = load_pipeline()
CORPUS = [data for data in seeds([ROOT / "examples", ROOT / "tests" / "data"]) if len(data) < 12_000]
FAILURE = traceback(3, message(7))
BOUNDED = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

#: What stands where a number is expected.
NUMBERS = (
    "-1",
    "-0",
    "0",
    "00",
    "9" * 18,
    "9" * 25,
    "9" * 5000,
    "1e999",
    "NaN",
    "inf",
    "0x10",
    "1,0,0,0",
    ",",
    "1.",
    ".5",
    "1.2.3",
    "²",
    "٣٤",
    "１２",
    "௧௨",
    "Ⅷ",
    "½",
    "",
    "18446744073709551615",
    "17179869184.00",
)


@given(st.binary(max_size=600))
@BOUNDED
def test_any_bytes(data):
    CHECK(data)


@given(st.lists(st.sampled_from(TOKENS), max_size=30))
@BOUNDED
def test_any_order_of_the_words_of_logs(parts):
    CHECK(b"".join(parts))


@given(st.lists(st.one_of(st.text(max_size=60), st.sampled_from(FAILURE.split("\n"))), max_size=30))
@BOUNDED
def test_any_text_between_the_lines_of_a_failure(rows):
    CHECK("\n".join(rows).encode("utf-8", "surrogatepass"))


@given(st.integers(0, 2**32), st.integers(0, len(CORPUS) - 1))
@settings(BOUNDED, max_examples=60)
def test_changed_logs(seed, which):
    CHECK(mutate(CORPUS[which], CORPUS, random.Random(seed)))


@given(st.integers(0, 2**32))
@BOUNDED
def test_changed_messages(seed):
    CHECK(mutate(FAILURE.encode(), CORPUS, random.Random(seed)))


@pytest.mark.parametrize("cut", ["end", "beginning"])
def test_a_failure_cut_at_every_eleventh_offset(cut):
    data = FAILURE.encode()
    for at in range(0, len(data), 11):
        CHECK(data[:at] if cut == "end" else data[at:])


@pytest.mark.parametrize("number", NUMBERS, ids=lambda text: f"{text[:12]}-{len(text)}")
def test_every_number_replaced(number):
    CHECK(re.sub(r"\d+(?:\.\d+)?", number, FAILURE).encode())
    steps = "".join(f"step {number}: loss {number} mem {number} GiB epoch {number}\n" for _ in range(3))
    ends = f"exitcode: {number} (pid: {number})\n[rank{number}]: x\n(w pid={number}) y\n"
    CHECK((steps + FAILURE + "\n" + ends + f"Total optimization steps = {number}\n").encode())


@pytest.mark.parametrize(
    "text",
    [
        '{"log": "a\\ud800b CUDA out of memory. Tried to allocate 2.00 GiB\\n"}',
        '{"message": "x", "rank": 99999999999999999999, "time": 1e400, "n": NaN}',
        '{"message": ' + "9" * 5000 + "}",
        '{"message": {"message": "x", "extraInfo": {"py_callstack": "y", "timestamp": "99999999999999999999"}}}',
        '{"message": {"message": "x", "extraInfo": {"py_callstack": "y", "timestamp": "'
        + "9" * 5000
        + '"}}}',
        '{"a":' * 100_000,
        "[" * 200_000 + "]" * 200_000,
        '{"nbformat": 4, "cells": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"nbformat": 4, "cells": [{"outputs": [{"output_type": "error", "traceback": [1, null, {"a": "b"}]}]}]}',
        "<td>" * 3000 + "&#10;&#27;[31m&#0;&#x110000;&#xd800;&NewLine;" + FAILURE.replace("\n", "&#10;"),
        "\u202e" + FAILURE + "\u2066",
        FAILURE.replace(" ", "\u00a0").replace("\n", "\u2028"),
        FAILURE.replace("\n", "\x85"),
        FAILURE.replace("a", "\x00a"),
        "\ufeff" * 50 + FAILURE,
        "\r" * 50_000 + FAILURE + "\r\n" * 50_000,
        "x" * 1_000_000 + FAILURE + "y" * 1_000_000,
        "9" * 1_000_000,
        "[rank" * 50_000,
        "_" * 20_000 + "\n" + FAILURE,
        ("  " * 5000 + "|\n") * 20 + FAILURE,
        "Traceback (most recent call last):\n" * 5000,
        traceback(1, "x").replace("main", "f" * 20_000),
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    f()\n'
        + '  File "a.py", line 1, in f\n    f()\n' * 3000
        + "RecursionError: maximum recursion depth exceeded\n",
    ],
    ids=range(24),
)
def test_special_texts(text):
    CHECK(text.encode("utf-8", "surrogatepass"))


def test_a_million_characters_in_each_place_of_a_frame():
    for word in ("/a/train.py", "main", "loss.backward()", "torch.OutOfMemoryError", "79.11"):
        CHECK(FAILURE.replace(word, word * (1_000_000 // len(word)), 1).encode())
