//! Machines that stand still for a while (a stopped process, a virtual machine on the move): what comes for them waits.

use mobcast_proto::{Duration, Time};

use super::{Due, World};
use crate::network::{Happening, NodeIndex};

impl World {
    /// A machine does nothing for `time`. What has been sent to it arrives, and waits. False if it stands already, or does not run.
    pub fn pause_machine(&mut self, index: NodeIndex, time: Duration) -> bool {
        let machine = &mut self.machines[index.0 as usize];
        let pauses = machine.held.is_none() && self.network.is_running(index);
        if pauses {
            machine.held = Some(Vec::new());
            let (life, at) = (machine.life, self.network.now() + time);
            self.network.schedule(at, Due::Resume { node: index, life });
        }
        pauses
    }

    /// Whether a machine stands still.
    pub fn is_standing(&self, index: NodeIndex) -> bool {
        self.machines[index.0 as usize].held.is_some()
    }

    /// What happens, unless it happens to a machine that stands still: then it is kept.
    pub(super) fn unless_standing(&mut self, happening: Happening<Due>) -> Option<Happening<Due>> {
        let index = match &happening {
            Happening::Delivered(delivery) => delivery.to,
            Happening::Closed { node, .. } => *node,
            Happening::Drained(flow) => self.network.ends(*flow).0,
            Happening::Due(Due::Timer(node) | Due::Source(node)) => *node,
            Happening::Due(Due::DialArrives { to, .. }) => *to,
            Happening::Due(Due::DialDone { from, .. }) => *from,
            Happening::Due(Due::Probed { node, .. } | Due::Late { node, .. } | Due::Stored { node, .. }) => *node,
            Happening::Due(Due::Resume { .. } | Due::Step(_)) => return Some(happening),
        };
        match &mut self.machines[index.0 as usize].held {
            Some(held) => {
                held.push(happening);
                None
            }
            None => Some(happening),
        }
    }

    /// A pause is over, unless it ended with the process that stood still: then another one may be under way.
    pub(super) fn resume(&mut self, now: Time, index: NodeIndex, life: u32) {
        let machine = &mut self.machines[index.0 as usize];
        if machine.life != life {
            return;
        }
        let held = machine.held.take().unwrap_or_default();
        held.into_iter().for_each(|happening| self.happen(now, happening));
    }
}
