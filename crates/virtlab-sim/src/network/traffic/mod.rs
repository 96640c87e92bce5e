//! What happens between the parts of the network: a message's way out of a guest, through the fabric, and into another.
//!
//! ```text
//! opening; sending -> resolution -> queueing (trains, sharing, meetings, roads) -> delays -> crossing -> fabric
//! receiving (forwarding, discovery) <- crossing <- delays <- landing <------------------- fabric
//! ```

mod bulk;
mod counters;
mod crossing;
mod delays;
mod discovery;
mod forwarding;
mod interfaces;
mod landing;
mod meetings;
mod moves;
mod opening;
mod post;
mod queueing;
mod receiving;
mod resolution;
mod roads;
mod sending;
mod sharing;
mod trains;

pub use landing::Landed;
pub use post::Twig;
