//! `files`: operations on files of a directory, by threads in turns or at a rate.

use super::objects::{Asks, Order};
use super::{OutOfRange, Role, positive};
use crate::schedule::Arrivals;
use serde::Deserialize;
use std::collections::BTreeMap;

/// As a Plan calls it.
pub const NAME: &str = "files";
/// Of one role.
pub const THREADS_MOST: u32 = 1024;
/// What a file that goes past the page cache is a whole number of.
pub const BLOCK_BYTES: u64 = 4096;

/// What a role says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// Where it makes its folder.
    pub directory: String,
    /// For which operations begin; absent: until it is stopped.
    pub duration_ns: Option<u64>,
    /// Operations after which it ends.
    pub count: Option<u64>,
    /// Shares, which need not have any sum.
    pub operations: BTreeMap<String, f64>,
    /// Of a file that is created or overwritten.
    #[serde(default)]
    pub object_bytes: u64,
    /// In place of one size: several, with shares of any sum.
    #[serde(default)]
    pub object_sizes: Vec<(u64, f64)>,
    /// On each there is one operation at a time.
    pub threads: u32,
    /// Operations that are due; absent: each thread asks in turns.
    pub rate_per_s: Option<u64>,
    /// Of a rate.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Name of the files; absent: the role's.
    pub folder: Option<String>,
    /// In which its operations take them.
    #[serde(default)]
    pub order: Order,
    /// Share of operations that may be not done; absent: any.
    pub error_budget_ratio: Option<f64>,
    /// When what is written is done.
    #[serde(default)]
    pub sync: Sync,
    /// Whether reads and writes go past the page cache.
    #[serde(default)]
    pub direct: bool,
    /// Whether what is read may be in the page cache.
    #[serde(default)]
    pub cache: Cache,
}

/// How the page cache is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// What the kernel makes of it.
    #[default]
    Keep,
    /// A file leaves it before each of its reads.
    Drop,
}

/// When what is written is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sync {
    /// As soon as the file is closed.
    #[default]
    None,
    /// After `fsync`.
    Fsync,
}

impl Role for Files {
    const NAME: &str = NAME;
}

impl Files {
    /// # Errors
    /// The first parameter that no guest could play.
    pub fn check(&self) -> Result<(), OutOfRange> {
        positive("threads", u64::from(self.threads))?;
        if self.threads > THREADS_MOST {
            return Err(OutOfRange::new("threads", "are at most 1024"));
        }
        if let Some(rate_per_s) = self.rate_per_s {
            self.order.at_a_rate()?;
            positive("rate_per_s", rate_per_s)?;
        }
        let plain = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
        if !self.directory.strip_prefix('/').is_some_and(|path| path.split('/').all(plain)) {
            return Err(OutOfRange::new("directory", "begins with '/', and has no '.', '..' or '//' in it"));
        }
        if self.direct && self.all_bytes().any(|bytes| bytes % BLOCK_BYTES != 0) {
            return Err(OutOfRange::new("object_bytes", "is whole blocks of 4 KiB where files are direct"));
        }
        if self.direct && self.cache == Cache::Drop {
            return Err(OutOfRange::new("cache", "is left alone where files are direct"));
        }
        Ok(())
    }

    fn all_bytes(&self) -> impl Iterator<Item = u64> + '_ {
        self.object_sizes.iter().map(|(bytes, _)| *bytes).chain([self.object_bytes])
    }

    /// Of the files that it writes.
    #[must_use]
    pub fn largest_bytes(&self) -> u64 {
        self.all_bytes().max().unwrap_or(0)
    }

    /// What it says as other roles of operations do.
    #[must_use]
    pub fn asks(&self) -> Asks<'_> {
        Asks {
            sizes: &self.object_sizes,
            object_bytes: self.object_bytes,
            duration_ns: self.duration_ns,
            count: self.count,
            threads: self.threads,
            rate_per_s: self.rate_per_s,
            arrivals: self.arrivals,
            order: self.order,
            error_budget_ratio: self.error_budget_ratio,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::of;
    use super::*;

    #[test]
    fn a_directory_is_a_plain_path_and_direct_files_are_whole_blocks() {
        let said = |own: &str| {
            let all = format!(r#"{{"operations": {{"read": 1}}, "threads": 1, {own}}}"#);
            of::<Files>(&all).unwrap().check().map_err(|error| error.name)
        };
        assert_eq!(said(r#""directory": "/var/tmp", "object_bytes": 10"#), Ok(()));
        for path in ["", "/", "a", "/a/", "/a//b", "/a/../b", "/./a", "/a\0b"] {
            let own = format!(r#""directory": {}"#, serde_json::to_string(path).unwrap());
            assert_eq!(said(&own), Err("directory"), "{path:?}");
        }
        let direct = r#""directory": "/a", "direct": true, "object_bytes": "#;
        assert_eq!(said(&format!("{direct}8192")), Ok(()));
        assert_eq!(said(&format!("{direct}8193")), Err("object_bytes"));
        assert_eq!(said(&format!(r#"{direct}8192, "cache": "drop""#)), Err("cache"));
        assert_eq!(said(r#""directory": "/a", "cache": "drop""#), Ok(()));
        assert_eq!(said(r#""directory": "/a", "rate_per_s": 0"#), Err("rate_per_s"));
        assert_eq!(said(r#""directory": "/a", "rate_per_s": 5, "order": "sequential""#), Ok(()));
        assert_eq!(said(r#""directory": "/a", "rate_per_s": 5, "order": "once""#), Err("order"));
    }
}
