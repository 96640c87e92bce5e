//! A distributed store of objects as pure state machines: messages, disk completions, time and requests in; sends, disk
//! requests and answers out. It knows content by length and by a number that stands for it.
//!
//! ```text
//! client     operations: who leads an attempt, which version it writes, when it is tried again
//! proxy      leads attempts of clients                      coordinator   lookup, copies, quorum, content
//! node       cache, disk, answers                           shelf         what a node holds and has promised
//!                                                           book          what nodes have promised
//! recovery   lists, pulls, scan of partitions, pace         spread        copies that survivors make among themselves
//! detector   who has been silent for too long               closed_form   how long recoveries take, computed
//! policy     what a store is                                placement     ring, elastic hash, least loaded
//! message    what machines say and want                     nouns         peers, keys, versions, objects
//! alarms     what is due next                               heard         what nodes answered to a question
//! listing    pages of names
//! folder     what clients know of their objects             given         a store as a Plan says it
//! mix        shares of operations                           audit         what nodes hold of a folder in the end
//! volume     a disk whose blocks are objects              table         things by their names, in no order
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
mod audit;
mod book;
mod client;
pub mod closed_form;
mod coordinator;
mod detector;
mod folder;
mod given;
mod heard;
mod listing;
mod loss;
mod message;
mod mix;
mod node;
mod nouns;
mod placement;
mod policy;
mod proxy;
mod recovery;
mod shelf;
mod spread;
mod table;
mod volume;

pub use audit::{Audit, Held};
pub use book::{Book, Page};
pub use client::Client;
pub use coordinator::Coordinator;
pub use detector::Detector;
pub use folder::{Deed, Folder, Found as Ending, Pick};
pub use given::{Effort, Given};
pub use listing::{Listing, MOST as LISTED_MOST, Name, Told};
pub use loss::{Loss, Standing};
pub use message::{Attempt, Failure, Found, Message, Outcome, Output, Task, To};
pub use mix::Mix;
pub use node::Node;
pub use nouns::{Holders, Key, Object, Peer, Version};
pub use policy::{Ack, Form, Lookup, Nonsense, Policy, Scan, WrittenBy};
pub use proxy::Proxy;
pub use recovery::Progress;
pub use shelf::Left;
pub use volume::{Operation, Volume};
