//! Links of a node: coming up, going down, signs of life.

use std::net::SocketAddr;

use crate::flow::upload::Upload;
use crate::group::report::Report;
use crate::io::{CloseReason, Dial, Event, Output, PeerIdentity};
use crate::limits::{LINKS_MAX, LINKS_SPARE, PING_INTERVAL, RTT_INTERVAL, SILENCE_MAX};
use crate::time::{Duration, Time};
use crate::units::{BroadcastId, ClusterId, LinkId, NodeId};
use crate::wire::frame::{Frame, Hello, Join};

use super::Node;

mod retire;
mod under_way;

use under_way::UnderWay;

/// A dial that has not succeeded for this long is given up.
const DIAL_PATIENCE: Duration = SILENCE_MAX;

/// After this, the coordinator is told of a peer that does not answer: it may be behind a firewall, and able to dial this
/// node instead. A dial takes three round trips, so that peers answer that are more than a second away; a driver may give it up after five seconds.
const ANSWER_PATIENCE: Duration = Duration::from_secs(4);

/// A link over which somebody asks to be admitted is closed after this, whatever it says: its place is wanted by others. Admission takes a few
/// measurements, of up to two seconds each, and a member that takes no place for half of this is given up.
const JOINING_MAX: Duration = SILENCE_MAX.times(2);

/// One link.
#[derive(Debug)]
pub(super) struct Link {
    /// Whom this node dials, while the link is not up and to know who made it.
    dial: Option<Dial>,
    /// Broadcasts that the peer hears of with the greeting.
    greeted: Vec<BroadcastId>,
    identity: Option<PeerIdentity>,
    /// When it was accepted, or this node began to dial.
    since: Time,
    heard_at: Time,
    /// Whether the coordinator was told that nobody answers.
    complained: bool,
    /// The last ping's token.
    pinged_at: Option<Time>,
    under_way: UnderWay,
    rtt_min: Option<Duration>,
    /// How often its round-trip time was measured.
    answers: u32,
    /// Crumbs of payload that have come since the last ping, of which nothing was wanted.
    pub(super) strays: u32,
    /// Since when this node sends over another link to the same member.
    retired_at: Option<Time>,
    /// Whether the peer does.
    left_by_peer: bool,
    /// The claim of a coordinator, by term and node, that was answered over this link with whom this node follows instead.
    pub(super) answered_claim: Option<(u32, NodeId)>,
    /// Whether the peer followed a coordinator before this node's, when it said something of that last.
    pub(super) lags: bool,
}

impl Link {
    pub(super) fn accepted(now: Time) -> Link {
        Link {
            dial: None,
            greeted: Vec::new(),
            identity: None,
            since: now,
            heard_at: now,
            complained: false,
            pinged_at: None,
            under_way: UnderWay::default(),
            rtt_min: None,
            answers: 0,
            strays: 0,
            retired_at: None,
            left_by_peer: false,
            answered_claim: None,
            lags: false,
        }
    }

    fn dialled(now: Time, dial: Dial, greeted: Vec<BroadcastId>) -> Link {
        Link { dial: Some(dial), greeted, ..Link::accepted(now) }
    }

    /// Whether to ask for a sign of life, or for the round-trip time of a link that gives enough of them: that is measured twice soon
    /// after one another, because whoever begins is busy. On a slow link that many share each frame counts.
    fn is_to_be_pinged(&self, now: Time) -> bool {
        let silent = now.since(self.heard_at) >= PING_INTERVAL;
        let interval = if silent || self.answers < 2 { PING_INTERVAL } else { RTT_INTERVAL };
        self.pinged_at.is_none_or(|at| now.since(at) >= interval)
    }

    pub(super) fn heard(&mut self, now: Time) {
        self.heard_at = now;
    }

    pub(super) fn identity(&self) -> Option<PeerIdentity> {
        self.identity
    }

