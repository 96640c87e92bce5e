"""Quantities of a file: digits are 0 to 9, whatever other digits a language has."""

import pytest

from virtlab.units import Duration, exact_number, parse_quantity


@pytest.mark.parametrize("text", ["\u0661", "1\u0661", "\uff11", "1.\u0665", "1e\u0663"])
def test_a_number_in_digits_of_another_script_is_refused(text: str) -> None:
    for read in (
        exact_number,
        lambda one: Duration.parse(f"{one} ms"),
        lambda one: parse_quantity(f"{one} ms", "ns"),
    ):
        with pytest.raises(ValueError, match="is no"):
            read(text)
