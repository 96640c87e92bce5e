"""Seeds that Plans and datasets hold: a value that changed would make stored results unrepeatable."""

from virtlab.plan.seeds import draw_seed, run_seed, service_seed, stream_seed, trial_seed


def test_every_derived_seed_is_what_stored_datasets_hold() -> None:
    assert run_seed(7, {"load": "30 kB"}, 2) == 2947171663018800143
    assert trial_seed(7, "search-1") == 7744327363624333874
    assert stream_seed(1, "load", "client") == 6780175431090021178
    assert draw_seed(7, 3, "switch_ns") == 2167570607683993283


def test_a_service_draws_by_its_name_and_its_guest() -> None:
    seeds = {service_seed(1, service, guest) for service in ("app", "web") for guest in ("a", "b")}
    assert len(seeds | {stream_seed(1, "app", "server"), stream_seed(1, "app", "client")}) == 6