    /// Shortest round-trip time measured.
    pub(super) fn rtt_min(&self) -> Option<Duration> {
        self.rtt_min
    }

    /// Whether somebody at the other end may ask to be admitted, and nothing else.
    fn is_joiner(&self) -> bool {
        self.identity == Some(PeerIdentity::Joiner)
    }

    fn is_joining_for_too_long(&self, now: Time) -> bool {
        self.is_joiner() && now.since(self.since) >= JOINING_MAX
    }

    /// The member at the other end, once the link is up; none for a link that only serves to be admitted, and for one that is
    /// retired.
    pub(super) fn member(&self) -> Option<NodeId> {
        match (self.identity, &self.dial) {
            _ if self.is_retired() => None,
            (Some(PeerIdentity::Member { .. }), Some(Dial::Join { .. })) => None,
            (Some(PeerIdentity::Member { node, .. }), _) => Some(node),
            _ => None,
        }
    }

    /// Whether this node sends over another link to the same member, and only listens here to what comes last.
    pub(super) fn is_retired(&self) -> bool {
        self.retired_at.is_some()
    }

    /// The member at the other end of a retired link.
    fn retired_from(&self) -> Option<NodeId> {
        match self.identity {
            Some(PeerIdentity::Member { node, .. }) if self.is_retired() => Some(node),
            _ => None,
        }
    }

    /// The member that this link leads to or will lead to.
    fn target(&self) -> Option<NodeId> {
        match &self.dial {
            _ if self.is_retired() => None,
            Some(Dial::Member { node, .. }) => Some(*node),
            _ => self.member(),
        }
    }
}

impl Node {
    pub(super) fn new_link_id(&mut self) -> LinkId {
        let link = LinkId(self.next_link);
        self.next_link += 1;
        link
    }

    /// Broadcasts that the peer has heard of with the greeting, until they are taken.
    pub(super) fn take_greeted(&mut self, link: LinkId) -> Vec<BroadcastId> {
        self.links.get_mut(&link).map(|link| std::mem::take(&mut link.greeted)).unwrap_or_default()
    }

    /// The link to a member that is up.
    pub(super) fn link_to(&self, node: NodeId) -> Option<LinkId> {
        self.links.iter().find(|(_, link)| link.member() == Some(node)).map(|(id, _)| id)
    }

    /// Whether a link to a member is up or being made.
    pub(super) fn has_link_to(&self, node: NodeId) -> bool {
        self.links.values().any(|link| link.target() == Some(node))
    }

    /// Links to members that are up.
    pub(super) fn member_links(&self) -> Vec<LinkId> {
        self.links.iter().filter(|(_, link)| link.member().is_some()).map(|(id, _)| id).collect()
    }

    pub(super) fn member_at(&self, link: LinkId) -> Option<NodeId> {
        self.links.get(&link)?.member()
    }

    /// Connects to the coordinator, to be admitted. It learns who asks with the greeting: a round trip sooner than over a link
    /// that is up.
    pub(super) fn dial_to_join(&mut self, addresses: Vec<SocketAddr>, join: Join) -> LinkId {
        self.dial(Dial::Join { addresses }, vec![Frame::Join(join)], Vec::new())
    }

    /// Connects to a member. It learns with the greeting which broadcasts this node knows of, and, if its cluster is known
    /// here, what their strategies want to be told first: whoever knows of them too answers with what it has.
    pub(super) fn dial_member(&mut self, node: NodeId, addresses: Vec<SocketAddr>, cluster: Option<ClusterId>) {
        let (mut greeting, mut greeted) = (Vec::new(), Vec::new());
        for (id, broadcast) in self.broadcasts.iter().filter(|(_, broadcast)| broadcast.is_announced()) {
            greeted.push(id);
            greeting.push(broadcast.announce_frame());
            greeting.extend(cluster.and_then(|cluster| broadcast.strategy_greeting(cluster)));
        }
        self.dial(Dial::Member { node, addresses }, greeting, greeted);
    }

