//! How long a recovery takes, where one thing alone limits it. `Form` plays the same as machines; the tests compare
//! both.
//!
//! ```
//! use virtlab_store::closed_form::{many_to_many_s, over_one_link_s, partitions_s};
//!
//! // 1 TB of files, 3 copies, 24 nodes: a node holds 125 GB; into its own link of 110 MB/s they take 18.9 minutes.
//! assert_eq!((over_one_link_s(125e9, 110e6) / 6.0).round(), 189.0);
//! // Among the 23 survivors they take less than a minute.
//! assert_eq!(many_to_many_s(125e9, 23, 110e6).round(), 49.0);
//! // 32,768 copies of partitions at 1.04 s each, one after the other: 9.5 hours, whatever is in them.
//! assert_eq!((partitions_s(32768, 1.04, 1) / 360.0).round(), 95.0);
//! ```

/// What one of so many nodes holds, if all hold the same: `bytes` of payload in so many copies.
#[must_use]
pub fn held_bytes(bytes: f64, copies: u32, nodes: u32) -> f64 {
    bytes * f64::from(copies) / f64::from(nodes)
}

/// Seconds of a recovery that one link or one stream carries: many to one, one stream, throttled.
#[must_use]
pub fn over_one_link_s(bytes: f64, rate_byte_per_s: f64) -> f64 {
    bytes / rate_byte_per_s
}

/// Seconds of a recovery among survivors, each with a link that carries the rate in both directions at once.
#[must_use]
pub fn many_to_many_s(bytes: f64, survivors: u32, rate_byte_per_s: f64) -> f64 {
    bytes / (f64::from(survivors) * rate_byte_per_s)
}

/// Seconds of a recovery that scans so many copies of partitions, so many at once.
#[must_use]
pub fn partitions_s(partitions: u32, cost_s: f64, at_once: u32) -> f64 {
    f64::from(partitions.div_ceil(at_once)) * cost_s
}

/// Copies of partitions that a node has, if all have the same.
#[must_use]
pub const fn partitions_of_a_node(partitions: u32, copies: u32, nodes: u32) -> u32 {
    partitions * copies / nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64, within: f64) {
        assert!((value - expected).abs() <= within, "{value} is not {expected}");
    }

    #[test]
    fn a_lost_node_of_a_terabyte_held_125_gb_with_three_copies_and_83_gb_with_two() {
        near(held_bytes(1e12, 3, 24), 125e9, 0.0);
        near(held_bytes(1e12, 2, 24), 83e9, 0.4e9);
    }

    #[test]
    fn into_the_reformatted_node_take_18_9_minutes_at_the_rate_of_its_link() {
        near(over_one_link_s(125e9, 110e6) / 60.0, 18.9, 0.05);
    }

    #[test]
    fn two_copies_take_22_minutes_at_the_fitted_rate_and_12_6_at_that_of_the_link() {
        near(over_one_link_s(83e9, 63e6) / 60.0, 22.0, 0.05);
        near(over_one_link_s(83e9, 110e6) / 60.0, 12.6, 0.05);
    }

    #[test]
    fn the_published_hours_of_a_scan_are_1_04_to_1_13_s_per_copy_of_a_partition() {
        let copies = partitions_of_a_node(262_144, 3, 24);
        assert_eq!(copies, 32768);
        near(partitions_s(copies, 1.04, 1), 34020.0, 60.0);
        near(partitions_s(copies, 1.13, 1), 36960.0, 70.0);
    }

    #[test]
    fn one_stream_of_1_25_mb_per_s_takes_the_published_18_5_hours() {
        near(over_one_link_s(83e9, 1.25e6) / 3600.0, 18.5, 0.06);
    }

    #[test]
    fn partitions_that_do_not_fill_the_last_turn_take_a_whole_one() {
        near(partitions_s(10, 2.0, 4), 6.0, 0.0);
    }
}
