"""Quantities as the API machinery reads them (resource/quantity_test.go)."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.quantity import INT64_MAX, NANOS, millis, nanos, units


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("0", 0),
        ("100m", Fraction(1, 10)),
        ("1500m", Fraction(3, 2)),
        ("1u", Fraction(1, 10**6)),
        ("1n", Fraction(1, 10**9)),
        ("5k", 5000),
        ("5M", 5 * 10**6),
        ("5G", 5 * 10**9),
        ("5T", 5 * 10**12),
        ("5P", 5 * 10**15),
        ("5E", 5 * 10**18),
        ("1Ki", 1024),
        ("8Ki", 8192),
        ("7Mi", 7 * 1024**2),
        ("6Gi", 6 * 1024**3),
        ("5Ti", 5 * 1024**4),
        ("4Pi", 4 * 1024**5),
        ("3Ei", 3 * 1024**6),
        ("10.035m", Fraction(10035, 10**6)),
        ("0.5Ki", 512),
        ("100.035Ki", Fraction(10243584, 100)),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1.3E+6", 1300000),
        ("1.5e-3", Fraction(15, 10**4)),
        ("E", 0),
        ("1E", 10**18),
        ("12E", 12 * 10**18),
        ("+1", 1),
        ("-1", -1),
        ("-80m", Fraction(-8, 100)),
        ("00", 0),
        ("1.", 1),
        (".5", Fraction(1, 2)),
        ("1.G", 10**9),
        # Without a digit, and yet no error.
        (".", 0),
        ("-.", 0),
        ("+", 0),
        ("Ki", 0),
        ("m", 0),
        # Finer than a nano is rounded away from zero.
        ("3.001n", Fraction(4, 10**9)),
        ("0.0000000005", Fraction(1, 10**9)),
        ("0.00000012345", Fraction(124, 10**9)),
        ("1.1E-9", Fraction(2, 10**9)),
        ("0.9n", Fraction(1, 10**9)),
        ("-0.9n", Fraction(-1, 10**9)),
        (".000000000001Ki", Fraction(2, 10**9)),
        # Binary suffixes are capped, decimal ones are not.
        ("9Ei", INT64_MAX),
        ("9223372036854775807Ki", INT64_MAX),
        ("-9Ei", -INT64_MAX),
        # JSON numbers and null.
        (None, 0),
        (2, 2),
        (0.5, Fraction(1, 2)),
        (1e-05, Fraction(1, 10**5)),
        (1e22, 10**22),
    ],
)
def test_what_is_read(literal, value):
    assert Fraction(nanos(literal), NANOS) == value


@pytest.mark.parametrize(
    "literal",
    [
        *("", " 1", "1 ", "1.1.M", "1+1.0M", "aoeu", ".5i", "1i", "1am", "K", "1K", "1ki", "1mi"),
        *(
            "1g",
            "1e",
            "-3.01e-",
            "1e1.5",
            "1Mb",
            "0x10",
            "1_000",
            "\u0661",
            "--1",
            "1Kim",
            "Inf",
            "nan",
        ),
    ],
)
def test_what_is_no_quantity(literal):
    with pytest.raises(ValueError, match=r"is not a quantity|suffix"):
        nanos(literal)


def test_an_absurd_exponent_is_refused_before_it_eats_the_memory():
    with pytest.raises(ValueError, match="beyond reason"):
        nanos("1e999999999")


@pytest.mark.parametrize(
    ("literal", "whole", "thousandths"),
    [
        ("100m", 1, 100),
        ("1500m", 2, 1500),
        ("0.5Ki", 512, 512000),
        ("1n", 1, 1),
        ("1", 1, 1000),
        ("0.5m", 1, 1),
        ("100u", 1, 1),
        ("0", 0, 0),
        ("-1500m", -2, -1500),
        ("100.5m", 1, 101),
        ("12E", INT64_MAX, INT64_MAX),
    ],
)
def test_rounding_goes_away_from_zero_and_stays_in_64_bits(literal, whole, thousandths):
    assert (units(nanos(literal)), millis(nanos(literal))) == (whole, thousandths)


@given(st.integers(-(10**12), 10**12), st.sampled_from(["", "m", "k", "Ki", "Mi", "G", "e2"]))
def test_sums_are_exact_and_order_is_kept(count, suffix):
    assert nanos(f"{count}{suffix}") == count * nanos(f"1{suffix}")
    assert units(nanos(f"{count}{suffix}")) <= units(nanos(f"{count + 1}{suffix}"))
