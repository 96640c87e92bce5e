//! Gives a root file system to the users of a user namespace: what belongs to user 5 then belongs to `first + 5`.
//!
//! It may be a stranger's, so no link is followed. Over layers that copy what a file says of itself apart from its
//! content (`metacopy=on`), nothing of the content is copied. What was set-user-ID is not so any more, as after any
//! change of owner.

use anyhow::{Context, ensure};
use std::fs;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};

/// Command-line options.
#[derive(clap::Args)]
pub struct Options {
    /// Whom user 0 is outside.
    #[arg(long)]
    first: u32,
    /// How many users there are.
    #[arg(long)]
    count: u32,
    /// The root of the file system.
    root: PathBuf,
}

/// Changes the owner of everything below.
///
/// # Errors
/// When something belongs to a user who has no number inside, or cannot be changed.
pub fn main(options: &Options) -> anyhow::Result<()> {
    shift(&options.root, options.first, options.count)
}

fn shift(path: &Path, first: u32, count: u32) -> anyhow::Result<()> {
    let what = || path.display().to_string();
    let found = fs::symlink_metadata(path).with_context(what)?;
    let (user, group) = (found.uid(), found.gid());
    ensure!(
        user < count && group < count,
        "{}: belongs to {user}:{group}, and the container has users below {count} only",
        path.display()
    );
    lchown(path, Some(first + user), Some(first + group)).with_context(what)?;
    if found.is_dir() {
        for entry in fs::read_dir(path).with_context(what)? {
            shift(&entry.with_context(what)?.path(), first, count)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_given_and_no_link_is_followed() {
        if !nix::unistd::getuid().is_root() {
            return; // only root gives files away
        }
        let place = std::env::temp_dir().join(format!("virtlab-shift-{}", std::process::id()));
        let (outside, tree) = (place.join("outside"), place.join("tree"));
        fs::create_dir_all(&outside).unwrap();
        fs::create_dir(&tree).unwrap();
        let victim = outside.join("victim");
        fs::write(&victim, "mine").unwrap();
        fs::create_dir(tree.join("etc")).unwrap();
        fs::write(tree.join("etc/passwd"), "").unwrap();
        lchown(tree.join("etc/passwd"), Some(5), Some(6)).unwrap();
        std::os::unix::fs::symlink(&victim, tree.join("etc/link")).unwrap();
        std::os::unix::fs::symlink(&outside, tree.join("folder")).unwrap();
        shift(&tree, 1000, 100).unwrap();
        let owner = |path: &Path| {
            let found = fs::symlink_metadata(path).unwrap();
            (found.uid(), found.gid())
        };
        assert_eq!(owner(&tree), (1000, 1000));
        assert_eq!(owner(&tree.join("etc/passwd")), (1005, 1006));
        assert_eq!(owner(&tree.join("etc/link")), (1000, 1000));
        assert_eq!((owner(&victim), owner(&outside)), ((0, 0), (0, 0)));
        let refused = shift(&tree, 1000, 100).unwrap_err().to_string();
        assert!(refused.contains("users below 100 only"), "{refused}");
        fs::remove_dir_all(place).unwrap();
    }
}
