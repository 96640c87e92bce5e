//! Schedulability of task sets inside a virtual CPU, in exact integer or rational time.
//!
//! A virtual machine gets `budget` B of every `period` P and loses `overhead` X at each start, so E = B - X reaches its
//! tasks. Everything here follows from one inequality: demand w is served within t iff for some whole k >= 1
//! `B >= w/k + X` and `P - B <= (t - w - kX)/(k + 1)`. Times are whole ticks (the caller says what a tick is; virtlab
//! uses ns, or a fraction of it when execution times are scaled); periods and budgets that are searched for are
//! rational. No clock, no operating system, no rounding: arithmetic is checked, and an overflow is an error, never a
//! wrong answer.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod batch;
pub mod best;
pub mod budget;
pub mod edf;
pub mod error;
pub mod fixed;
pub mod generate;
pub mod host;
pub mod interval;
pub mod largest;
mod parallel;
pub mod period;
pub mod priority;
pub mod rational;
pub mod sensitivity;
pub mod study;
pub mod supply;
pub mod task;

pub use error::RtError;
pub use interval::{Interval, IntervalSet};
pub use rational::Rational;
pub use supply::{Server, Supply};
pub use task::{Task, TaskSet};
