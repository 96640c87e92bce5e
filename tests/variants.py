"""Tests that show by other means what a test beside them shows. They take long, so `make test` leaves them out and says
so; `make variants` runs them. Each stands beside the test that runs in its place.
"""

from __future__ import annotations

import os

import pytest

ASKED = ("VIRTLAB_TEST_VARIANTS", "VIRTLAB_TEST_KILLS")  # kills on demand are those of every kind
# By file: the test, with its parameters where only these are left out, and the one that runs in its place.
VARIANTS: dict[str, dict[str, str]] = {
    "process/test_attack_exit_codes.py": {
        "test_an_error_output_that_takes_nothing_stops_no_run[2>&-]":
            "test_an_error_output_that_takes_nothing_stops_no_run[2>/dev/full]",
        "test_an_export_that_nobody_gets_is_no_success[>&-]":
            "test_an_export_that_nobody_gets_is_no_success[>/dev/full]",
    },
    "testbed/test_a_search_finds_a_shaped_port.py": {
        f"test_the_rate_of_a_shaped_port_is_found_within_the_width[{size}]":
            "test_the_rate_of_a_shaped_port_is_found_within_the_width[1518]"
        for size in (128, 512, 1024)
    },
    "testbed/test_appliances.py": {
        "test_packets_go_through_a_router_that_was_configured_on_its_console":
            "test_an_appliance_that_was_reset_boots_again_is_told_its_recipe_again_and_forwards_as_before",
        "test_a_console_that_refuses_is_quoted":
            "test_a_console_that_never_says_what_is_waited_for_is_given_up_with_its_end",
    },
    "testbed/test_appliances_that_fail.py": {
        "test_runs_of_an_appliance_that_ends_at_boot_failed_with_its_console_and_the_others_are_measured":
            "test_an_appliance_that_ends_in_mid_run_fails_the_run_by_name_and_the_next_goes_on",
    },
    "testbed/test_containers_nothing_left.py": {
        "test_containers_killed_at_any_moment_leave_nothing[crun]":
            "test_containers_killed_at_any_moment_leave_nothing[runc]",
    },
    "testbed/test_existing_hosts.py": {
        "test_a_host_that_dies_as_its_role_ends_fails_the_run_by_name_all_the_same":
            "test_a_host_that_dies_in_mid_run_fails_the_run_by_name",
    },
    "testbed/test_existing_hosts_cut.py": {
        "test_connections_cut_while_a_role_plays_lose_nothing_and_double_nothing[kill_client]":
            "test_connections_cut_while_a_role_plays_lose_nothing_and_double_nothing[kill_server]",
        "test_a_connection_cut_again_and_again_in_the_middle_of_the_samples_delivers_each_row_once[kill_server]":
            "test_a_connection_cut_again_and_again_in_the_middle_of_the_samples_delivers_each_row_once[kill_client]",
    },
    "testbed/test_existing_hosts_silent.py": {
        "test_where_no_sshd_asks_the_kernel_of_the_host_ends_what_it_cannot_send":
            "test_a_network_that_vanishes_without_a_word_fails_one_run_in_bounded_time_and_the_rest_goes_on",
    },
    "testbed/test_forwarding_containers.py": {
        "test_every_flow_goes_through_its_own_container_also_after_a_reset[linux_bridge-layer3]":
            "test_every_flow_goes_through_its_own_container_also_after_a_reset[ovs-netdev-layer3]",
        "test_every_flow_goes_through_its_own_container_also_after_a_reset[ovs-netdev-layer2]":
            "test_every_flow_goes_through_its_own_container_also_after_a_reset[linux_bridge-layer2]",
    },
    "testbed/test_forwarding_machines.py": {
        "test_a_machine_routes_its_own_flow_and_as_before_when_it_was_reset[linux_bridge]":
            "test_a_machine_routes_its_own_flow_and_as_before_when_it_was_reset[ovs-netdev]",
    },
    "testbed/test_lab_vm.py": {
        "test_a_machine_that_stands_still_is_told_with_its_console_and_replaced_at_the_next_run":
            "test_a_machine_that_dies_in_mid_run_is_told_with_its_console_and_replaced_at_the_next_run",
        "test_open_vswitch_forwards_inside_by_either_of_its_datapaths[ovs-netdev-netdev]":
            "test_open_vswitch_forwards_inside_by_either_of_its_datapaths[ovs-kernel-system]",
    },
    "testbed/test_lab_vm_disciplines.py": {
        "test_the_kernel_inside_passes_what_virtlabs_state_machine_passes_as_late_and_drops_as_many[codel]":
            "test_the_kernel_inside_passes_what_virtlabs_state_machine_passes_as_late_and_drops_as_many[pie]",
    },
    "testbed/test_libvirt_nothing_left.py": {
        "test_owners_of_a_session_with_a_domain_killed_at_any_moment_leave_it_to_be_stopped":
            "test_owners_of_a_domain_killed_at_any_moment_leave_no_machine_but_one_that_its_user_started",
    },
    "testbed/test_machines_nothing_left.py": {
        "test_machines_killed_at_any_moment_leave_nothing":
            "test_machines_killed_while_one_moves_leave_nothing",
    },
    "testbed/test_machines_that_fail.py": {
        "test_runs_of_a_guest_that_never_boots_failed_with_its_console_and_the_others_are_measured[panics]":
            "test_runs_of_a_guest_that_never_boots_failed_with_its_console_and_the_others_are_measured[never]",
    },
    "testbed/test_migration.py": {
        "test_a_machine_is_copied_over_several_connections_and_compressed[how0]":
            "test_a_machine_is_copied_over_several_connections_and_compressed[how1]",
        "test_a_machine_whose_destination_died_before_its_boot_is_not_said_to_have_moved":
            "test_a_destination_that_dies_in_mid_move_leaves_the_machine_where_it_was",
        "test_a_machine_that_is_shut_down_boots_at_the_other_host_and_serves_again[live-icmp]":
            "test_a_machine_that_is_shut_down_boots_at_the_other_host_and_serves_again[static-udp]",
        "test_rules_of_open_vswitch_name_the_port_at_the_destination_once_it_is_there[static]":
            "test_rules_of_open_vswitch_name_the_port_at_the_destination_once_it_is_there[live]",
    },
    "testbed/test_migration_again.py": {
        "test_a_machine_moves_there_and_on_to_a_third_host_and_back[static]":
            "test_a_machine_moves_there_and_on_to_a_third_host_and_back[live]",
    },
    "testbed/test_migration_disks.py": {
        "test_what_a_machine_writes_to_its_disk_while_it_moves_is_on_it[mirrored-memory]":
            "test_what_a_machine_writes_to_its_disk_while_it_moves_is_on_it[mirrored-file]",
        "test_what_a_machine_writes_to_its_disk_while_it_moves_is_on_it[shared-file]":
            "test_what_a_machine_writes_to_its_disk_while_it_moves_is_on_it[shared-memory]",
        "test_a_disk_goes_there_and_back[shared]":
            "test_a_disk_goes_there_and_back[mirrored]",
        "test_a_disk_that_is_full_at_the_destination_is_a_failed_move_and_the_machine_runs_on[set-up]":
            "test_a_disk_that_is_full_at_the_destination_is_a_failed_move_and_the_machine_runs_on[rounds]",
    },
    "testbed/test_migration_network.py": {
        "test_what_a_move_says_it_sent_crossed_both_links_and_no_faster_than_they_are[linux_bridge-live-None]":
            "test_what_a_move_says_it_sent_crossed_both_links_and_no_faster_than_they_are[linux_bridge-static-4]",
        "test_a_copy_whose_link_is_cut_ends_by_its_time_out_and_the_machine_stays[go.started-2.0-None]":
            "test_a_copy_whose_link_is_cut_ends_by_its_time_out_and_the_machine_stays[go.started-2.0-4]",
        "test_a_copy_whose_link_is_cut_ends_by_its_time_out_and_the_machine_stays[load.started-0.3-None]":
            "test_a_copy_whose_link_is_cut_ends_by_its_time_out_and_the_machine_stays[go.started-2.0-4]",
        "test_a_guest_cannot_connect_in_the_place_of_the_machine_that_is_copied[static]":
            "test_a_guest_cannot_connect_in_the_place_of_the_machine_that_is_copied[live]",
        "test_a_machine_whose_link_is_slowed_arrives_and_as_much_later[rounds-soft_switch]":
            "test_a_machine_whose_link_is_slowed_arrives_and_as_much_later[switch-over-shaping]",
        "test_two_machines_move_together_and_a_third_host_has_both":
            "test_two_machines_that_move_to_one_host_at_a_time_listen_beside_each_other",
    },
    "testbed/test_open_vswitch_in_the_kernel.py": {
        "test_each_flows_first_packet_goes_up_where_flows_have_entries_of_their_own[shared-static]":
            "test_each_flows_first_packet_goes_up_where_flows_have_entries_of_their_own[own-live]",
        "test_each_flows_first_packet_goes_up_where_flows_have_entries_of_their_own[own-static]":
            "test_each_flows_first_packet_goes_up_where_flows_have_entries_of_their_own[own-live]",
    },
    "testbed/test_open_vswitch_nothing_left.py": {
        "test_a_daemon_killed_at_any_moment_fails_its_run_by_name_and_leaves_nothing[ovsdb-server]":
            "test_a_daemon_killed_at_any_moment_fails_its_run_by_name_and_leaves_nothing[ovs-vswitchd]",
    },
    "testbed/test_polls_inside.py": {
        "test_polls_inside_that_find_nothing_fail_the_run_with_one_line[qemu]":
            "test_polls_inside_that_find_nothing_fail_the_run_with_one_line[container]",
    },
    "testbed/test_search_kill.py": {
        "test_kills_lose_and_repeat_no_trial_and_leave_nothing[simulator]":
            "test_kills_lose_and_repeat_no_trial_and_leave_nothing[testbed]",
    },
    "testbed/test_services_bounded_inside.py": {
        "test_a_service_without_room_is_one_line_with_the_cause[qemu]":
            "test_a_service_without_room_is_one_line_with_the_cause[container]",
        "test_a_bounded_service_begins_where_it_would_and_finds_its_input_at_an_end[qemu]":
            "test_a_bounded_service_begins_where_it_would_and_finds_its_input_at_an_end[container]",
    },
    "testbed/test_services_inside.py": {
        "test_a_service_inside_is_another_user_where_it_asks_to_be[qemu]":
            "test_a_service_inside_is_another_user_where_it_asks_to_be[container]",
        "test_a_service_that_dies_inside_is_told_with_its_output[qemu]":
            "test_a_service_that_dies_inside_is_told_with_its_output[container]",
    },
    "testbed/test_cut_links.py": {
        "test_a_guest_of_its_own_kind_behind_a_link_that_is_cut_answers_again[qemu]":
            "test_a_guest_of_its_own_kind_behind_a_link_that_is_cut_answers_again[container]",
        # Who plays the links and who switches at the hosts: all values of both are played by the others.
        "test_echoes_are_lost_while_a_link_is_cut_and_the_next_trial_begins_with_it_whole[soft_switch-ovs-netdev-l0]":
            "test_echoes_are_lost_while_a_link_is_cut_and_the_next_trial_begins_with_it_whole[shaping-ovs-netdev-l1]",
    },
    "testbed/test_slowed_links.py": {
        # Of each two of rate, realisation and who queues, all pairs are played by the others.
        f"test_a_slowed_link_holds_frames_longer_and_the_next_trial_begins_with_its_rate[{which}]":
            f"test_a_slowed_link_holds_frames_longer_and_the_next_trial_begins_with_its_rate[{instead}]"
        for which, instead in (
            ("1000000-soft_switch-none", "1000000-soft_switch-uplink"),
            ("100000-soft_switch-uplink", "100000-soft_switch-none"),
            ("1000000-shaping-uplink", "1000000-shaping-none"),
            ("100000-shaping-none", "100000-shaping-uplink"),
        )
    },
    "unit/house/test_study_over_allocation.py": {
        "test_the_best_of_the_sources_cases_is_the_one_that_the_page_names[4500 request/s-2x20]":
            "test_the_best_of_the_sources_cases_is_the_one_that_the_page_names[5600 request/s-2x10]",
    },
}  # fmt: skip

REASON = "a variant, on demand by `make variants`: {} stands for it"


def stands_for(file: str, test: str) -> str | None:
    """What runs in place of a test of a file below `tests`; None where it runs itself."""
    asked = any(os.environ.get(name) for name in ASKED)
    return None if asked else VARIANTS.get(file, {}).get(test)


def mark(item: pytest.Item, file: str) -> None:
    """A variant is skipped unless it was asked for, and is known as one."""
    if item.name in VARIANTS.get(file, {}):
        item.add_marker(pytest.mark.variant)
    if (instead := stands_for(file, item.name)) is not None:
        item.add_marker(pytest.mark.skip(reason=REASON.format(instead)))
