//! Disciplines by name, with and without classes, and their mistakes.

use std::collections::BTreeMap;
use virtlab_qdisc::{ClassLayout, Ecn, Packet, Parameter, Qdisc, build, build_classes, leaves};
use virtlab_wire::Nanos;

fn parameters(given: &[(&str, u64)]) -> BTreeMap<String, Parameter> {
    given.iter().map(|(key, value)| ((*key).to_owned(), Parameter::Whole(*value))).collect()
}

#[test]
fn every_discipline_is_built_by_its_name() {
    for (kind, given) in [
        ("fifo", parameters(&[])),
        ("pfifo", parameters(&[])),
        ("bfifo", parameters(&[])),
        ("pfifo_fast", parameters(&[])),
        ("sfq", parameters(&[("perturb_ns", 10_000_000_000)])),
        ("codel", parameters(&[("target_ns", 1_000_000)])),
        ("fq_codel", parameters(&[("flows", 64)])),
        ("tbf", parameters(&[("rate_bit_per_s", 1_000_000), ("burst_bytes", 3000)])),
        ("htb", parameters(&[("rate_bit_per_s", 1_000_000), ("cburst_bytes", 9000)])),
        ("hfsc", parameters(&[("m2_bit_per_s", 1_000_000)])),
        ("netem", parameters(&[("delay_ns", 1_000_000), ("loss_ratio", 0), ("seed", 3)])),
    ] {
        assert!(build(kind, None, None, &given).is_ok(), "{kind}");
    }
}

#[test]
fn a_mistake_names_its_key() {
    let error = |kind: &str, packets, bytes, given: &[(&str, u64)]| {
        build(kind, packets, bytes, &parameters(given)).err().expect("it is a mistake").to_string()
    };
    assert_eq!(error("red", None, None, &[]), "kind: there is no discipline 'red'");
    assert_eq!(error("netem", None, None, &[("loss_ratio", 2)]), "loss_ratio: is a share, 0 to 1");
    assert_eq!(error("fifo", None, None, &[("target_ns", 1)]), "target_ns: fifo has no such parameter");
    assert_eq!(error("tbf", None, None, &[("burst_bytes", 9)]), "rate_bit_per_s: is missing");
    assert_eq!(error("codel", None, Some(9), &[]), "limit_bytes: codel is limited in packets");
    assert_eq!(error("pfifo", None, Some(9), &[]), "limit_bytes: pfifo is limited in packets");
    assert_eq!(error("bfifo", Some(9), None, &[]), "limit_packets: bfifo is limited in bytes");
    assert_eq!(error("sfq", Some(0), None, &[]), "limit_packets: a queue that holds nothing passes nothing");
    assert_eq!(error("codel", None, None, &[("ecn", 1)]), "ecn: is yes or no, not a number");
}

fn class(parent: Option<&str>, given: &[(&str, u64)]) -> ClassLayout {
    let parameters = given.iter().map(|(key, value)| ((*key).to_owned(), Parameter::Whole(*value))).collect();
    ClassLayout { parent: parent.map(str::to_owned), limit_packets: None, parameters }
}

fn named(given: Vec<(&str, ClassLayout)>) -> BTreeMap<String, ClassLayout> {
    given.into_iter().map(|(name, class)| (name.to_owned(), class)).collect()
}

fn order(qdisc: &mut dyn Qdisc, classes: &[u32]) -> Vec<u64> {
    let mut drops = Vec::new();
    for (id, class) in classes.iter().enumerate() {
        let packet = Packet { id: id as u64, bytes: 1000, flow: 0, class: *class, ecn: Ecn::NotCapable };
        qdisc.enqueue(packet, Nanos(0), &mut drops);
    }
    std::iter::from_fn(|| qdisc.dequeue(Nanos(0), &mut drops)).map(|packet| packet.id).collect()
}

#[test]
fn strict_priority_goes_by_prio_and_not_by_name() {
    let classes = named(vec![("bulk", class(None, &[("prio", 1)])), ("voice", class(None, &[]))]);
    let mut made = build_classes("prio", &classes).unwrap();
    assert_eq!(order(made.as_mut(), &[0, 0, 1]), [2, 0, 1]);
}

#[test]
fn round_robin_shares_by_quantum() {
    let (big, small) = (("quantum_bytes", 2000), ("quantum_bytes", 1000));
    let classes = named(vec![("a", class(None, &[big])), ("b", class(None, &[small]))]);
    let mut made = build_classes("drr", &classes).unwrap();
    assert_eq!(order(made.as_mut(), &[0, 0, 0, 0, 1, 1]), [0, 1, 4, 2, 3, 5]);
}

#[test]
fn a_tree_may_be_written_in_any_order_of_names() {
    let rate = ("rate_bit_per_s", 1_000_000);
    let classes = named(vec![("a-leaf", class(Some("z-root"), &[rate])), ("z-root", class(None, &[rate]))]);
    assert_eq!(leaves(&classes), [("a-leaf", 0)]);
    assert!(build_classes("htb", &classes).is_ok());
    let share = ("ls_m2_bit_per_s", 1_000_000);
    let classes = named(vec![("a", class(Some("b"), &[share])), ("b", class(None, &[share]))]);
    assert!(build_classes("hfsc", &classes).is_ok());
}

#[test]
fn a_mistake_in_a_class_names_both() {
    let error = |kind: &str, given| build_classes(kind, &named(given)).err().unwrap().to_string();
    assert_eq!(error("htb", vec![("a", class(None, &[]))]), "classes.a.rate_bit_per_s: is missing");
    assert_eq!(
        error("drr", vec![("a", class(Some("b"), &[])), ("b", class(None, &[]))]),
        "classes.a.parent: drr has one level of classes"
    );
    assert_eq!(
        error("htb", vec![("a", class(Some("a"), &[("rate_bit_per_s", 1)]))]),
        "classes.a.parent: leads to no top of the tree"
    );
    assert_eq!(
        error("prio", vec![("a", class(None, &[("rate_bit_per_s", 1)]))]),
        "classes.a.rate_bit_per_s: prio has no such parameter"
    );
    let of_prio = |prio| class(None, &[("rate_bit_per_s", 1_000_000), ("prio", prio)]);
    assert!(build_classes("htb", &named(vec![("a", of_prio(7)), ("b", of_prio(0))])).is_ok());
    for prio in [8, 256, u64::MAX] {
        assert_eq!(
            error("htb", vec![("a", of_prio(prio))]),
            format!("classes.a.prio: {prio} is not a priority from 0 to 7")
        );
    }
}