    fn dial(&mut self, dial: Dial, greeting: Vec<Frame>, greeted: Vec<BroadcastId>) -> LinkId {
        let link = self.new_link_id();
        self.links.insert(link, Link::dialled(self.now, dial.clone(), greeted));
        self.outputs.push_back(Output::Connect { link, dial, greeting });
        link
    }

    pub(super) fn link_up(&mut self, link: LinkId, identity: PeerIdentity, hello: &Hello) {
        if !self.links.contains_key(&link) {
            return;
        }
        if hello.group != self.config.group {
            return self.close(link, CloseReason::Violation("belongs to another group".into()));
        }
        match identity {
            PeerIdentity::Joiner if self.coordinator.is_none() => {
                return self.close(link, CloseReason::Violation("asks a node to be admitted that cannot".into()));
            }
            PeerIdentity::Member { node, .. } => {
                if let Some(reason) = self.reason_against(node) {
                    return self.close(link, reason);
                }
                if self.is_surplus(link, identity, node) {
                    return;
                }
            }
            PeerIdentity::Joiner => {
                let joining = self.links.values().filter(|state| state.is_joiner()).count();
                if joining >= LINKS_SPARE {
                    return self.turn_away(link);
                }
            }
        }
        let identity = self.placed(identity);
        let state = self.links.get_mut(&link).expect("looked up above");
        state.identity = Some(identity);
        state.heard_at = self.now;
        let joining = matches!(state.dial, Some(Dial::Join { .. }));
        match identity {
            PeerIdentity::Member { node, cluster } if !joining => {
                self.uploads.add_link(link, self.assignment().is_some_and(|a| a.cluster != cluster));
                self.ping(link);
                self.tell_holding(link);
                self.member_link_up(link, node);
                self.tell_of_broadcasts();
                self.greet_broadcasts(link);
            }
            _ if joining => self.membership.coordinator_reached(),
            _ => {}
        }
    }

    /// A member that this node was told of is in the cluster that the coordinator says: one that was admitted a moment ago may not know it yet.
    fn placed(&self, identity: PeerIdentity) -> PeerIdentity {
        let PeerIdentity::Member { node, cluster: said } = identity else { return identity };
        let counted = self.coordinator.as_ref().and_then(|c| c.member(node)).map(|member| member.cluster);
        let told = || self.membership.told().find(|peer| peer.node == node).map(|peer| peer.cluster);
        PeerIdentity::Member { node, cluster: counted.or_else(told).unwrap_or(said) }
    }

    /// Too many ask to be admitted: this one is told when to come again.
    fn turn_away(&mut self, link: LinkId) {
        let frame = match self.coordinator.as_mut().map(|coordinator| coordinator.later(self.now)) {
            Some(Ok(after)) => {
                Frame::Later { after_ms: u32::try_from(after.as_micros().div_ceil(1_000)).unwrap_or(u32::MAX) }
            }
            Some(Err(refusal)) => Frame::Refuse { refusal },
            None => return self.close(link, CloseReason::Full),
        };
        self.send(link, frame);
        self.close(link, CloseReason::Full);
    }

    /// Why a link to a member, just up, should not stay.
    fn reason_against(&self, node: NodeId) -> Option<CloseReason> {
        if self.id() == Some(node) {
            return Some(CloseReason::Violation("is this node itself".into()));
        }
        if self.banned.contains(&node) {
            return Some(CloseReason::Violation("was dropped before, for breaking the protocol".into()));
        }
        let up = self.links.values().filter(|state| state.member().is_some()).count();
        (up >= LINKS_MAX && self.link_to(node).is_none()).then_some(CloseReason::Full)
    }

