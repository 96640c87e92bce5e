//! The switch role.

/// Command-line options.
#[derive(clap::Args)]
pub struct Options {
    /// Open descriptor of the byte stream to the control plane.
    #[arg(long, default_value_t = 3)]
    control_fd: i32,
}

/// Serves the control stream until it ends.
pub fn main(_options: Options) -> anyhow::Result<()> {
    Ok(())
}
