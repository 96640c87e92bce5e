"""Quantities of a file: digits are 0 to 9, whatever other digits a language has."""

import pytest

from virtlab.units import Bitrate, Duration, exact_number, parse_quantity


@pytest.mark.parametrize("text", ["\u0661", "1\u0661", "\uff11", "1.\u0665", "1e\u0663"])
def test_a_number_in_digits_of_another_script_is_refused(text: str) -> None:
    for read in (
        exact_number,
        lambda one: Duration.parse(f"{one} ms"),
        lambda one: parse_quantity(f"{one} ms", "ns"),
    ):
        with pytest.raises(ValueError, match="is no"):
            read(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("10 Mbps", "10 Mbit/s"),
        ("2.5 gbps", "2.5 Gbit/s"),
        ("1e3Mbps", "1e3 Mbit/s"),
        ("10 MBIT/S", "10 Mbit/s"),
        ("10 kpps", ""),
    ],
)
def test_a_usual_spelling_of_a_unit_is_known(text: str, meant: str) -> None:
    with pytest.raises(ValueError, match="is not a unit of this quantity") as caught:
        Bitrate.parse(text)
    assert (f"did you mean '{meant}'?" in str(caught.value)) == bool(meant)
