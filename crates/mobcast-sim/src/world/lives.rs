//! How machines start, stop and start again. A machine that starts again is another node at the same address, with nothing
//! on its disk.

use std::collections::{BTreeMap, BTreeSet};

use mobcast_proto::content::manifest::{SignatureDomain, signed_message};
use mobcast_proto::group::assignment::Credential;
use mobcast_proto::node::{Node, NodeConfig};
use mobcast_proto::random::mix2;
use mobcast_proto::sorted_map::SortedMap;
use mobcast_proto::{NodeId, PublicKey, Time};
use mobcast_topology::ClusterIndex;

use super::checks::FramesWaiting;
use super::clock::Clock;
use super::{AUTHORITY, Machine, Seen, World, address, sign};
use crate::network::{NodeIndex, Stop};

impl World {
    /// Starts a machine whose node founds the group (the first) or joins it. `name` is the cluster's, if its user
    /// gives one.
    ///
    /// # Panics
    /// If the topology has no such cluster: experiments are checked before they are run.
    pub fn start_machine(&mut self, cluster: ClusterIndex, name: Option<String>) -> NodeIndex {
        self.start_machine_with(cluster, name, Clock::default())
    }

    /// The same, with a clock of its own.
    ///
    /// # Panics
    /// If the topology has no such cluster: experiments are checked before they are run.
    pub fn start_machine_with(&mut self, cluster: ClusterIndex, name: Option<String>, clock: Clock) -> NodeIndex {
        let index = self.network.add_node(cluster).expect("experiments name clusters of their topology");
        let machine = self.new_machine(index, name, clock, 0);
        self.machines.push(machine);
        self.drain(index);
        index
    }

    /// Starts a machine again that was stopped. The first cannot: its node has founded the group.
    ///
    /// # Panics
    /// If it runs, or is the first one.
    pub fn restart_machine(&mut self, index: NodeIndex, name: Option<String>) {
        assert!(!self.network.is_running(index), "{index:?} runs: stop it first");
        assert!(index != NodeIndex(0), "the founder's group goes on without it");
        let Machine { clock, life, .. } = self.machines[index.0 as usize];
        let machine = self.new_machine(index, name, clock, life + 1);
        let former = std::mem::replace(&mut self.machines[index.0 as usize], machine);
        self.machines[index.0 as usize].unplugged = former.unplugged;
        self.said.lied |= former.malicious.is_some();
        self.former.push(former.stored);
        self.network.restart_node(index);
        self.drain(index);
    }

    fn new_machine(&self, index: NodeIndex, cluster: Option<String>, clock: Clock, life: u32) -> Machine {
        let now = clock.shows(self.network.now());
        let own = mix2(u64::from(index.0), u64::from(life));
        let key = match life {
            0 => PublicKey(*blake3::hash(&index.0.to_be_bytes()).as_bytes()),
            _ => PublicKey(*blake3::hash(&own.to_be_bytes()).as_bytes()),
        };
        let seed = if life == 0 { u64::from(index.0) } else { own };
        let config = NodeConfig {
            group: self.group,
            name: format!("node{}", index.0),
            cluster,
            addresses: vec![address(index)],
            key,
            plain: false,
            seed: mix2(self.settings.seed, seed),
            registry: self.registry,
            overlays: self.overlays.clone(),
            trusts_members: self.trusts_members,
        };
        let node = if index == NodeIndex(0) {
            let credential = Credential { group: self.group, node: NodeId(0), key, expires_unix_s: u64::MAX };
            let message = signed_message(SignatureDomain::Credential, self.group, &credential.to_bytes());
            Node::found(config, credential, sign(AUTHORITY, &message), now)
        } else {
            Node::join(config, vec![address(NodeIndex(0))], now)
        };
        Machine {
            node,
            seen: Seen::default(),
            join_dials: 0,
            authority: index == NodeIndex(0),
            malicious: None,
            forgetful: false,
            undecided: false,
            disk_stalls_until: Time::ZERO,
            slow_disk: None,
            disk_free_at: Time::ZERO,
            clock,
            key,
            flows: SortedMap::default(),
            links: SortedMap::default(),
            dialling: BTreeMap::new(),
            half_open: SortedMap::default(),
            in_driver: SortedMap::default(),
            stored: BTreeMap::new(),
            held: None,
            unplugged: false,
            frames_waiting: FramesWaiting::default(),
            forged: BTreeSet::new(),
            timer: None,
            source: None,
            life,
        }
    }

    /// A machine dies (silently) or its process ends.
    pub fn stop_machine(&mut self, index: NodeIndex, stop: Stop) {
        let machine = &mut self.machines[index.0 as usize];
        machine.life += 1;
        machine.held = None;
        if let Some((_, token)) = machine.timer.take() {
            self.network.unschedule(token);
        }
        self.network.stop_node(index, stop);
    }
}
