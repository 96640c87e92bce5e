use super::directory::{Directory, Files, Way, class, named};
use super::*;
use crate::probe::workload::by_threads::{Driver, Failure};
use nix::errno::Errno;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use virtlab_load::parameters::files::{Cache, Sync};
use virtlab_store::{Audit, Deed, Ending};

/// A folder of this test alone, which is removed with it.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().canonicalize().unwrap();
        let path = path.join(format!("virtlab-test-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn text(&self) -> String {
        self.0.to_str().unwrap().to_owned()
    }

    /// The only folder in it.
    fn inside(&self) -> PathBuf {
        let all: Vec<_> = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Does the deed with the first object that is free, and remembers how it ended.
fn done(folder: &mut Folder, files: &mut Files<'_>, deed: Deed, bytes: u64) -> Ending {
    let pick = folder.pick(deed, 0, bytes).unwrap();
    let performed = files.perform(&pick).unwrap();
    assert!(performed.sent <= performed.finished);
    folder.close(&pick, performed.ending);
    performed.ending
}

#[test]
fn files_of_another_guest_are_read_where_they_are_and_removed_there() {
    let place = Place::new("elsewhere");
    let (first, second) = (Directory::make(&place.text()).unwrap(), Directory::make(&place.text()).unwrap());
    let (mut known, mut elsewhere) = (Folder::new("a", 0), Folder::new("a", 0));
    assert_eq!(done(&mut known, &mut Files::new(&first, Way::default()), Deed::Create, 10_000), Ending::Done);
    let mut files = Files::new(&second, Way::default()); // opened before it moves
    assert!(elsewhere.take(&known.tell(0)).unwrap());
    second.move_to(first.name()).unwrap();
    assert_eq!(place.inside().file_name().unwrap().to_str(), Some(first.name()), "its own folder is gone");
    for deed in [Deed::Read, Deed::Overwrite, Deed::Read] {
        assert_eq!(done(&mut elsewhere, &mut files, deed, 20_000), Ending::Done, "{deed:?}");
    }
    assert!(known.is_away() && second.move_to(first.name()).is_ok(), "it is there already");
    let refused = format!("{:#}", second.move_to("../a").unwrap_err());
    assert!(refused.contains("no role makes a folder with the name '../a'"), "{refused}");
    drop(files);
    assert_eq!(second.remove().unwrap(), 0);
    assert_eq!(fs::read_dir(&place.0).unwrap().count(), 0);
}

#[test]
fn files_are_created_read_overwritten_looked_at_and_deleted() {
    let place = Place::new("deeds");
    let directory = Directory::make(&place.text()).unwrap();
    for bytes in [0, 1, 24, 4096, 10_000, 300_000] {
        let mut folder = Folder::new("a", bytes);
        let mut files = Files::new(&directory, Way { flushed: Sync::Fsync, ..Way::default() });
        for deed in [
            Deed::Create,
            Deed::Read,
            Deed::Stat,
            Deed::Open,
            Deed::List,
            Deed::Overwrite,
            Deed::Read,
            Deed::Delete,
        ] {
            let bytes = bytes + u64::from(deed == Deed::Overwrite);
            assert_eq!(done(&mut folder, &mut files, deed, bytes), Ending::Done, "{deed:?} of {bytes}");
        }
        assert_eq!(fs::read_dir(place.inside()).unwrap().count(), 0);
    }
    assert_eq!(directory.remove().unwrap(), 0);
    assert_eq!(fs::read_dir(&place.0).unwrap().count(), 0);
}

#[test]
fn damaged_short_long_stale_and_swapped_files_are_wrong_and_others_are_missing() {
    let place = Place::new("wrong");
    let directory = Directory::make(&place.text()).unwrap();
    let mut files = Files::new(&directory, Way::default());
    let mut folder = Folder::new("a", 0);
    assert_eq!(done(&mut folder, &mut files, Deed::Create, 10_000), Ending::Done);
    let file = fs::read_dir(place.inside()).unwrap().next().unwrap().unwrap().path();
    let stale = fs::read(&file).unwrap();
    assert_eq!(done(&mut folder, &mut files, Deed::Overwrite, 10_000), Ending::Done);
    let good = fs::read(&file).unwrap();

    let mut read = |octets: &[u8], wanted: Ending, what: &str| {
        fs::write(&file, octets).unwrap();
        assert_eq!(done(&mut folder, &mut files, Deed::Read, 0), wanted, "{what}");
    };
    read(&good, Ending::Done, "as it was written");
    for at in [0, 5000, 9999] {
        let mut flipped = good.clone();
        flipped[at] ^= 1;
        read(&flipped, Ending::Wrong, "a flipped bit");
    }
    read(&good[..9999], Ending::Wrong, "truncated");
    read(&[], Ending::Wrong, "empty");
    read(&[&good[..], b"x"].concat(), Ending::Wrong, "longer");
    read(&stale, Ending::Wrong, "stale");

    fs::write(&file, &good[..9999]).unwrap();
    assert_eq!(done(&mut folder, &mut files, Deed::Stat, 0), Ending::Wrong, "another length");
    let elsewhere = place.inside().join("elsewhere");
    fs::write(&elsewhere, &good).unwrap();
    fs::remove_file(&file).unwrap();
    for deed in [Deed::Read, Deed::Open, Deed::List, Deed::Stat] {
        assert_eq!(done(&mut folder, &mut files, deed, 0), Ending::Missing, "{deed:?}");
    }
    assert_eq!(done(&mut folder, &mut files, Deed::Overwrite, 9), Ending::Missing, "it is not made again");
    assert_eq!(folder.in_doubt(), 1);

    let mut folder = Folder::new("b", 1);
    for _ in 0..2 {
        assert_eq!(done(&mut folder, &mut files, Deed::Create, 10_000), Ending::Done);
    }
    let [one, two] = [0, 1].map(|number| place.inside().join(format!("{:016x}", (1u64 << 48) + number)));
    fs::rename(&one, &elsewhere).unwrap();
    fs::rename(&two, &one).unwrap();
    fs::rename(&elsewhere, &two).unwrap();
    assert_eq!(done(&mut folder, &mut files, Deed::Read, 0), Ending::Wrong, "swapped");
    fs::remove_file(&one).unwrap();
    symlink(&two, &one).unwrap();
    assert_eq!(done(&mut folder, &mut files, Deed::Read, 0), Ending::Wrong, "a link");
    assert_eq!(done(&mut folder, &mut files, Deed::Stat, 0), Ending::Wrong, "a link");
}

#[test]
fn whole_blocks_go_past_the_page_cache_where_the_file_system_has_that() {
    let place = Place::new("direct");
    let directory = Directory::make(&place.text()).unwrap();
    let way = Way { direct: true, ..Way::default() };
    if directory.check(way).is_err() {
        return;
    }
    let (mut files, mut folder) = (Files::new(&directory, way), Folder::new("a", 0));
    for bytes in [4096, 12_288] {
        for deed in [Deed::Create, Deed::Read, Deed::Overwrite, Deed::Read, Deed::Delete] {
            assert_eq!(done(&mut folder, &mut files, deed, bytes), Ending::Done, "{deed:?} of {bytes}");
        }
    }
}

#[test]
fn a_file_leaves_the_page_cache_before_it_is_read_and_one_in_memory_cannot() {
    let memory = Directory::make("/dev/shm").unwrap();
    let way = Way { cache: Cache::Drop, ..Way::default() };
    let refused = memory.check(way).unwrap_err().to_string();
    assert!(refused.ends_with("cannot leave it; remove 'cache: drop'"), "{refused}");
    memory.remove().unwrap();
    let place = Place::new("cache");
    let directory = Directory::make(&place.text()).unwrap();
    if directory.check(way).is_err() {
        return;
    }
    let (mut files, mut folder) = (Files::new(&directory, way), Folder::new("a", 0));
    assert_eq!(done(&mut folder, &mut files, Deed::Create, 100_000), Ending::Done);
    let path = fs::read_dir(place.inside()).unwrap().next().unwrap().unwrap().path();
    let cached = || {
        let said = Command::new("fincore").args(["-nbo", "RES"]).arg(&path).output().unwrap();
        String::from_utf8(said.stdout).unwrap().trim().parse::<u64>().unwrap()
    };
    assert!(cached() >= 100_000, "what was just written is there");
    let pick = folder.pick(Deed::Read, 0, 0).unwrap();
    files.drop_cached(named(pick.key, &mut [0; 17])).unwrap();
    assert_eq!(cached(), 0);
    let performed = files.perform(&pick).unwrap();
    folder.close(&pick, performed.ending);
    assert_eq!(performed.ending, Ending::Done);
    assert!(cached() > 0, "reading brought it back");
}

#[test]
fn a_path_is_followed_through_no_link_and_what_is_wrong_with_it_is_said() {
    let place = Place::new("links");
    let said =
        |path: &str| format!("{:#}", Directory::make(&format!("{}/{path}", place.text())).unwrap_err());
    fs::create_dir(place.0.join("real")).unwrap();
    symlink(place.0.join("real"), place.0.join("link")).unwrap();
    fs::write(place.0.join("file"), "").unwrap();
    assert!(said("none").contains("there is no ") && said("none").contains("mount it before"));
    for path in ["link", "link/below", "file"] {
        assert!(said(path).contains("is a link, or no folder; write the path"), "{}", said(path));
    }
    assert_eq!(fs::read_dir(place.0.join("real")).unwrap().count(), 0);
}

#[test]
fn a_place_that_is_full_or_read_only_ends_the_role_with_a_cure() {
    let full = Directory::make("/proc").unwrap_err().to_string();
    assert!(full.starts_with("/proc: ") && full.contains("; write a directory"), "{full}");
}

#[test]
fn what_is_there_in_the_end_is_read_and_then_all_is_removed() {
    let place = Place::new("audit");
    let own = format!(r#"{{"directory": "{}", "operations": {{"create": 1}}, "threads": 1}}"#, place.text());
    let own: Parameters = parse(&serde_json::from_str(&own).unwrap()).unwrap();
    let held = shared(&own, "same").unwrap();
    assert!(Arc::ptr_eq(&held, &shared(&own, "same").unwrap()), "roles of one folder have the same files");
    let mut files = Files::new(&held.directory, Way::default());
    for _ in 0..4 {
        done(&mut lock(&held.folder), &mut files, Deed::Create, 100);
    }
    let file = |number: u64| place.inside().join(format!("{number:016x}"));
    fs::write(file(1), "damaged").unwrap();
    fs::remove_file(file(2)).unwrap();
    let wanted = Audit { objects: 4, lost: 1, stale: 1, ..Audit::default() }.of_objects();
    let wanted: Audited = wanted.into_iter().chain([("left_files", 0)]).collect();
    let found = held.audit(4).unwrap();
    let of_memory = |name: &str| matches!(name, "files_bytes" | "memory_bytes");
    assert!(wanted.iter().all(|one| found.contains(one)), "{found:?}");
    assert!(found.iter().all(|one| wanted.contains(one) || of_memory(one.0)), "{found:?}");
    assert!(found.iter().all(|&(name, bytes)| name != "files_bytes" || bytes == 400), "{found:?}");
    assert_eq!(held.audit(4).unwrap(), found, "asked again, by the other role");
    assert_eq!(fs::read_dir(&place.0).unwrap().count(), 0);
    assert!(!Arc::ptr_eq(&held, &shared(&own, "same").unwrap()), "the next trial has others");
}

#[test]
fn a_folder_that_is_not_found_for_a_moment_is_looked_for_until_then_and_another_is_not_taken_for_it() {
    let place = Place::new("again");
    let directory = Directory::make(&place.text()).unwrap();
    let (made, away) = (place.inside(), place.0.with_extension("away"));
    fs::rename(&made, &away).unwrap();
    let soon = || clock::raw() + Nanos(300_000_000);
    let none = format!("{:#}", directory.opened_again(soon()).unwrap_err());
    assert!(
        none.starts_with("cannot open the folder that was made in ") && none.contains("ENOENT"),
        "{none}"
    );
    symlink(&away, &made).unwrap();
    assert!(directory.opened_again(soon()).is_err(), "a link is not followed");
    fs::remove_file(&made).unwrap();
    let back = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        fs::rename(&away, &made).unwrap();
    });
    directory.opened_again(clock::raw() + Nanos(60_000_000_000)).unwrap().remove().unwrap();
    back.join().unwrap();
    assert_eq!(fs::read_dir(&place.0).unwrap().count(), 0);
}

#[test]
fn what_a_role_made_that_was_never_collected_goes_with_it() {
    let place = Place::new("dropped");
    let own = format!(r#"{{"directory": "{}", "operations": {{"read": 1}}, "threads": 1}}"#, place.text());
    let own: Parameters = parse(&serde_json::from_str(&own).unwrap()).unwrap();
    let held = shared(&own, "same").unwrap();
    done(&mut lock(&held.folder), &mut Files::new(&held.directory, Way::default()), Deed::Create, 100);
    drop(held);
    assert_eq!(fs::read_dir(&place.0).unwrap().count(), 0);
}

#[test]
fn errors_are_of_a_medium_or_of_what_is_not_reached_or_of_no_class() {
    assert_eq!(class(Errno::EIO), Some(Failure::Server));
    for errno in [Errno::ENOTCONN, Errno::ESTALE, Errno::ETIMEDOUT, Errno::EHOSTUNREACH] {
        assert_eq!(class(errno), Some(Failure::Broken), "{errno}");
    }
    assert_eq!(class(Errno::EBUSY), None);
}
