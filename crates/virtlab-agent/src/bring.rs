//! A program with files of its own: what comes over the standard input is written to a folder, where the program
//! begins.
//!
//! The files follow one another there, each as long as the command line says. The program takes the place of this
//! process, and finds its input at an end. One that is to be held waits before all that for an octet, so that it can be
//! put into a control group before anything of it runs.

use anyhow::{Context, bail};
use clap::Args;
use nix::unistd::execvp;
use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What is written, and where.
#[derive(Args, Debug)]
pub struct Options {
    /// Waits for an octet first.
    #[arg(long)]
    held: bool,
    /// The folder (empty: none is entered); name, octets and mode (octal digits) of each file in it; `--`, the program
    /// and its arguments.
    #[arg(last = true)]
    words: Vec<String>,
}

/// Writes the files, and becomes the program.
///
/// # Errors
/// When one cannot be written, or the program cannot be executed.
pub fn main(options: &Options) -> anyhow::Result<()> {
    if options.held {
        io::stdin().read_exact(&mut [0])?;
    }
    let mut words = options.words.iter();
    let mut next = || words.next().map(String::as_str).context("a word is missing");
    let folder = Path::new(next()?);
    loop {
        let name = next()?;
        if name == "--" {
            break;
        }
        let octets = next()?.parse()?;
        write(&folder.join(name), octets, u32::from_str_radix(next()?, 8)?)
            .with_context(|| format!("cannot write {name}"))?;
    }
    if !folder.as_os_str().is_empty() {
        std::env::set_current_dir(folder).context("cannot enter the folder of the files")?;
    }
    let argv: Vec<CString> = words.map(|word| CString::new(word.as_str())).collect::<Result<_, _>>()?;
    let Some(program) = argv.first() else { bail!("an empty command") };
    execvp(program, &argv).with_context(|| format!("cannot execute {}", program.to_string_lossy()))?;
    Ok(())
}

fn write(path: &Path, octets: usize, mode: u32) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    let _ = fs::remove_file(path); // of the time before: it may still be executed
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    let mut content = vec![0; octets];
    io::stdin().read_exact(&mut content)?;
    file.write_all(&content)
}
