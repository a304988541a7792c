//! What can be chosen. Every default is what most users want.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use mobcast_net::driver::DEFAULT_PORT;
use mobcast_net::store::default_spool_dir;
use mobcast_proto::limits::{ADDRESSES_MAX, NAME_BYTES_MAX};
use mobcast_proto::strategy::choice::Costs;

use crate::{AUTO, Error, Gauge, STRATEGIES};

/// How long a ticket admits, unless told otherwise.
const EXPIRES: Duration = Duration::from_secs(24 * 3600);

/// How a process takes part in a group.
#[derive(Clone, Debug)]
pub struct GroupOptions {
    /// What the node calls itself in reports, 1 to 255 bytes without control characters. Default: the host's name.
    pub name: String,
    /// The cluster that it belongs to, named likewise; by default it is found by measuring round-trip times.
    pub cluster: Option<String>,
    /// Where it listens; port 0 takes a free one. By default the founder takes port [`DEFAULT_PORT`] (or a free one, if
    /// that is taken) of all addresses, and a joiner a free port of the address by which it reaches the coordinator.
    pub listen: Option<SocketAddr>,
    /// Where others reach it, if that differs from where it listens (behind address translation), at most 8. Port 0
    /// stands for the port on which it listens.
    pub advertise: Vec<SocketAddr>,
    /// Lets payload travel in the clear to and from nodes that say the same; it is verified all the same, and
    /// everything else stays encrypted.
    pub plain: bool,
    /// How long the ticket admits, from the founding on. Only the founder's counts.
    pub expires: Duration,
    /// Bytes per second of payload that this node sends at most, to all peers together.
    pub max_rate_bytes_per_s: Option<u64>,
    /// Names of the strategies by which objects will be broadcast, of [`crate::STRATEGIES`]. Each needs its own links between
    /// the nodes, which all have from the beginning. [`crate::AUTO`] stands for those among which is chosen: `mob` and
    /// some trees, in groups of at most 1,024 nodes and 16 clusters. Only the founder's count. Default: `mob`.
    pub strategies: Vec<String>,
    /// What the network is like, for strategies that plan for it. Only the founder's counts.
    pub gauge: Option<Gauge>,
    /// Members take each other's word about broadcasts: no signatures of root, receivers and coordinator for each object, which are most
    /// of the time of a small one. Links are authenticated and encrypted all the same, strangers stay outside, and pieces are compared with
    /// their hashes; but any member may alter what it passes on. Only the founder's counts, for the whole group. Default: no.
    pub trust_members: bool,
    /// What this machine costs beside its network, for [`crate::AUTO`]; [`crate::calibrate`] measures it. Default: a usual machine.
    pub costs: Costs,
    /// Directory for unnamed temporary files: streams, and objects that are only verified or written to a pipe.
    pub spool_dir: PathBuf,
}

impl GroupOptions {
    /// Refuses what others could not be told.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let named = [("the node", Some(&self.name)), ("the cluster", self.cluster.as_ref())];
        for (what, name) in named.into_iter().filter_map(|(what, name)| Some((what, name?))) {
            if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
                return Err(Error::Name { what, name: name.clone() });
            }
        }
        match self.advertise.len() {
            0..=ADDRESSES_MAX => Ok(()),
            count => Err(Error::Advertise { count }),
        }
    }
}

impl Default for GroupOptions {
    fn default() -> GroupOptions {
        GroupOptions {
            name: host_name(),
            cluster: None,
            listen: None,
            advertise: Vec::new(),
            plain: false,
            expires: EXPIRES,
            max_rate_bytes_per_s: None,
            strategies: vec![STRATEGIES[0].name.into()],
            gauge: None,
            trust_members: false,
            costs: Costs::USUAL,
            spool_dir: default_spool_dir(),
        }
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// How an object is broadcast.
#[derive(Clone, Debug)]
pub struct BroadcastOptions {
    /// Name of the strategy, one of those that the group was founded for ([`GroupOptions::strategies`]), or [`crate::AUTO`], the default: the
    /// coordinator's node chooses the one that a cost model predicts to be fastest, others take `mob`.
    pub strategy: String,
    /// Bytes of a piece: a power of two from 16 KiB to 16 MiB. By default chosen from the object's size and the number
    /// of receivers.
    pub piece_size: Option<u32>,
    /// Receivers that must have everything before the broadcast is over (see [`crate::Broadcast::released`]). By
    /// default all members, and at least one. Only the coordinator's counts.
    pub receivers: Option<u32>,
}

impl Default for BroadcastOptions {
    fn default() -> BroadcastOptions {
        BroadcastOptions { strategy: AUTO.into(), piece_size: None, receivers: None }
    }
}

/// How an object is put down.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SinkOptions {
    /// Replace existing files, and merge into an existing directory.
    pub force: bool,
    /// Keep set-uid, set-gid and sticky bits within a directory, and, when run as root, the numeric owners.
    pub preserve: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_not_travel_are_refused() {
        let check = |name: &str, cluster: Option<&str>| {
            let cluster = cluster.map(str::to_owned);
            GroupOptions { name: name.into(), cluster, ..GroupOptions::default() }.check().map_err(|e| e.to_string())
        };
        assert_eq!((GroupOptions::default().check().is_ok(), check("é", Some("rack 1"))), (true, Ok(())));
        for (name, cluster) in [("", None), ("a\nb", None), (&*"x".repeat(256), None), ("a", Some(""))] {
            let error = check(name, cluster).expect_err("it is no name");
            assert!(error.contains("is no name: give it 1 to 255 bytes"), "{error}");
        }
    }

    #[test]
    fn more_addresses_than_others_are_told_of_are_refused() {
        let check = |count| {
            let advertise = vec![SocketAddr::from(([198, 51, 100, 7], 0)); count];
            GroupOptions { advertise, ..GroupOptions::default() }.check()
        };
        assert!(check(ADDRESSES_MAX).is_ok());
        let error = check(ADDRESSES_MAX + 1).expect_err("one would be left out");
        assert!(error.to_string().starts_with("too many addresses to advertise: 9 where 8 fit"), "{error}");
    }
}
