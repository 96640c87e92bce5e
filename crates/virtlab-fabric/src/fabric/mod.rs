//! The machine: frames in, model time, frames out.
//!
//! Every event is in an agenda under its own time. `advance(now)` plays all up to `now`; a frame that comes in with a
//! stamp before that is still played from its stamp, because its first line belongs to its port alone and its effect on
//! others lies a serialisation time ahead. Only an effect that would lie in the played past is late, and counted.
//!
//! Each part owns its state: `graph` (which line leads where), `switch`, `schedule` (timers), `store` (frames inside),
//! `comings` (frames that meet without events) and `forecast` (departures told ahead). [`Fabric`] in `machine` is made
//! of them; `build` makes it, `play`, `forward`, `certain`, `meet`, `foretell`, `read` and `change` are what it does.

mod bound;
mod build;
mod certain;
mod change;
mod comings;
mod forecast;
mod foretell;
mod forward;
mod graph;
mod machine;
mod meet;
mod play;
mod read;
mod schedule;
mod store;
mod switch;
mod table;

pub use certain::Passage;
pub use change::LineId;
pub use forecast::Foretold;
pub use graph::PortId;
pub use machine::{Departure, Fabric};
pub use meet::Meeting;
pub use read::LineView;
pub use switch::SwitchCounters;
