//! What is known of a folder's objects, in pages: so a client in another process continues with them. They are known in
//! one place at a time, since a write changes what a read must give.

use crate::folder::{ABSENT, DOUBTED, Entry, Folder, WRITTEN};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Objects of a page.
pub const PAGE_MOST: u32 = 4096;

/// An object: what its last write was, its length, when it changed last, its place among those that are there, and
/// whether a write or deletion of it has no end.
type Known = (u64, u64, u64, u32, bool);

/// A part of what is known.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// The first object of it, and how many the folder has.
    pub from: u32,
    /// In all pages.
    pub total: u32,
    contents: u64,
    changes: u64,
    in_doubt: u64,
    first: u32,
    objects: Vec<Known>,
}

impl Page {
    /// The first object behind it.
    #[must_use]
    pub fn end(&self) -> u32 {
        self.from.saturating_add(self.objects.len() as u32)
    }
}

/// Why no folder can have told a page.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NoPage {
    /// It is not the next one.
    #[error("it does not follow the page before it")]
    Order,
    /// It has more objects than there are.
    #[error("it has more objects than the folder")]
    Objects,
    /// Two objects have one place, or one has none that there is.
    #[error("places of its objects are not those of a list")]
    Places,
}

impl Folder {
    /// Whether its objects are known elsewhere.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.away
    }

    /// What is known of objects from that one on, while nothing is done with any; after the last page all is known
    /// elsewhere.
    pub fn tell(&mut self, from: u32) -> Page {
        let told = self.objects.iter().skip(from as usize).take(PAGE_MOST as usize);
        let objects = told.map(|own| (own.content, own.bytes, own.changed, own.place, own.users == WRITTEN));
        let page = Page {
            from,
            total: self.objects.len() as u32,
            contents: self.contents,
            changes: self.changes,
            in_doubt: self.in_doubt,
            first: self.first,
            objects: objects.collect(),
        };
        self.away |= page.end() >= page.total;
        page
    }

    /// Takes the next page, in place of what was known here; whether it was the last.
    ///
    /// # Errors
    /// When no folder can have told it.
    pub fn take(&mut self, page: &Page) -> Result<bool, NoPage> {
        if page.from == 0 {
            self.objects.clear();
            self.there.clear();
            self.away = true;
        }
        if page.from as usize != self.objects.len() || !self.away {
            return Err(NoPage::Order);
        }
        if page.end() > page.total || page.first > page.total {
            return Err(NoPage::Objects);
        }
        let entries = page.objects.iter().map(|&(content, bytes, changed, place, is_open)| Entry {
            content,
            bytes,
            changed,
            place,
            users: if is_open { WRITTEN } else { 0 },
        });
        self.objects.extend(entries);
        if page.end() < page.total {
            return if page.objects.is_empty() { Err(NoPage::Order) } else { Ok(false) };
        }
        self.there = self.places().ok_or(NoPage::Places)?;
        (self.contents, self.changes, self.in_doubt) = (page.contents, page.changes, page.in_doubt);
        (self.first, self.away) = (page.first, false);
        Ok(true)
    }

    /// Objects that are there, by their places; `None` where these are not those of a list.
    fn places(&self) -> Option<Vec<u32>> {
        let many = self.objects.iter().filter(|own| own.place < DOUBTED).count();
        let mut there = vec![ABSENT; many];
        for (object, own) in self.objects.iter().enumerate().filter(|(_, own)| own.place < DOUBTED) {
            let place = there.get_mut(own.place as usize).filter(|place| **place == ABSENT)?;
            *place = object as u32;
        }
        Some(there)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::{Deed, Found};
    use proptest::prelude::*;

    /// A folder with which things were done, drawn by numbers.
    fn used(folder: &mut Folder, draws: &[(u8, u64)]) {
        for &(draw, chosen) in draws {
            let deed =
                [Deed::Create, Deed::Create, Deed::Overwrite, Deed::Delete, Deed::Read][draw as usize % 5];
            let Some(pick) = folder.pick(deed, chosen, chosen % 1000) else { continue };
            match draw / 5 % 8 {
                0 => folder.close(&pick, Found::TimedOut),
                1 if !pick.deed.keeps() => {} // it has no end
                _ => folder.close(&pick, Found::Done),
            }
        }
    }

    fn moved(from: &mut Folder, to: &mut Folder) {
        let mut next = 0;
        loop {
            let page = from.tell(next);
            next = page.end();
            if to.take(&page).unwrap() {
                return;
            }
        }
    }

    proptest! {
        #[test]
        fn what_continues_elsewhere_is_what_would_have_continued_here(
            before in prop::collection::vec((any::<u8>(), any::<u64>()), 0..60),
            after in prop::collection::vec((any::<u8>(), any::<u64>()), 0..60),
        ) {
            let (mut one, mut here) = (Folder::new("a", 3), Folder::new("a", 3));
            used(&mut one, &before);
            used(&mut here, &before);
            let mut elsewhere = Folder::new("a", 3);
            used(&mut elsewhere, &[(0, 7), (1, 8)]); // what it knew is gone
            moved(&mut one, &mut elsewhere);
            prop_assert!(one.is_away() && !elsewhere.is_away());
            used(&mut here, &after);
            used(&mut elsewhere, &after);
            prop_assert_eq!(format!("{here:?}"), format!("{elsewhere:?}"));
        }
    }

    #[test]
    fn a_folder_of_several_pages_moves_there_and_back() {
        let mut one = Folder::new("a", 1);
        for _ in 0..2 * PAGE_MOST + 5 {
            let pick = one.pick(Deed::Create, 0, 9).unwrap();
            one.close(&pick, Found::Done);
        }
        let told = format!("{one:?}");
        let mut other = Folder::new("a", 1);
        moved(&mut one, &mut other);
        assert_eq!(format!("{other:?}"), told);
        moved(&mut other, &mut one);
        assert_eq!((format!("{one:?}"), other.is_away()), (told, true));
    }

    #[test]
    fn pages_that_no_folder_has_told_are_refused() {
        let mut one = Folder::new("a", 1);
        for _ in 0..3 {
            let pick = one.pick(Deed::Create, 0, 9).unwrap();
            one.close(&pick, Found::Done);
        }
        let good = one.tell(0);
        let refused = |change: fn(&mut Page)| {
            let (mut page, mut to) = (good.clone(), Folder::new("a", 1));
            change(&mut page);
            let found = to.take(&page);
            assert!(found.is_ok() || to.count() == 0, "nothing of it is used");
            found
        };
        assert_eq!(refused(|_| ()), Ok(true));
        assert_eq!(refused(|page| page.from = 1), Err(NoPage::Order));
        assert_eq!(refused(|page| page.total = 2), Err(NoPage::Objects));
        assert_eq!(refused(|page| page.objects[1].3 = 0), Err(NoPage::Places));
        assert_eq!(refused(|page| page.objects[1].3 = 3), Err(NoPage::Places));
        assert_eq!(
            refused(|page| {
                page.objects.clear();
            }),
            Err(NoPage::Order)
        );
    }
}
