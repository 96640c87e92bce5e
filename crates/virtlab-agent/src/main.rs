//! The binary `virtlab-agent`; what it does is in the library beside it.

fn main() -> std::process::ExitCode {
    virtlab_agent::main()
}
