//! Where a node listens, what it tells others of that, and how connections come in.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use mobcast_proto::limits::ADDRESSES_MAX;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};
use tracing::{debug, warn};

use super::dial::{Doorway, admit};
use super::input::Input;
use super::{DEFAULT_PORT, DriverError};
use crate::channel::{HANDSHAKE_TIME, socket};

/// Connections that have not shown who they are, at a time. Each costs a few kilobytes; further ones wait with the
/// kernel.
const STRANGERS_MAX: usize = 512;
/// While more than half of the places are taken, each is given up this soon.
const CROWDED_TIME: Duration = Duration::from_secs(1);
/// After an error of the system (too many open files), it is left alone for this long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A socket that listens, and where others reach it.
#[derive(Debug)]
pub struct Listening {
    /// The socket.
    pub listener: TcpListener,
    /// Its address.
    pub bound: SocketAddr,
    /// At most [`ADDRESSES_MAX`], best first.
    pub advertised: Vec<SocketAddr>,
}

/// Where a node should listen.
#[derive(Clone, Debug)]
pub struct ListenPlan {
    /// Where its user says.
    pub listen: Option<SocketAddr>,
    /// Where its user says that others reach it.
    pub advertise: Vec<SocketAddr>,
    /// Addresses of the coordinator; empty at the coordinator itself.
    pub coordinator: Vec<SocketAddr>,
}

impl ListenPlan {
    /// Opens the socket and finds out where others reach it.
    pub fn open(&self) -> Result<Listening, DriverError> {
        let (listener, bound) = self.bind(&self.local_addresses())?;
        Ok(Listening { listener, bound, advertised: self.advertised(bound) })
    }

    /// Where others reach a socket of this address; nothing as long as the coordinator is out of reach.
    pub fn advertised(&self, bound: SocketAddr) -> Vec<SocketAddr> {
        let with_port = |mut address: SocketAddr| {
            if address.port() == 0 {
                address.set_port(bound.port());
            }
            address
        };
        let mut advertised: Vec<SocketAddr> = match (&self.advertise[..], bound.ip().is_unspecified()) {
            ([], false) => vec![bound],
            ([], true) => {
                let family = |ip: &IpAddr| bound.is_ipv6() || ip.is_ipv4();
                let near = self.local_addresses().into_iter().filter(family);
                near.map(|ip| SocketAddr::new(ip, bound.port())).collect()
            }
            (told, _) => told.iter().copied().map(with_port).collect(),
        };
        advertised.truncate(ADDRESSES_MAX);
        advertised
    }

    fn bind(&self, near: &[IpAddr]) -> Result<(TcpListener, SocketAddr), DriverError> {
        let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
        let any_v4 = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        let port = |mut address: SocketAddr, port| {
            address.set_port(port);
            address
        };
        let candidates = match (self.listen, near) {
            (Some(address), _) => vec![address],
            // The founder: the port that firewalls are opened for. IPv6 may be switched off.
            (None, _) if self.coordinator.is_empty() => {
                vec![port(any, DEFAULT_PORT), port(any_v4, DEFAULT_PORT), any, any_v4]
            }
            (None, &[only]) => vec![SocketAddr::new(only, 0)],
            (None, _) => vec![any, any_v4],
        };
        let mut failure = None;
        for address in candidates {
            match socket::listen(address).and_then(|listener| Ok((listener.local_addr()?, listener))) {
                Ok((bound, listener)) => return Ok((listener, bound)),
                Err(source) => failure = Some(DriverError::Listen { address, source: Arc::new(source) }),
            }
        }
        Err(failure.expect("there is at least one candidate"))
    }

    /// Addresses of this machine that others may reach, best first.
    fn local_addresses(&self) -> Vec<IpAddr> {
        let mut found: Vec<IpAddr> = match &self.coordinator[..] {
            [] => interface_addresses(),
            addresses => addresses.iter().filter_map(|&address| local_address_towards(address)).collect(),
        };
        if found.iter().any(|ip| !ip.is_loopback()) {
            found.retain(|ip| !ip.is_loopback());
        }
        let mut unique: Vec<IpAddr> = Vec::new();
        for ip in found {
            if !unique.contains(&ip) {
                unique.push(ip);
            }
        }
        unique
    }
}

/// The addresses of all interfaces by which others may reach this machine.
fn interface_addresses() -> Vec<IpAddr> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_else(|error| {
        warn!(%error, "cannot list the network interfaces; only this machine will reach this node");
        Vec::new()
    });
    best_of(interfaces.iter().map(|interface| interface.ip()).collect())
}

/// IPv4 first, and last those that are good on one link only: two machines on a cable may have no others in common, although
/// each has addresses for its own containers. An IPv6 address of that kind is of no use without the name of the link. Loopback's
/// is for this machine alone.
fn best_of(mut found: Vec<IpAddr>) -> Vec<IpAddr> {
    let is_on_a_link = |ip: &IpAddr| matches!(ip, IpAddr::V4(ip) if ip.is_link_local());
    found.retain(|ip| is_global(ip) || is_on_a_link(ip));
    found.sort_by_key(|ip| (is_on_a_link(ip), ip.is_ipv6()));
    if found.is_empty() { vec![Ipv4Addr::LOCALHOST.into()] } else { found }
}

