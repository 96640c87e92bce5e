//! A queue discipline as it is requested, put into a netlink request by the table of `virtlab-qdisc`.

use crate::kernel::netlink::Request;
use anyhow::Context;
use serde::Deserialize;
use virtlab_qdisc::kernel::{Cell, Setting, Settings, encode};
use virtlab_qdisc::{Declaration, declared};

/// A queue discipline that this agent can encode, with options by name; which there are says `virtlab_qdisc`'s table.
#[derive(Clone, Debug, Deserialize)]
pub struct Discipline {
    kind: String,
    #[serde(flatten)]
    settings: Settings,
}

impl Discipline {
    /// What tells the kernel its name and options.
    ///
    /// # Errors
    /// When the discipline, or an option of it, is unknown, missing or impossible.
    pub fn put(&self, request: Request) -> anyhow::Result<Request> {
        self.put_as(request, |declared| declared.kernel)
    }

    /// The same of a class of it.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn put_class(&self, request: Request) -> anyhow::Result<Request> {
        self.put_as(request, |declared| declared.kernel_class)
    }

    fn put_as(
        &self,
        request: Request,
        cells: impl Fn(&Declaration) -> Option<&'static [Cell]>,
    ) -> anyhow::Result<Request> {
        let kind = self.kind.as_str();
        let cells = declared(kind).and_then(cells);
        let cells = cells.with_context(|| format!("kind: this agent cannot encode '{kind}'"))?;
        let options = encode(kind, cells, &self.settings)?;
        let request = request.text(libc::TCA_KIND, kind);
        Ok(if options.is_empty() { request } else { request.attribute(libc::TCA_OPTIONS, &options) })
    }

    /// The least of this kind that shows whether the kernel has it; `None` for what this agent cannot encode.
    #[must_use]
    pub fn trial(kind: &str) -> Option<Self> {
        let declared = declared(kind).filter(|declared| declared.kernel.is_some())?;
        let settings =
            declared.trial.iter().map(|(name, value)| ((*name).to_owned(), Setting::Whole(*value)));
        Some(Self { kind: kind.to_owned(), settings: settings.collect() })
    }
}