    pub(super) fn link_down(&mut self, link: LinkId) {
        let Some(state) = self.links.remove(&link) else { return };
        if state.is_retired() {
            return;
        }
        self.forget_link(link);
        state.member().into_iter().for_each(|node| self.close_retired(node));
        match (state.member(), state.dial) {
            (_, Some(Dial::Join { .. })) if self.membership.join_link == Some(link) => self.join_link_down(),
            (_, Some(Dial::Join { .. })) => {}
            (Some(node), _) => self.member_link_down(node),
            (None, Some(Dial::Member { node, .. })) => self.dial_failed(node),
            (None, None) => {
                if let Some(coordinator) = &mut self.coordinator {
                    coordinator.handle_joiner_gone(link);
                }
            }
        }
    }

    /// Closes a link. What is exchanged over it ends as if it had gone by itself, and nobody waits for what was passed on over it; only the end of
    /// one that is silent means that the member may be gone.
    pub(super) fn close(&mut self, link: LinkId, reason: CloseReason) {
        if let Some(state) = self.links.remove(&link) {
            if !state.is_retired() {
                self.forget_link(link);
            }
            let silent = matches!(reason, CloseReason::Silent(_));
            if let Some(coordinator) = self.coordinator.as_mut().filter(|_| state.is_joiner()) {
                coordinator.handle_joiner_gone(link);
            }
            self.outputs.push_back(Output::Close { link, reason });
            if state.is_retired() {
                return;
            }
            state.member().into_iter().for_each(|node| self.close_retired(node));
            if let Some(node) = state.member() {
                if silent { self.member_link_down(node) } else { self.way_gone(node) }
            } else if let (None, Some(Dial::Member { node, .. })) = (state.member(), state.dial) {
                self.dial_failed(node);
            }
        }
    }

    fn forget_link(&mut self, link: LinkId) {
        self.uploads.remove_link(link);
        self.drop_held_releases(link);
        let now = self.now;
        let ids: Vec<BroadcastId> = self.broadcasts.keys().collect();
        for id in ids {
            self.with_broadcast(id, |broadcast| broadcast.handle_peer_down(now, link));
        }
        self.unverified.values_mut().for_each(|entry| {
            entry.links.remove(&link);
        });
        self.drain_uploads();
    }

    /// Drops a peer that broke the protocol, and says so.
    pub(super) fn drop_peer(&mut self, link: LinkId, reason: CloseReason) {
        let node = self.member_at(link);
        self.event(Event::PeerDropped { node, reason: reason.clone() });
        self.close(link, reason);
        if self.membership.join_link == Some(link) {
            self.join_link_down();
        }
        if let Some(node) = node {
            self.banned.insert(node);
            self.report(Report::Violation { node });
            self.member_link_down(node);
        }
    }

    /// Asks for signs of life, and gives up whom nothing is heard of.
    pub(super) fn look_after_links(&mut self) {
        let now = self.now;
        let ids: Vec<LinkId> = self.links.keys().collect();
        for id in ids {
            let Some(link) = self.links.get(&id) else { continue };
            if link.is_retired() {
                if link.retired_at.is_some_and(|since| now.since(since) >= SILENCE_MAX) {
                    self.close(id, CloseReason::Duplicate);
                }
                continue;
            }
            if link.is_joining_for_too_long(now) {
                self.close(id, CloseReason::Full);
                continue;
            }
            let silence = now.since(link.heard_at);
            let limit = if link.identity.is_none() { DIAL_PATIENCE } else { SILENCE_MAX };
            if link.identity.is_none() && silence >= ANSWER_PATIENCE && !link.complained {
                self.complain(id);
            }
            let Some(link) = self.links.get(&id) else { continue };
            if silence >= limit {
                let node = link.target();
                let reason = CloseReason::Silent(silence);
                let joining = matches!(link.dial, Some(Dial::Join { .. }));
                self.event(Event::PeerDropped { node, reason: reason.clone() });
                self.close(id, reason);
                if joining && self.membership.join_link == Some(id) {
                    self.join_link_down();
                }
            } else if link.member().is_some() && link.is_to_be_pinged(now) {
                self.ping(id);
            }
        }
    }

