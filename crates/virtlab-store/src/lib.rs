//! A distributed store of objects as pure state machines: messages, disk completions, time and requests in; sends, disk
//! requests and answers out. It knows content by length and by a number that stands for it.
//!
//! ```text
//! message    what machines say and want: nouns (peers, keys, versions, objects), listing (pages of names)
//! policy     what a store is: given (as a Plan says it), placement (ring, elastic hash, least loaded)
//! client     operations, and their tries: coordinator (lookup, copies, quorum, content), heard (answers to a question),
//!            proxy (leads attempts of clients), volume (a disk whose blocks are objects)
//! node       cache, disk, answers: shelf (what a node holds), book (what nodes have promised), detector (who is silent)
//! recovery   lists, pulls, scan of partitions, pace: pages (how far a node has answered), doubts (what was replaced
//!            elsewhere), spread (copies that survivors make among themselves), loss (how far a recovery is), closed_form
//!            (how long recoveries take, computed)
//! folder     what clients know of their objects: mix (shares of operations), order (which is taken next), audit (what nodes hold in the end),
//!            catalogue (what is known of them, for a client elsewhere)
//! alarms     what is due next                               table         things by their names, in no order
//! ```
//! It is a study object, made to compare lookups, paths of copies, caches and recoveries of named systems one by one,
//! and none of these systems: names of objects, directories, permissions and content are its driver's.
//!
//! **What an answer promises.** In a store that is strict (`Policy::is_strict`), an answered write is there for every
//! later read as long as fewer than `write_quorum` nodes are gone or not whole at a time, and a read gives nothing that
//! an answered write had replaced when the read began; where too few nodes answer, it fails. A write that failed may
//! have happened, or happen later. Among writes at the same time the later version stays. What a node may lose is what
//! `Ack` says.
//!
//! Its driver gives a machine times that never go back, tells it of what comes (`handle`, `complete`, `request`), takes
//! all `output`, and wakes it no later than at `next_event`. Messages may be lost, doubled and reordered.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod alarms;
mod client;
mod folder;
mod message;
mod node;
mod policy;
mod recovery;
mod table;

pub use client::Client;
pub use client::coordinator::Coordinator;
pub use client::proxy::Proxy;
pub use client::volume::{Operation, Volume};
pub use folder::audit::{Audit, Held};
pub use folder::catalogue::{NoPage, Page as Catalogue};
pub use folder::mix::Mix;
pub use folder::order::Order;
pub use folder::{Deed, Folder, Found as Ending, Pick};
pub use message::listing::{Listing, MOST as LISTED_MOST, Name, Told};
pub use message::nouns::{Holders, Key, Object, Peer, Version};
pub use message::{Attempt, Failure, Found, Message, Outcome, Output, Task, To};
pub use node::Node;
pub use node::book::{Book, Open, Page};
pub use node::detector::Detector;
pub use node::shelf::Left;
pub use policy::given::{Effort, Given};
pub use policy::{Ack, Form, Lookup, Nonsense, Policy, Scan, WrittenBy};
pub use recovery::loss::{Loss, Standing};
pub use recovery::{Progress, closed_form};
