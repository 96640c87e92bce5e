//! Queue disciplines and classes as the kernel has them, with their counters.

use crate::kernel::encode::{print_handle, traffic_header};
use crate::kernel::netlink::{Socket, attributes, number32, number64, text};
use serde_json::{Map, Value, json};
use virtlab_qdisc::kernel::{Cell, decode};
use virtlab_qdisc::{Declaration, declared};

/// One queue discipline or class as read back, with its counters.
#[derive(Clone, Debug, Default)]
pub struct Queueing {
    pub index: i32,
    pub kind: String,
    pub handle: u32,
    pub parent: u32,
    pub options: Map<String, Value>,
    pub bytes: u64,
    pub packets: u64,
    pub drops: u64,
    pub overlimits: u64,
    pub backlog_packets: u64,
    pub backlog_bytes: u64,
    /// What its kind counts beside these.
    pub counted: Vec<(&'static str, u64)>,
}

impl Queueing {
    /// As it is reported.
    pub fn json(&self) -> Value {
        let mut value = self.options.clone();
        value.insert("kind".into(), json!(self.kind));
        value.insert("handle".into(), json!(print_handle(self.handle)));
        value.insert("parent".into(), json!(print_handle(self.parent)));
        value.insert("bytes".into(), json!(self.bytes));
        value.insert("packets".into(), json!(self.packets));
        value.insert("drops".into(), json!(self.drops));
        value.insert("overlimits".into(), json!(self.overlimits));
        value.insert("backlog_packets".into(), json!(self.backlog_packets));
        value.insert("backlog_bytes".into(), json!(self.backlog_bytes));
        value.extend(self.counted.iter().map(|(name, count)| ((*name).to_owned(), json!(count))));
        Value::Object(value)
    }
}

/// All queue disciplines of the namespace that a socket is in.
///
/// # Errors
/// When the kernel refuses the dump.
pub fn qdiscs(socket: &mut Socket) -> anyhow::Result<Vec<Queueing>> {
    let dump = socket.dump(libc::RTM_GETQDISC, &traffic_header(0, 0, 0))?;
    Ok(dump.iter().map(|(_, body)| queueing(body, |declared| declared.kernel)).collect())
}

/// All classes at an interface.
///
/// # Errors
/// When the kernel refuses the dump.
pub fn classes(socket: &mut Socket, index: i32) -> anyhow::Result<Vec<Queueing>> {
    let dump = socket.dump(libc::RTM_GETTCLASS, &traffic_header(index, 0, 0))?;
    Ok(dump.iter().map(|(_, body)| queueing(body, |declared| declared.kernel_class)).collect())
}

type Cells = Option<&'static [Cell]>;

/// What the kernel tells of a discipline or class. `cells`: which of a declaration's tables its options have.
fn queueing(body: &[u8], cells: fn(&Declaration) -> Cells) -> Queueing {
    let mut found = Queueing {
        index: body.get(4..8).map_or(0, number32) as i32,
        handle: body.get(8..12).map_or(0, number32),
        parent: body.get(12..16).map_or(0, number32),
        ..Queueing::default()
    };
    let mut options: &[u8] = &[];
    for (kind, value) in attributes(body.get(20..).unwrap_or(&[])) {
        match kind {
            libc::TCA_KIND => found.kind = text(value),
            libc::TCA_OPTIONS => options = value,
            libc::TCA_STATS2 => {
                for (kind, value) in attributes(value) {
                    match kind {
                        1 => {
                            found.bytes = number64(value);
                            found.packets = value.get(8..).map_or(0, number32).into();
                        }
                        3 => {
                            let at = |word: usize| u64::from(value.get(word * 4..).map_or(0, number32));
                            found.backlog_packets = at(0);
                            found.backlog_bytes = at(1);
                            found.drops = at(2);
                            found.overlimits = at(4);
                        }
                        // TCA_STATS_APP
                        4 => {
                            if let Some(known) = declared(&found.kind) {
                                found.counted = known.counted(value);
                            }
                        }
                        // TCA_STATS_PKT64: the count above has 32 bits.
                        8 => found.packets = number64(value),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    let settings = declared(&found.kind).and_then(cells).map(|cells| decode(cells, options));
    let told = settings.into_iter().flatten();
    found.options = told.map(|(name, setting)| (name, json!(setting))).collect();
    found
}
