//! Samples as columns, under the names of the block schemas.

pub mod readings;

/// One column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// 64 bits.
    I64(Vec<i64>),
    /// 32 bits.
    I32(Vec<i32>),
    /// Names.
    Name(Vec<String>),
}

/// Rows of one schema from one stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Role, or `counters`.
    pub stream: String,
    /// Schema, as `rtt/1`.
    pub schema: &'static str,
    /// Columns in the schema's order.
    pub columns: Vec<(&'static str, Column)>,
}

/// Makes the struct of a schema's row and turns rows into columns.
macro_rules! rows {
    ($(#[$doc:meta])* $name:ident, $schema:literal, { $($field:ident : $kind:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $(pub $field: rows!(@type $kind)),+ }
        impl $name {
            /// Rows as a table; `None` without rows.
            pub fn table(stream: &str, rows: &[Self]) -> Option<Table> {
                (!rows.is_empty()).then(|| Table {
                    stream: stream.to_owned(),
                    schema: $schema,
                    columns: vec![$((
                        stringify!($field),
                        Column::$kind(rows.iter().map(|row| row.$field).collect()),
                    )),+],
                })
            }
        }
    };
    (@type I64) => { i64 };
    (@type I32) => { i32 };
}

rows!(
    /// A request or packet sent.
    SentRow, "sent/1", { seq: I64, flow: I32, intended_ns: I64, sent_ns: I64, payload_bytes: I32 }
);
rows!(
    /// A reply.
    RttRow, "rtt/1",
    { seq: I64, flow: I32, intended_ns: I64, sent_ns: I64, received_ns: I64, rtt_ns: I64, path_rtt_ns: I64 }
);
rows!(
    /// A datagram or frame received.
    PacketRow, "packet/1",
    { seq: I64, flow: I32, sent_ns: I64, received_ns: I64, user_ns: I64, payload_bytes: I32 }
);
rows!(
    /// Progress of one end of a TCP connection.
    IntervalRow, "interval/1",
    { flow: I32, begin_ns: I64, end_ns: I64, received_bytes: I64, sent_bytes: I64, retransmits: I64, srtt_ns: I64,
      cwnd_packets: I64 }
);
rows!(
    /// A request and its response over TCP.
    TransactionRow, "transaction/1", { flow: I32, started_ns: I64, finished_ns: I64 }
);
rows!(
    /// A request of `psping`: its number below 0 in the warm-up, `finished_ns` -1 without an answer.
    RequestRow, "request/1", { seq: I64, sent_ns: I64, finished_ns: I64, payload_bytes: I64 }
);
rows!(
    /// A job of a hard-deadline task; -1 where it never began or ended.
    RtJobRow, "rt_job/1",
    { task: I32, episode: I32, release_ns: I64, start_ns: I64, finish_ns: I64, response_ns: I64, executed_ns: I64,
      missed: I32 }
);
rows!(
    /// A period of a guest's CPU budget.
    RtSupplyRow, "rt_supply/1", { begin_ns: I64, end_ns: I64, served_ns: I64, charged_ns: I64 }
);
rows!(
    /// A burst.
    BurstRow, "burst/1",
    { burst: I64, stream: I32, intended_ns: I64, sent_ns: I64, finished_ns: I64, sent_bytes: I64, replied_bytes: I64 }
);
