//! Options as Linux takes and tells them: the bytes of what tc sends for the same, and what comes back of them.

use virtlab_qdisc::kernel::{Cell, Setting, Settings, decode, encode};
use virtlab_qdisc::{TABLE, declared};

fn settings(given: &[(&str, u64)]) -> Settings {
    given.iter().map(|(name, value)| ((*name).to_owned(), Setting::Whole(*value))).collect()
}

fn cells(kind: &str) -> &'static [Cell] {
    declared(kind).unwrap().kernel.unwrap()
}

fn class_cells(kind: &str) -> &'static [Cell] {
    declared(kind).unwrap().kernel_class.unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn encoded(kind: &str, given: &[(&str, u64)]) -> String {
    hex(&encode(kind, cells(kind), &settings(given)).unwrap())
}

#[test]
fn disciplines_are_encoded_as_tc_encodes_them() {
    let times = [("target_ns", 5_000_000), ("interval_ns", 100_000_000), ("limit_packets", 1000)];
    let codel = [&times[..], &[("ecn", 1)]].concat();
    assert_eq!(
        encoded("codel", &codel),
        "08000200e803000008000300a0860100080001008813000008000400 01000000".replace(' ', "")
    );
    let more = [
        ("ecn", 0),
        ("flows", 64),
        ("quantum_bytes", 300),
        ("memory_limit_bytes", 1 << 20),
        ("drop_batch", 8),
    ];
    assert_eq!(
        encoded("fq_codel", &[&times[..], &more[..]].concat()),
        "08000200e80300000800050040000000080006002c01000008000300a086010008000100881300000800040000000000\
         08000900000010000800080008000000"
    );
    let sfq = [
        ("limit_packets", 100),
        ("quantum_bytes", 3000),
        ("perturb_ns", 10_000_000_000),
        ("flows", 100),
        ("depth", 64),
        ("divisor", 512),
    ];
    let wanted = "b80b00000a00000064000000000200006400000040000000".to_owned() + &"00".repeat(48);
    assert_eq!(encoded("sfq", &sfq), wanted);
    assert_eq!(encoded("hfsc", &[("default_class", 2)]), "0200");
    // tc adds an empty attribute that the kernel does not need.
    assert_eq!(encoded("prio", &[("bands", 4), ("band", 3)]), "0400000003030303030303030303030303030303");
    assert_eq!(encoded("drr", &[]), "");
}

#[test]
fn classes_are_encoded_as_tc_encodes_them() {
    let curves = Settings::from([
        ("real_time".to_owned(), Setting::Curve([20_000_000, 10_000_000, 10_000_000])),
        ("link_share".to_owned(), Setting::Curve([0, 0, 5_000_000])),
    ]);
    let made = encode("hfsc", class_cells("hfsc"), &curves).unwrap();
    assert_eq!(hex(&made), "10000100a025260010270000d012130010000200000000000000000068890900");
    assert_eq!(decode(class_cells("hfsc"), &made), curves);
    let drr = encode("drr", class_cells("drr"), &settings(&[("quantum_bytes", 2000)])).unwrap();
    assert_eq!(hex(&drr), "08000100d0070000");
}

#[test]
fn a_burst_comes_back_in_whole_ticks_of_its_rate_and_however_fast_it_is() {
    let class = |rate: u64, burst: u64| {
        let given = settings(&[
            ("rate_bit_per_s", rate),
            ("ceil_bit_per_s", 2 * rate),
            ("burst_bytes", burst),
            ("cburst_bytes", burst),
            ("quantum_bytes", 1514),
            ("prio", 3),
            ("overhead_bytes", 24),
            ("minimum_bytes", 84),
        ]);
        (given.clone(), decode(class_cells("htb"), &encode("htb", class_cells("htb"), &given).unwrap()))
    };
    let (given, told) = class(100_000_000, 15_380);
    assert_eq!(told, given);
    // 80 Gbit/s are more bytes per second than 32 bits count: a tick holds 640 of them.
    let (given, told) = class(80_000_000_000, 64_000);
    assert_eq!(told, given);
    // 15,380 octets at 100 Mbit/s last 1,230,400 ns: 19,225 ticks.
    let (given, _) = class(100_000_000, 15_380);
    let bytes = encode("htb", class_cells("htb"), &given).unwrap();
    assert_eq!(bytes[4 + 24..4 + 28], 19_225_u32.to_ne_bytes());
}

#[test]
fn what_a_kernel_is_asked_with_reads_back_as_it_is() {
    for declared in &TABLE {
        let Some(cells) = declared.kernel else { continue };
        let given = settings(declared.trial);
        let told = decode(cells, &encode(declared.name, cells, &given).unwrap());
        for (name, value) in given {
            let same = told.get(&name).copied();
            let delayed = name == "delay_ns" || same == Some(value);
            assert!(delayed, "{} of {}: {same:?}, not {value:?}", name, declared.name);
        }
    }
}

#[test]
fn a_delay_without_a_rate_has_no_rate_and_a_share_of_losses_comes_back() {
    let mut given = settings(&[
        ("delay_ns", 1_000_001),
        ("limit_packets", 50),
        ("rate_bit_per_s", 0),
        ("overhead_bytes", 0),
    ]);
    given.insert("loss_ratio".to_owned(), Setting::Ratio(0.25));
    let told = decode(cells("netem"), &encode("netem", cells("netem"), &given).unwrap());
    assert_eq!(told["delay_ns"], Setting::Whole(1_000_001));
    assert!(!told.contains_key("rate_bit_per_s"));
    assert!(matches!(told["loss_ratio"], Setting::Ratio(share) if (share - 0.25).abs() < 1e-9));
}

#[test]
fn an_option_that_is_unknown_missing_or_too_large_is_refused_by_its_name() {
    let error = |kind: &str, given: &[(&str, u64)]| {
        encode(kind, cells(kind), &settings(given)).unwrap_err().to_string()
    };
    assert_eq!(error("codel", &[("flows", 1)]), "flows: the kernel's codel has no such option");
    assert_eq!(error("pfifo", &[]), "limit_packets: is missing");
    assert_eq!(
        error("pfifo", &[("limit_packets", 1 << 32)]),
        "limit_packets: 4294967296 is more than the kernel counts"
    );
    assert_eq!(error("codel", &[("ecn", 2)]), "ecn: 2 is more than the kernel counts");
}
