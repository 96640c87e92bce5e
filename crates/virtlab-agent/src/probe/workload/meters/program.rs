//! Other people's meters: a program of the guest run as part of a role.
//!
//! It is looked for at fixed places, not along PATH, so that which program ran is never a surprise, and it is killed by
//! the kernel when the thread that started it ends, however that happens.

use crate::probe::pacing::sleep;
use crate::probe::run::Run;
use anyhow::{Context, bail};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use virtlab_system::clock;
use virtlab_wire::Nanos;

const PLACES: [&str; 6] = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"];
/// Between being asked to end and being killed.
const GRACE: Nanos = Nanos(50_000_000);
/// Between looks whether it must end.
const LOOK_EVERY: Nanos = Nanos(100_000_000);

/// Where the program stands.
///
/// # Errors
/// When the guest has none; the message says what to install.
pub fn find(name: &str, package: &str) -> anyhow::Result<PathBuf> {
    let found = PLACES.iter().map(|place| Path::new(place).join(name)).find(|path| path.is_file());
    let Some(path) = found else {
        bail!("the guest has no {name} in {}; install {package}, or use meter virtlab", PLACES.join(", "));
    };
    Ok(path)
}

/// What a program wrote and how it ended.
#[derive(Debug)]
pub struct Output {
    /// Its output.
    pub text: String,
    /// Its errors, when it failed.
    pub failure: Option<String>,
    /// When it was started.
    pub started: Nanos,
}

/// Runs a program until it ends or the role is stopped; a stopped program is interrupted, and says what it has.
///
/// # Errors
/// When it cannot be started.
pub fn run(program: &Path, arguments: &[String], role: &Run) -> anyhow::Result<Output> {
    run_unless(program, arguments, role, || false)
}

/// The same; it is killed once `must_end` says so, which is asked some times a second.
///
/// # Errors
/// When it cannot be started.
pub fn run_unless(
    program: &Path,
    arguments: &[String],
    role: &Run,
    mut must_end: impl FnMut() -> bool,
) -> anyhow::Result<Output> {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("LC_ALL", "C").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: prctl is async-signal-safe and touches no memory of the parent.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
            Ok(())
        });
    }
    let started = clock::raw();
    let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let (text, complaint, status) = std::thread::scope(|scope| {
        let output = scope.spawn(move || text_of(output));
        let errors = scope.spawn(move || text_of(errors));
        let status = end_of(&mut child, role, &mut must_end);
        (output.join().unwrap_or_default(), errors.join().unwrap_or_default(), status)
    });
    let failed = !role.stopped() && !status.is_some_and(|status| status.success());
    let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let failure = failed.then(|| {
        let complaint = complaint.trim();
        let status = status.map_or_else(|| "no status".to_owned(), |status| status.to_string());
        if complaint.is_empty() {
            format!("{name} ended with {status}")
        } else {
            format!("{name}: {complaint}")
        }
    });
    Ok(Output { text, failure, started })
}

fn text_of(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // What was read before an error is still what the program wrote.
        let _ = pipe.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn end_of(
    child: &mut Child,
    role: &Run,
    must_end: &mut dyn FnMut() -> bool,
) -> Option<std::process::ExitStatus> {
    let mut interrupted = None;
    let mut next = clock::raw() + LOOK_EVERY;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if role.stopped() {
            let asked = *interrupted.get_or_insert_with(|| {
                // SAFETY: the child has not been waited for, so the number is still its own.
                unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
                clock::raw()
            });
            if clock::raw().since(asked) > GRACE {
                let _ = child.kill();
                return child.wait().ok();
            }
        }
        if clock::raw() >= next {
            next = clock::raw() + LOOK_EVERY;
            if must_end() {
                let _ = child.kill();
            }
        }
        sleep(Nanos(2_000_000));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_refused_with_the_cure() {
        let error = find("no-such-meter", "the package").unwrap_err().to_string();
        assert!(error.contains("install the package"), "{error}");
    }
}
