//! What the control plane asks of the leader, as it is in JSON. An unknown request or field is an error.

use crate::processes::child::Terminal;
use crate::streams::conduit::Descriptor;
use crate::world::operation::Operation;
use crate::world::reach::Pair;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use virtlab_system::transport::understood;

/// A series that is sampled.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    pub source: String,
    pub every_ns: u64,
}

/// One request; its `id` was taken out before.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    Hello {
        protocol: (u16, u16),
    },
    Clock {},
    /// Units of counted work that a processor of this machine does in a second.
    WorkRate {},
    Bye {},
    Ack {
        #[serde(rename = "stream")]
        _stream: String,
        #[serde(rename = "schema")]
        _schema: String,
        #[serde(rename = "number")]
        _number: u64,
    },
    Apply {
        batch: Vec<Operation>,
    },
    Observe {
        namespaces: Vec<String>,
    },
    Ping {
        pairs: Vec<Pair>,
        deadline_ns: u64,
    },
    TryQdiscs {
        kinds: Vec<String>,
    },
    Spawn {
        channel: u16,
        role: String,
        namespace: String,
        #[serde(default)]
        cpus: Vec<usize>,
        fifo_priority: Option<i32>,
        #[serde(default)]
        cgroups: Vec<String>,
    },
    Exec {
        channel: u16,
        namespace: String,
        /// The namespace whose network it has, under the name of the other; its own where absent.
        network: Option<String>,
        argv: Vec<String>,
        #[serde(default)]
        environment: BTreeMap<String, String>,
        terminal: Option<Terminal>,
        #[serde(default)]
        cpus: Vec<usize>,
        #[serde(default)]
        cgroups: Vec<String>,
        #[serde(default)]
        descriptors: Vec<Descriptor>,
        /// It shares the machine's files, and must not change them.
        #[serde(default)]
        confined: bool,
        /// Name or number of the user that it runs as; the leader's own where it is absent.
        user: Option<String>,
        /// Where it begins; of a confined command always a folder of its own.
        folder: Option<String>,
        /// The host at which it is a machine of a guest that moves: what it uses is a series of its own,
        /// `NAMESPACE@HOST`.
        host: Option<String>,
    },
    Resize {
        channel: u16,
        rows: u16,
        columns: u16,
    },
    /// What is for the agent that begins at a channel waits at the leader (`held`), or goes to it again; absent: the
    /// agent continues on the stream of the command that was born with its `heir`.
    HandOver {
        channel: u16,
        held: Option<bool>,
    },
    Kill {
        channel: u16,
        signal: i32,
    },
    Sample {
        sources: Vec<Series>,
        /// Rows wait until the series end: their way here may be what is measured.
        #[serde(default)]
        hold: bool,
        /// Guests that share processors, so that their use together is sampled with theirs (`Sharings::read`).
        #[serde(default)]
        shared: Vec<Value>,
    },
    Counters {
        groups: Vec<String>,
    },
    /// On which processors the threads of all guests may run.
    Placed {},
    /// What is started in a namespace from now on has that disk on a store, as a file system.
    Mount {
        namespace: String,
        disk: Value,
    },
    /// The disks that are served, as they are.
    Disks {},
    Keep {
        socket: String,
        idle_ns: u64,
    },
}

/// Why a control frame is no request of a leader, and its number; nothing is done.
#[must_use]
pub fn refused(body: &[u8]) -> Option<(Value, String)> {
    understood::<Request>(body).err()
}
