//! The two ends of a role, as the control plane names them.

use anyhow::{Context, bail};
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use virtlab_load::size::IpVersion;

/// One end.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// IPv4 or IPv6 address, with or without prefix length. Absent where a workload knows no IP.
    #[serde(default)]
    address: Option<String>,
    /// Interface name inside its guest.
    #[serde(default)]
    pub vnic: Option<String>,
    /// Its hardware address.
    #[serde(default)]
    mac: Option<String>,
    /// Its MTU.
    #[serde(default = "default_mtu")]
    pub mtu_bytes: u32,
    /// UDP or TCP port, where one is known.
    #[serde(default)]
    pub port: Option<u16>,
    /// Hardware address of the router towards it, where one is in between.
    #[serde(default)]
    pub next_hop_mac: Option<String>,
}

const fn default_mtu() -> u32 {
    1500
}

impl Endpoint {
    /// Its IP address.
    ///
    /// # Errors
    /// If the MAC address is missing or malformed.
    pub fn ip(&self, whose: &str) -> anyhow::Result<IpAddr> {
        let text = self.address.as_deref().with_context(|| format!("{whose}.address is missing"))?;
        let bare = text.split('/').next().unwrap_or(text);
        bare.parse().with_context(|| format!("{whose}.address '{text}' is not a IP address"))
    }

    /// Its address and port, 0 when none is known.
    ///
    /// # Errors
    /// As [`Self::ip`].
    pub fn socket_address(&self, whose: &str) -> anyhow::Result<SocketAddr> {
        Ok(SocketAddr::new(self.ip(whose)?, self.port.unwrap_or(0)))
    }

    /// Its hardware address.
    ///
    /// # Errors
    /// If the MAC address is missing or malformed.
    pub fn mac(&self, whose: &str) -> anyhow::Result<[u8; 6]> {
        parse_mac(self.mac.as_deref().with_context(|| format!("{whose}.mac is missing"))?)
            .with_context(|| format!("{whose}.mac"))
    }
}

/// Six octets from `02:00:00:00:00:01`.
///
/// # Errors
/// When the text is no hardware address.
pub fn parse_mac(text: &str) -> anyhow::Result<[u8; 6]> {
    let mut octets = [0; 6];
    let mut parts = text.split(':');
    for octet in &mut octets {
        let part = parts.next().filter(|part| part.len() == 2);
        match part.and_then(|part| u8::from_str_radix(part, 16).ok()) {
            Some(value) => *octet = value,
            None => bail!("'{text}' is not a hardware address; write six octets, 02:00:00:00:00:01"),
        }
    }
    if parts.next().is_some() {
        bail!("'{text}' is not a hardware address; it has more than six octets");
    }
    Ok(octets)
}

/// Version of an address.
pub fn version_of(address: IpAddr) -> IpVersion {
    match address {
        IpAddr::V4(_) => IpVersion::V4,
        IpAddr::V6(_) => IpVersion::V6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_carry_its_prefix_length() {
        let end: Endpoint =
            serde_json::from_str(r#"{"address": "10.0.0.1/24", "mac": "02:00:00:00:00:0a"}"#).unwrap();
        assert_eq!(end.socket_address("local").unwrap(), "10.0.0.1:0".parse().unwrap());
        assert_eq!(end.mac("local").unwrap(), [2, 0, 0, 0, 0, 10]);
        assert_eq!(end.mtu_bytes, 1500);
    }

    #[test]
    fn what_is_missing_is_named() {
        let end: Endpoint = serde_json::from_str(r#"{"address": "ten"}"#).unwrap();
        assert!(end.ip("peer").unwrap_err().to_string().contains("peer.address 'ten'"));
        assert!(format!("{:#}", end.mac("peer").unwrap_err()).contains("peer.mac is missing"));
        assert!(parse_mac("02:00:00:00:00").is_err() && parse_mac("02:00:00:00:00:01:02").is_err());
    }
}
