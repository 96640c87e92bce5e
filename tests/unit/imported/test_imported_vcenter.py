"""vCenter's exports: whose a row is, what its number means, and in which language it was written."""

from __future__ import annotations

import pytest

from virtlab.imported.instants import day_comes_first
from virtlab.imported.output import ToolOutput, UnreadableError
from virtlab.imported.readers import read

HEAD = ("MetricId", "Timestamp", "Value", "Entity", "EntityId", "IntervalSecs", "Instance")
FIRST = "5/31/2018 2:13:20 AM"
GUEST, HOST = ("web1", "VirtualMachine-vm-42"), ("esx1.lab", "HostSystem-host-9")


def export(
    *rows: tuple[str, str, str], of: tuple[str, str] = GUEST, at: str = FIRST, separator: str = ","
) -> str:
    """Rows of metric, value and instance."""
    lines = [HEAD, *((metric, at, value, *of, "20", instance) for metric, value, instance in rows)]
    return "\n".join(separator.join(f'"{cell}"' for cell in line) for line in lines) + "\n"


def told_of(output: ToolOutput) -> dict[tuple[str, str], float]:
    return {(one.entity, one.metric): one.value for one in output.points}


def test_the_mean_over_a_guests_processors_is_no_count_of_them() -> None:
    output = read(export(("cpu.usage.average", "75", "")))
    assert told_of(output) == {("guests.web1", "cpu_share"): 0.75}
    assert "no 'cpu' of web1" in output.notes[0]
    assert "cpu.used.summation" in output.notes[0]


def test_processors_of_a_guest_add_up_as_esxtop_and_xentop_count_them() -> None:
    rows = [
        ("cpu.usage.average", "75", ""),
        ("cpu.usage.average", "90.02", "0"),
        ("cpu.usage.average", "60", "1"),
    ]
    output = read(export(*rows))
    assert told_of(output) == {
        ("guests.web1", "cpu_share"): 0.75,
        ("guests.web1", "cpu"): pytest.approx(1.5002),
        ("guests.web1.vcpu0", "cpu"): pytest.approx(0.9002),
        ("guests.web1.vcpu1", "cpu"): pytest.approx(0.6),
    }
    assert output.notes == []


@pytest.mark.parametrize("left_out", [0, 1, 2])
def test_processors_that_may_not_be_all_are_not_added_up(left_out: int) -> None:
    rows = [
        ("cpu.usage.average", value, instance) for value, instance in (("75", ""), ("90", "0"), ("60", "1"))
    ]
    output = read(export(*rows[:left_out], *rows[left_out + 1 :]))
    assert ("guests.web1", "cpu") not in told_of(output)
    assert "no 'cpu' of web1 as a whole" in output.notes[0]


def test_time_used_of_all_processors_counts_them() -> None:
    rows = [
        ("cpu.used.summation", "30000", ""),
        ("cpu.used.summation", "18000", "0"),
        ("cpu.usage.average", "75", ""),
    ]
    output = read(export(*rows, ("cpu.usage.average", "88", "0"), ("cpu.usage.average", "62", "1")))
    assert told_of(output) == {
        ("guests.web1", "cpu_share"): 0.75,
        ("guests.web1", "cpu"): 1.5,
        ("guests.web1.vcpu0", "cpu"): 0.9,
        ("guests.web1.vcpu1", "cpu"): pytest.approx(0.62),
    }
    assert output.notes == []


def test_a_host_is_no_guest_and_its_processors_are_named_as_a_hosts() -> None:
    output = read(
        export(
            ("cpu.usage.average", "40", ""), ("cpu.usage.average", "30", "3"), ("mem.consumed.average", "1024", ""),
            ("net.received.average", "8", "vmnic0"), ("cpu.used.summation", "900", "3"), of=HOST,
        )
    )  # fmt: skip
    assert told_of(output) == {
        ("hosts.esx1.lab.cpu", "cpu"): 0.4,
        ("hosts.esx1.lab.cpu3", "cpu"): 0.3,
        ("hosts.esx1.lab", "memory_used"): 2**20,
        ("hosts.esx1.lab.vmnic0", "network_received"): 8 * 1024 * 8,
    }
    assert output.notes == []


