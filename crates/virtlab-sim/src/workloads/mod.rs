//! Workloads as the simulator plays them: each in its own file, all through [`workload::Workload`].

pub mod burst_load;
pub mod psping;
pub mod rt_tasks;
pub mod rtt;
pub mod scatter;
pub mod stream;
pub mod tcp_rr;
pub mod tcp_stream;
pub mod workload;
