from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.units import (
    GIB,
    KIB,
    MIB,
    NOT_A_SIZE_GIB,
    TIB,
    Amount,
    amount,
    format_bytes,
    parse_size,
    size_given,
)


@pytest.mark.parametrize(
    ("text", "size_bytes", "slack_bytes"),
    [
        # 2.92 * 1073741824 = 3135326126.08; half of 0.01 GiB is 5368709.12 bytes, rounded up.
        ("2.92 GiB", 3135326126, 5368710),
        # 20 * 1048576; half of 0.01 MiB is 5242.88 bytes.
        ("20.00 MiB", 20971520, 5243),
        ("1024.00 MiB", 1073741824, 5243),
        # 512 * 1024; half of 0.01 KiB is 5.12 bytes.
        ("512.00 KiB", 524288, 6),
        ("0 bytes", 0, 0),
        ("1023 bytes", 1023, 0),
        # Without a fraction: half of 1 MiB is 524288 bytes.
        ("11264MiB", 11811160064, 524288),
        ("1,024.50 MiB", 1074266112, 5243),
        # Decimal units: 16 GB is 16 * 10**9.
        ("16 GB", 16_000_000_000, 500_000_000),
        # A bare letter counts in 1024s: 21988M is 21988 * 1048576.
        ("21988M", 23056089088, 524288),
        ("  7.5   gib ", 8053063680, 53687092),
    ],
)
def test_a_printed_size_becomes_bytes_and_rounding(text, size_bytes, slack_bytes):
    assert parse_size(text) == Amount(size_bytes, slack_bytes)


def test_decimal_names_of_binary_units():
    # MPS and DeepSpeed divide by 1024**3 and print GB: 1.5 * 1073741824 = 1610612736.
    assert parse_size("1.5 GB", decimal_units_are_binary=True) == Amount(1610612736, 53687092)
    assert parse_size("1.5 GB") == Amount(1_500_000_000, 50_000_000)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GiB",
        "2.92",
        "2.92 potatoes",
        "2.92 GiB free",
        "-1 GiB",
        "2..9 GiB",
        "1e3 MiB",
        # 2**64 - 1 bytes in GiB: "not available".
        "17179869184.00 GiB",
        "18446744073709551615 bytes",
    ],
)
def test_what_is_not_a_size_is_none(text):
    assert parse_size(text) is None


def test_the_artefact_is_two_to_the_64_less_one():
    assert Decimal(NOT_A_SIZE_GIB) == (Decimal(2**64 - 1) / Decimal(2**30)).quantize(Decimal("0.01"))


def test_amount_takes_number_and_unit_apart():
    assert amount("1_000", "KiB") == Amount(1024000, 512)
    assert amount("one", "KiB") is None


def test_the_interval_of_an_amount():
    assert Amount(100, 7).low_bytes == 93
    assert Amount(100, 7).high_bytes == 107
    assert Amount(3, 7).low_bytes == 0


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 bytes"),
        (1024, "1024 bytes"),
        (1025, "1.00 KiB"),
        (MIB, "1024.00 KiB"),
        (MIB + 1, "1.00 MiB"),
        (20 * MIB, "20.00 MiB"),
        (GIB, "1024.00 MiB"),
        (GIB + GIB // 2, "1.50 GiB"),
        (2 * TIB, "2048.00 GiB"),
        (-3 * MIB, "-3.00 MiB"),
    ],
)
def test_sizes_are_printed_as_pytorch_prints_them(size_bytes, text):
    assert format_bytes(size_bytes) == text


@given(st.integers(min_value=0, max_value=2**62))
def test_what_is_printed_is_read_back_within_the_rounding(size_bytes):
    read = parse_size(format_bytes(size_bytes))
    assert read is not None
    assert read.low_bytes <= size_bytes <= read.high_bytes


@given(st.text(max_size=60))
def test_no_text_makes_it_raise(text):
    parse_size(text)


def test_the_units_are_powers_of_1024():
    assert (KIB, MIB, GIB, TIB) == (1024, 1024**2, 1024**3, 1024**4)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("84208000000", 84_208_000_000),
        ("84_208_000_000", 84_208_000_000),
        ("84.208e9", 84_208_000_000),
        ("1E3", 1000),
        (" 78GiB ", 78 << 30),
        ("40 GB", 40_000_000_000),
        ("512MiB", 512 << 20),
        ("0", None),
        ("0 GiB", None),
        ("-5", None),
        ("1e99", None),
        ("9" * 30, None),
        ("nan", None),
        ("many", None),
        ("", None),
        ("٣", None),
    ],
)
def test_a_size_that_a_person_gives(text, size):
    assert size_given(text) == size
