//! The flags that several subcommands share, and the parsers of their values.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;

use crate::quantity::{parse_rate, parse_size, parse_time};

/// How this process appears in the group.
#[derive(Args, Clone, Debug)]
pub struct NodeArgs {
    /// Name of the cluster that this node belongs to; nodes with fast links between them share one.
    /// Without it, the cluster is found by measuring round-trip times to the clusters there are
    #[arg(long, value_name = "NAME", env = "MOBCAST_CLUSTER", hide_env_values = true, value_parser = name)]
    pub cluster: Option<String>,

    /// Address and port to listen on: ADDR:PORT, :PORT or PORT (all addresses); port 0 is any free one
    /// [default: send takes port 7077 of all addresses, or a free one; recv a free one]
    #[arg(long, value_name = "ADDR:PORT", env = "MOBCAST_LISTEN", hide_env_values = true, value_parser = listen)]
    pub listen: Option<Listen>,

    /// Address under which the others reach this node, if it is not the one that it listens on (address
    /// translation): ADDR, or ADDR:PORT where the port is translated, too
    #[arg(long, value_name = "ADDR", env = "MOBCAST_ADVERTISE", hide_env_values = true, value_parser = advertise)]
    pub advertise: Option<Advertise>,

    /// Name of this node in messages and reports [default: the host name]
    #[arg(long, value_name = "NAME", env = "MOBCAST_NAME", hide_env_values = true, value_parser = name)]
    pub name: Option<String>,

    /// Most bytes per second that this node sends to all others together, as 10MB/s or 100Mbit/s [default: no limit]
    #[arg(long, value_name = "RATE", env = "MOBCAST_MAX_RATE", hide_env_values = true, value_parser = parse_rate)]
    pub max_rate: Option<u64>,

    /// Leave payload unencrypted between nodes that were both started with this flag; it is verified all the same,
    /// and everything else stays encrypted
    #[arg(long, env = "MOBCAST_PLAIN", hide_env_values = true, value_parser = BoolishValueParser::new())]
    pub plain: bool,
}

/// What is said while it runs, and at the end.
#[derive(Args, Clone, Copy, Debug)]
pub struct OutputArgs {
    /// Print one report object as JSON to standard output at the end
    #[arg(long, env = "MOBCAST_JSON", hide_env_values = true, value_parser = BoolishValueParser::new())]
    pub json: bool,

    /// Say nothing but errors
    #[arg(long, short, env = "MOBCAST_QUIET", hide_env_values = true, value_parser = BoolishValueParser::new())]
    pub quiet: bool,
}

/// Where to listen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Listen {
    /// On one address.
    At(SocketAddr),
    /// On a port of every address.
    Port(u16),
}

/// What to tell others about where this node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advertise {
    /// The address.
    pub address: IpAddr,
    /// The port, if it is not the one that the node listens on.
    pub port: Option<u16>,
}

fn listen(text: &str) -> Result<Listen, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = port.parse() {
        return Ok(Listen::Port(port));
    }
    text.parse().map(Listen::At).map_err(|_| {
        "write an IP address and a port like 10.0.0.5:7777 or [fd00::5]:7777, or a port alone like :7777".to_owned()
    })
}

fn advertise(text: &str) -> Result<Advertise, String> {
    const HINT: &str = "write an IP address like 198.51.100.7 or fd00::5, or one with a port like 198.51.100.7:7777";
    let alone = text.parse().map(|address| Advertise { address, port: None });
    let with_port = |address: SocketAddr| Advertise { address: address.ip(), port: Some(address.port()) };
    let advertised = alone.or_else(|_| text.parse().map(with_port)).map_err(|_| HINT)?;
    match advertised.address.to_canonical() {
        all if all.is_unspecified() => {
            Err(format!("nobody reaches this node at {all}, which stands for any address: {HINT}"))
        }
        many if many.is_multicast() || many == Ipv4Addr::BROADCAST => {
            Err(format!("{many} is the address of many at a time: {HINT}"))
        }
        _ => Ok(advertised),
    }
}

/// A name of a node or cluster: something that can be printed in one line and has the length that the protocol takes.
fn name(text: &str) -> Result<String, String> {
    match text {
        "" => Err("a name has at least one character".into()),
        long if long.len() > NAME_BYTES_MAX => Err(format!("a name has at most {NAME_BYTES_MAX} bytes")),
        odd if odd.chars().any(char::is_control) => Err("a name has no control characters".into()),
        good => Ok(good.to_owned()),
    }
}

/// Longest name that the protocol takes, bytes.
const NAME_BYTES_MAX: usize = 255;

/// A piece size in bytes: a power of two from 16 KiB to 16 MiB.
pub fn piece_size(text: &str) -> Result<u32, String> {
    const HINT: &str = "a piece is a power of two from 16KiB to 16MiB, like 1MiB";
    let bytes = parse_size(text).map_err(|_| HINT)?;
    match u32::try_from(bytes) {
        Ok(size) if size.is_power_of_two() && (16 << 10..=16 << 20).contains(&size) => Ok(size),
        _ => Err(HINT.into()),
    }
}

/// A time that is not zero.
pub fn positive_time(text: &str) -> Result<Duration, String> {
    match parse_time(text) {
        Ok(time) if time.is_zero() => Err("a time of zero is over at once; write one like 30s, 5m or 24h".into()),
        time => time.map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listening_address_may_be_a_port_alone() {
        assert_eq!(listen(":7777"), Ok(Listen::Port(7777)));
        assert_eq!(listen("0"), Ok(Listen::Port(0)));
        assert_eq!(mobcast::DEFAULT_PORT, 7077, "the help names it");
        assert_eq!(listen("127.0.0.1:0"), Ok(Listen::At("127.0.0.1:0".parse().expect("address"))));
        assert_eq!(listen("[::1]:80"), Ok(Listen::At("[::1]:80".parse().expect("address"))));
        for bad in ["", "host:80", "127.0.0.1", "70000", "::1"] {
            assert!(listen(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_advertised_address_may_have_a_port() {
        let address = "198.51.100.7".parse().expect("address");
        assert_eq!(advertise("198.51.100.7"), Ok(Advertise { address, port: None }));
        assert_eq!(advertise("198.51.100.7:80"), Ok(Advertise { address, port: Some(80) }));
        assert!(advertise("fd00::5").is_ok() && advertise("[fd00::5]:1").is_ok());
        for bad in ["somewhere", "0.0.0.0", "0.0.0.0:80", "::", "[::]:80", "::ffff:0.0.0.0", "224.0.0.1", "ff02::1"] {
            assert!(advertise(bad).is_err(), "{bad}");
        }
        assert!(advertise("255.255.255.255").is_err() && advertise("255.255.255.255:80").is_err());
    }

    #[test]
    fn pieces_are_powers_of_two_within_limits() {
        assert_eq!(piece_size("1MiB"), Ok(1 << 20));
        assert_eq!(piece_size("16384"), Ok(16384));
        for bad in ["1MB", "8KiB", "32MiB", "x", "0"] {
            assert!(piece_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_time_is_no_time_to_wait() {
        assert_eq!(positive_time("24h"), Ok(Duration::from_secs(86_400)));
        let refused = |text| positive_time(text).expect_err(text);
        assert!(refused("0s").contains("zero") && refused("30").contains("needs a unit"), "{}", refused("0s"));
    }

    #[test]
    fn names_fit_into_a_line() {
        assert!(name("rack 1").is_ok() && name("é").is_ok());
        assert!(name("").is_err() && name("a\nb").is_err() && name(&"x".repeat(256)).is_err());
    }
}