    /// Tells the coordinator that a peer, or the parent, does not answer.
    fn complain(&mut self, link: LinkId) {
        let Some(state) = self.links.get_mut(&link) else { return };
        state.complained = true;
        if let Some(Dial::Member { node, .. }) = state.dial
            && self.membership.told().any(|peer| peer.node == node)
        {
            self.report(Report::Unreachable { node });
        }
    }

    pub(super) fn ping(&mut self, link: LinkId) {
        if let Some(state) = self.links.get_mut(&link) {
            // Later than the last one's, however soon after it: the answer shows what has come through before it.
            let token = state.pinged_at.map_or(self.now.0, |last| self.now.0.max(last.0 + 1));
            state.pinged_at = Some(Time(token));
            state.strays = 0;
            self.send(link, Frame::Ping { token });
        }
    }

    pub(super) fn pong(&mut self, link: LinkId, token: u64) {
        let now = self.now;
        let Some(state) = self.links.get_mut(&link) else { return };
        if token > state.pinged_at.map_or(now.0, |last| last.0.max(now.0)) {
            return self.drop_peer(link, CloseReason::Violation("answered a ping that was never sent".into()));
        }
        let rtt = now.since(Time(token));
        state.answers = state.answers.saturating_add(1);
        state.rtt_min = Some(state.rtt_min.map_or(rtt, |min| min.min(rtt)));
        for broadcast in self.broadcasts.values_mut() {
            broadcast.handle_rtt(link, rtt);
        }
        self.note_through(link, Time(token));
    }

    /// Shortest round-trip time seen on a link.
    pub(super) fn rtt_of(&self, link: LinkId) -> Option<Duration> {
        self.links.get(&link)?.rtt_min()
    }

