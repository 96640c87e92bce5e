//! What can be wrong with a question, or too large to answer exactly.

/// Every error names what is at fault; a task by its place in the set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RtError {
    /// A task whose numbers make no sense.
    #[error("task {index}: {what}")]
    Task {
        /// Place in the set, highest priority first.
        index: usize,
        /// What is wrong.
        what: String,
    },
    /// A supply (period, budget, overhead, share) that makes no sense.
    #[error("{0}")]
    Supply(String),
    /// Numbers beyond 128-bit exact arithmetic.
    #[error("{0} leaves exact 128-bit arithmetic; use coarser units or simpler fractions")]
    Overflow(&'static str),
    /// More points or pieces than can be looked at one by one.
    #[error("{what} needs more than {limit} steps; {cure}")]
    TooMany {
        /// Which search.
        what: &'static str,
        /// How many it would look at.
        limit: u64,
        /// What helps.
        cure: &'static str,
    },
}

/// `value.ok_or(Overflow)`, shortened.
pub(crate) fn fits<T>(value: Option<T>, what: &'static str) -> Result<T, RtError> {
    value.ok_or(RtError::Overflow(what))
}
