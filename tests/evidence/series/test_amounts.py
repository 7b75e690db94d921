from oomph.evidence.series.amounts import exact, loose, scaled, scaled_loose
from oomph.units import Amount


def test_exact_reads_gb_as_binary():
    assert exact("2", "GB") == Amount(2 * 1024**3, 1024**3 // 2)


def test_loose_covers_the_decimal_reading_of_gb():
    value = loose("20.0", "GB")
    assert value is not None
    assert value.bytes == 20 * 1024**3
    assert value.low_bytes <= 20 * 10**9 - 10**8 // 2
    assert value.high_bytes >= 20 * 1024**3


def test_loose_does_not_widen_binary_units():
    assert loose("20.0", "GiB") == exact("20.0", "GiB")


def test_loose_knows_single_letters():
    value = loose("10", "M")
    assert value is not None
    assert (value.bytes, value.low_bytes <= 10 * 10**6) == (10 * 1024**2, True)


def test_scaled_reads_python_floats():
    # 1.5 units of 1024 bytes; half of the last digit is 0.05 * 1024 = 51.2, rounded up.
    assert scaled("1.5", 1024) == Amount(1536, 52)


def test_scaled_reads_thousands_and_exponents():
    assert scaled("1,536", 1) == Amount(1536)
    value = scaled("1.2e+10", 1)
    assert value is not None
    assert value.bytes == 12_000_000_000
    assert value.slack_bytes == 500_000_000  # half of the last printed digit: 0.05e10


def test_scaled_keeps_long_fractions():
    value = scaled("204.92134189605713", 1024**3)
    assert value is not None
    assert abs(value.bytes - 204.92134189605713 * 1024**3) < 1


def test_what_is_no_number_or_no_size_is_none():
    assert scaled("1.2.3", 1) is None
    assert scaled("", 1) is None
    assert scaled("9" * 25, 1024) is None
    assert exact("17179869184.00", "GiB") is None
    assert scaled_loose("x", 2, 1) is None


def test_scaled_loose_covers_both_factors():
    value = scaled_loose("10.5", 1024**3, 10**9)
    assert value is not None
    assert value.low_bytes <= 10_500_000_000 <= value.high_bytes
    assert value.bytes == round(10.5 * 1024**3)