def test_clusters_are_neither_and_are_left_out_aloud() -> None:
    cluster = export(("mem.consumed.average", "1", ""), of=("lab", "ClusterComputeResource-domain-c7"))
    rows = export(("mem.consumed.average", "1", ""))
    output = read(rows + cluster.split("\n", 1)[1])
    assert told_of(output) == {("guests.web1", "memory_used"): 1024}
    assert output.notes == ["neither guest nor host, and left out: lab"]


def test_without_entity_ids_hosts_are_known_by_their_ports_and_guests_are_said_to_be_taken_for_such() -> None:
    text = "MetricId,Timestamp,Value,Entity,Instance\n" + "".join(
        f"{metric},{FIRST},1,{entity},{instance}\n"
        for metric, entity, instance in (
            ("mem.consumed.average", "esx1", ""),
            ("net.received.average", "esx1", "vmnic1"),
            ("mem.consumed.average", "web1", ""),
        )
    )
    output = read(text)
    assert {entity for entity, _ in told_of(output)} == {"hosts.esx1", "hosts.esx1.vmnic1", "guests.web1"}
    assert output.notes == ["there is no EntityId: web1 are taken for guests"]


GERMAN = ("31.05.2018 02:13:20", ";")


def test_a_decimal_comma_is_read_where_the_separator_and_a_number_prove_it() -> None:
    at, separator = GERMAN
    rows = [("cpu.usage.average", "29,5", ""), ("net.received.average", "1,234", "4000")]
    found = told_of(read(export(*rows, at=at, separator=separator)))
    assert found["guests.web1", "cpu_share"] == pytest.approx(0.295)
    assert found["guests.web1.4000", "network_received"] == pytest.approx(1.234 * 8192)


@pytest.mark.parametrize(
    ("values", "separator", "what"),
    [
        (["1,234"], ";", "what the comma of Value '1,234' is cannot be told"),
        (["1,234,567", "29,5"], ";", "what the comma of Value '1,234,567' is cannot be told"),
        (["29,5", "30.5"], ";", "and another has a point"),
        (["29,5"], ",", "'29,5' has a comma"),
        (["1,234.5"], ",", "'1,234.5' has a comma"),
        (["29,5"], "\t", "'29,5' has a comma"),
    ],
)
def test_a_comma_that_could_be_anything_is_refused_with_its_line_and_cure(
    values: list[str], separator: str, what: str
) -> None:
    rows = [("disk.read.average", value, str(number)) for number, value in enumerate(values)]
    with pytest.raises(UnreadableError, match=what) as caught:
        read(export(*rows, separator=separator))
    assert caught.value.line == 2
    assert "-UseCulture" in caught.value.cure


def test_a_value_that_stands_there_twice_is_no_second_sample() -> None:
    with pytest.raises(UnreadableError, match=r"has memory_used of 'guests\.web1' twice"):
        read(export(*2 * [("mem.consumed.average", "1", "")]))


@pytest.mark.parametrize(
    ("stamps", "day_first"),
    [
        (["05/06/2018 02:13:20", "05/06/2018 02:13:40"], False),
        (["5/6/2018 11:59:40 PM", "5/7/2018 12:00:00 AM"], False),
        (["05/06/2018 23:59:40", "06/06/2018 00:00:00"], True),
        (["31/05/2018 23:59:40", "31/05/2018 23:59:59"], True),
        (["5/31/2018 2:13:20 AM", "6/9/2018 2:13:20 AM"], False),
        (["2018-05-06 23:59:40", "2018-05-07 00:00:00"], False),
        ([], False),
    ],
)
def test_day_and_month_are_told_apart_by_the_instants_around(stamps: list[str], day_first: bool) -> None:
    assert day_comes_first(stamps) is day_first


def test_days_that_cannot_be_told_from_months_are_refused_where_it_matters() -> None:
    with pytest.raises(UnreadableError, match="day or its month"):
        day_comes_first(["01/02/2018 10:00:00", "05/04/2018 10:00:00"])


def test_midnight_between_days_written_first_is_seconds_and_no_month() -> None:
    rows = export(("mem.consumed.average", "1", ""), at="06/06/2018 00:00:00")
    rows += export(("mem.consumed.average", "1", ""), at="05/06/2018 23:59:40").split("\n", 1)[1]
    assert [one.t_ns for one in read(rows).points] == [0, 20 * 10**9]