    /// Hands the driver the next parts of pieces to send.
    pub(super) fn drain_uploads(&mut self) {
        while let Some((link, Upload { broadcast, piece, range })) = self.uploads.poll(self.now) {
            // Filler is no broadcast's.
            if let Some(broadcast) = self.broadcasts.get_mut(&broadcast) {
                broadcast.swarm_mut().count_sent(link, range.len());
            }
            self.outputs.push_back(Output::SendPayload { link, broadcast, piece, range });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::assignment::tests::assignment;
    use crate::node::Pending;
    use crate::node::founder::tests::follower;
    use crate::node::testing::{founder, joiner, linked, outputs};
    use crate::units::{ByteRange, PieceIndex};
    use crate::wire::NODE_UNKNOWN;

    fn greets(node: &mut Node, member: u32, cluster: u32) -> Option<ClusterId> {
        let (member, cluster) = (NodeId(member), ClusterId(cluster));
        let hello = Hello { node: member, cluster, ..node.hello(0) };
        let link = node.accept_link(Time::ZERO, PeerIdentity::Member { node: member, cluster }, &hello);
        node.cluster_at(link)
    }

    #[test]
    fn who_a_node_was_told_of_is_in_the_cluster_that_it_was_told_and_others_in_theirs() {
        let mut node = joiner();
        node.apply_assignment(assignment());
        let clusters = [3, 5, 7, 2, 8].map(|peer| greets(&mut node, peer, 6));
        let [own, other, said] = [1, 0, 6].map(|cluster| Some(ClusterId(cluster)));
        assert_eq!(clusters, [own, own, own, other, said], "of the last one nothing was said");
    }

    /// A node with links to so many members, and so many that nobody has greeted on yet.
    fn with_links(members: usize, unknown: usize) -> Node {
        let mut node = joiner();
        for i in 0..(members + unknown) as u32 {
            let member = PeerIdentity::Member { node: NodeId(i + 1), cluster: ClusterId(0) };
            let identity = Some(member).filter(|_| (i as usize) < members);
            node.links.insert(LinkId(i), Link { identity, ..Link::accepted(Time::ZERO) });
        }
        node
    }

    /// When a node pings a member that answers at once, in half seconds, if it hears of it all the time, or nothing beside its answers.
    fn pinged(busy: bool) -> Vec<u64> {
        let mut node = with_links(1, 0);
        let link = LinkId(0);
        let mut pinged = Vec::new();
        for tick in 1..=50 {
            let now = Time::ZERO + super::super::TICK.times(tick);
            if busy {
                node.links.get_mut(&link).expect("is kept").heard(now);
            }
            node.handle_timeout(now);
            while let Some(output) = node.poll_output() {
                if let Output::Send { link, frame: Frame::Ping { token } } = output {
                    pinged.push(tick);
                    node.handle_frame(now, link, Frame::Pong { token });
                }
            }
        }
        pinged
    }

    #[test]
    fn a_busy_link_is_pinged_less_often_than_a_silent_one() {
        assert_eq!(pinged(false), (1..=50).step_by(4).collect::<Vec<_>>(), "every two seconds");
        assert_eq!(pinged(true), [1, 5, 25, 45], "every ten once its round-trip time was measured twice");
    }

    #[test]
    fn a_peer_that_does_not_answer_is_complained_of_when_it_cannot_just_be_far_away() {
        let mut node = follower();
        let complains = |node: &mut Node, millis: u64| {
            node.handle_timeout(Time::ZERO + Duration::from_millis(millis));
            let complaint = |pending: &Pending| matches!(pending, Pending::SignReport(Report::Unreachable { .. }));
            node.pending.values().any(|pending| complaint(pending))
        };
        assert!((1..8).all(|tick| !complains(&mut node, tick * 500)), "three round trips of a second and more");
        assert!(complains(&mut node, 4_000));
    }

    #[test]
    fn whoever_asks_to_be_admitted_for_ever_is_closed_however_often_it_pings() {
        let mut node = founder();
        let hello = Hello { node: NODE_UNKNOWN, ..node.hello(0) };
        let link = node.accept_link(Time::ZERO, PeerIdentity::Joiner, &hello);
        let second = |second| Time::ZERO + Duration::from_secs(second);
        let is_closed = |node: &mut Node, now: Time| {
            node.handle_timeout(now);
            node.handle_frame(now, link, Frame::Ping { token: 1 });
            outputs(node).iter().any(|output| matches!(output, Output::Close { .. }))
        };
        assert!((1..20).all(|now| !is_closed(&mut node, second(now))));
        assert!(is_closed(&mut node, second(20)));
        node.check_invariants();
    }

    #[test]
    fn the_link_of_a_member_that_leaves_is_closed_here_too_and_so_is_one_that_goes_on_sending() {
        let mut node = founder();
        let link = linked(&mut node, NodeId(1));
        outputs(&mut node);
        let close = Output::Close { link, reason: CloseReason::Unneeded };
        node.handle_frame(Time::ZERO, link, Frame::Bye);
        assert!(outputs(&mut node).contains(&close));
        let (range, piece) = (ByteRange { start: 0, end: 1 }, PieceIndex(0));
        node.handle_payload(Time::ZERO, link, BroadcastId { root: NodeId(0), sequence: 0 }, piece, range);
        assert_eq!(outputs(&mut node), [close]);
    }

    #[test]
    fn links_as_many_as_there_may_be() {
        with_links(LINKS_MAX, LINKS_SPARE).check_invariants();
    }

    #[test]
    #[should_panic(expected = "links to 65 members")]
    fn a_link_to_a_member_too_many() {
        with_links(LINKS_MAX + 1, 0).check_invariants();
    }

    #[test]
    #[should_panic(expected = "321 links")]
    fn a_link_too_many() {
        with_links(LINKS_MAX, LINKS_SPARE + 1).check_invariants();
    }
}
