//! What guests that share processors use of them together: those of a pool, and those of a host that has its own.

use anyhow::Context;
use serde_json::Value;

/// Guests that share a number of processors: those of a pool, or those of their host.
#[derive(Debug)]
struct Sharing {
    entity: String,
    namespaces: Vec<String>,
    processors: f64,
    /// Those of the host of a pool, where it has its own; a host itself has no other.
    host: Option<f64>,
    is_host: bool,
}

/// Who shares processors with whom.
#[derive(Debug, Default)]
pub struct Sharings(Vec<Sharing>);

/// How many processors a guest with processes used since the look before; none if it was seen for the first time.
pub type Used = (String, Option<f64>);

impl Sharings {
    /// From rows `[entity, [namespace, ...], processors, processors of its host or null]`; of a host the last is
    /// absent.
    ///
    /// # Errors
    /// When a row has another shape.
    pub fn read(rows: &[Value]) -> anyhow::Result<Self> {
        let mut found = Vec::new();
        for row in rows {
            found.push(sharing(row).context("a row of `shared` has another shape")?);
        }
        Ok(Self(found))
    }

    /// The processors of the host of a guest, or of a machine of a guest that moves (`NAMESPACE@HOST`): its own, or
    /// those of the machine under all. Of a guest that moves it is any host that has a machine of it.
    pub fn of_host(&self, entity: &str, machine: f64) -> f64 {
        let is_it = |name: &str| name == entity || name.split_once('@').is_some_and(|(of, _)| of == entity);
        let own = self.0.iter().find(|each| each.is_host && each.namespaces.iter().any(|name| is_it(name)));
        own.map_or(machine, |host| host.processors)
    }

    /// Rows (entity, metric, value) of pools and hosts.
    pub fn rows(&self, used: &[Used], machine: f64) -> Vec<(String, &'static str, f64)> {
        let mut rows = Vec::new();
        for each in &self.0 {
            let Some(together) = together(each, used) else { continue };
            let share = together / each.processors;
            if each.is_host {
                rows.push((each.entity.clone(), "cpu", share));
            } else {
                rows.push((each.entity.clone(), "cpu", together));
                rows.push((each.entity.clone(), "cpu_share", share));
                rows.push((each.entity.clone(), "host_cpu_share", together / each.host.unwrap_or(machine)));
            }
        }
        rows
    }
}

fn sharing(row: &Value) -> Option<Sharing> {
    let cells = row.as_array()?;
    let names = cells.get(1)?.as_array()?;
    let namespaces = names.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<_>>()?;
    Some(Sharing {
        entity: cells.first()?.as_str()?.to_owned(),
        namespaces,
        processors: cells.get(2)?.as_f64().filter(|count| *count > 0.0)?,
        host: cells.get(3).and_then(Value::as_f64),
        is_host: cells.len() < 4,
    })
}

/// What these guests used; nothing as long as one of them was seen but once, or none has a process.
fn together(sharing: &Sharing, used: &[Used]) -> Option<f64> {
    let mut sum = None;
    for (_, each) in used.iter().filter(|(name, _)| sharing.namespaces.contains(name)) {
        sum = Some(sum.unwrap_or(0.0) + (*each)?);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn two_pools(host: Option<f64>) -> Sharings {
        let mut rows = vec![json!(["pools.h.a", ["a", "b"], 2, host]), json!(["pools.h.c", ["c"], 1, host])];
        rows.extend(host.map(|host| json!(["hosts.h", ["a", "b", "c"], host])));
        Sharings::read(&rows).unwrap()
    }

    fn used(each: &[(&str, Option<f64>)]) -> Vec<Used> {
        each.iter().map(|(name, used)| ((*name).to_owned(), *used)).collect()
    }

    #[test]
    fn a_pool_uses_what_its_guests_use_and_its_shares_are_of_the_pool_and_of_the_host() {
        let rows =
            two_pools(Some(4.0)).rows(&used(&[("a", Some(0.5)), ("b", Some(1.0)), ("c", Some(0.5))]), 16.0);
        let of = |entity: &str, metric: &str| {
            rows.iter().find(|row| row.0 == entity && row.1 == metric).map(|row| row.2)
        };
        assert_eq!(of("pools.h.a", "cpu"), Some(1.5));
        assert_eq!(of("pools.h.a", "cpu_share"), Some(0.75));
        assert_eq!(of("pools.h.a", "host_cpu_share"), Some(0.375));
        assert_eq!(of("hosts.h", "cpu"), Some(0.5));
    }

    #[test]
    fn a_pool_of_a_host_without_processors_of_its_own_is_compared_with_those_of_the_machine() {
        let rows = two_pools(None).rows(&used(&[("c", Some(0.5))]), 16.0);
        assert!(rows.contains(&("pools.h.c".to_owned(), "host_cpu_share", 0.5 / 16.0)));
    }

    #[test]
    fn a_pool_with_a_guest_that_was_seen_once_says_nothing_yet() {
        let rows = two_pools(None).rows(&used(&[("a", Some(0.5)), ("b", None)]), 16.0);
        assert!(rows.is_empty());
    }

    #[test]
    fn a_host_uses_what_its_machine_of_a_guest_that_moves_uses_and_not_the_other() {
        let rows = [json!(["hosts.h", ["a", "v@h"], 2]), json!(["hosts.k", ["v@k"], 4])];
        let hosts = Sharings::read(&rows).unwrap();
        let both = used(&[("a", Some(0.5)), ("v", Some(1.6)), ("v@h", Some(1.0)), ("v@k", Some(0.6))]);
        assert_eq!(
            hosts.rows(&both, 16.0),
            [("hosts.h".to_owned(), "cpu", 0.75), ("hosts.k".to_owned(), "cpu", 0.15)]
        );
        assert_eq!(
            ["a", "v@h", "v@k", "v", "w"].map(|of| hosts.of_host(of, 16.0)),
            [2.0, 2.0, 4.0, 2.0, 16.0]
        );
    }

    #[test]
    fn guests_share_a_number_of_processors() {
        assert!(Sharings::read(&[json!(["pools.h.a", ["a"], 0, null])]).is_err());
        assert!(Sharings::read(&[json!({"entity": "pools.h.a"})]).is_err());
    }
}