fn is_global(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !ip.is_link_local() && !ip.is_loopback(),
        IpAddr::V6(ip) => !ip.is_unicast_link_local() && !ip.is_loopback(),
    }
}

/// The address of this machine by which it reaches `remote`. Nothing is sent: connecting a UDP socket only asks the
/// kernel for the route.
fn local_address_towards(remote: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let ask = || -> io::Result<IpAddr> {
        let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
        socket.connect(remote)?;
        Ok(socket.local_addr()?.ip())
    };
    ask().ok()
}

/// Accepts connections for as long as the node lives. Starts when the doorway is there: before, connections wait with
/// the kernel.
pub async fn accept_all(
    listener: TcpListener,
    mut doorway: watch::Receiver<Option<Arc<Doorway>>>,
    inputs: mpsc::Sender<Input>,
) {
    let strangers = Arc::new(Semaphore::new(STRANGERS_MAX));
    if doorway.wait_for(Option::is_some).await.is_err() {
        return;
    }
    loop {
        let Ok(place) = Arc::clone(&strangers).acquire_owned().await else { return };
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(shown) = doorway.borrow().clone() else { return };
        let crowded = strangers.available_permits() < STRANGERS_MAX / 2;
        let time = if crowded { CROWDED_TIME } else { HANDSHAKE_TIME };
        let inputs = inputs.clone();
        tokio::spawn(async move {
            match admit(stream, address, shown, time).await {
                Ok(established) => {
                    // If the node's task is gone, the connection goes with it.
                    let _ = inputs.send(Input::Accepted(Box::new(established))).await;
                }
                Err(error) => debug!(%address, %error, "not let in"),
            }
            drop(place);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(listen: Option<&str>, advertise: &[&str], coordinator: &[&str]) -> ListenPlan {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().expect("an address")).collect();
        ListenPlan {
            listen: listen.map(|text| text.parse().expect("an address")),
            advertise: parse(advertise),
            coordinator: parse(coordinator),
        }
    }

    #[tokio::test]
    async fn a_concrete_address_is_the_one_that_is_told() {
        let listening = plan(Some("127.0.0.1:0"), &[], &[]).open().expect("free ports");
        assert_eq!(listening.advertised, [listening.listener.local_addr().expect("bound")]);
    }

    #[tokio::test]
    async fn a_joiner_listens_where_it_reaches_the_coordinator() {
        let listening = plan(None, &[], &["127.0.0.1:7"]).open().expect("free ports");
        assert_eq!(listening.listener.local_addr().expect("bound").ip(), IpAddr::V4(Ipv4Addr::LOCALHOST));
    }

    #[tokio::test]
    async fn an_advertised_port_of_zero_is_the_port_it_listens_on() {
        let listening = plan(Some("127.0.0.1:0"), &["192.0.2.1:0", "192.0.2.2:5"], &[]).open().expect("free ports");
        let port = listening.listener.local_addr().expect("bound").port();
        assert_eq!(listening.advertised[0], SocketAddr::new(Ipv4Addr::new(192, 0, 2, 1).into(), port));
        assert_eq!(listening.advertised[1].port(), 5);
    }

    #[tokio::test]
    async fn a_joiner_that_no_network_reached_learns_its_address_later() {
        // No socket is connected to that one, so no address leads to it.
        let mut plan = plan(None, &[], &["255.255.255.255:7"]);
        let listening = plan.open().expect("free ports");
        assert!(listening.advertised.is_empty() && listening.bound.ip().is_unspecified());
        plan.coordinator = vec!["127.0.0.1:7".parse().expect("an address")];
        let port = listening.bound.port();
        assert_eq!(plan.advertised(listening.bound), [SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)]);
    }

    #[test]
    fn the_addresses_of_a_founder_are_the_widest_that_it_has() {
        let widest = |texts: &[&str]| -> Vec<String> {
            let found = best_of(texts.iter().map(|text| text.parse().expect("an address")).collect());
            found.iter().map(IpAddr::to_string).collect()
        };
        let all = ["127.0.0.1", "::1", "169.254.3.4", "fe80::1", "2001:db8::1", "10.0.0.1", "192.168.0.1"];
        assert_eq!(widest(&all), ["10.0.0.1", "192.168.0.1", "2001:db8::1", "169.254.3.4"]);
        assert_eq!(widest(&["169.254.3.4", "172.17.0.1"]), ["172.17.0.1", "169.254.3.4"]);
        assert_eq!(widest(&all[..4]), ["169.254.3.4"]);
        assert_eq!(widest(&all[..2]), ["127.0.0.1"]);
        assert_eq!(widest(&["fe80::1"]), ["127.0.0.1"]);
    }

    #[tokio::test]
    async fn the_founder_has_an_address_in_any_case() {
        let listening = plan(None, &[], &[]).open().expect("free ports");
        assert!((1..=ADDRESSES_MAX).contains(&listening.advertised.len()));
    }
}
