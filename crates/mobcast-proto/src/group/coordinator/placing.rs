//! Finding the cluster of a joining node that names none: it measures itself against the clusters' leaders, and where that does
//! not tell, waits a moment for what others measure.

use super::*;
use crate::group::discovery::{Verdict, is_unclear, judge};
use crate::limits::PROBES_MAX;

/// A node that is neither clearly near nor clearly far waits so long for what others measure, who come at the same time, …
const COMPANY_WAIT: Duration = Duration::from_millis(30);
/// …of whose round-trip times to a leader so many are kept: those of the latest nodes.
const RTTS_KEPT: usize = 64;
/// Where there are more clusters than are measured at a time, no further ones are after this: each time takes up to two seconds, and admission
/// ten at most.
const PROBING_MAX: Duration = Duration::from_secs(6);

/// A node that has asked to be admitted and has no place yet.
pub(super) struct Joining {
    join: Join,
    since: Time,
    /// The shortest round-trip time to each leader that was measured; none to one that does not answer.
    measured: Vec<(ClusterId, Option<Duration>)>,
    /// Clusters whose leaders it has been asked to measure itself against, until it answers.
    probing: BTreeSet<ClusterId>,
    company: Company,
}

/// Whether a joining node, whose measurements alone do not tell its place, has waited for those of others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Company {
    NotNeeded,
    AwaitedUntil(Time),
    /// It measures again, because a busy machine makes one measurement too long.
    Here,
}

impl Joining {
    pub(super) fn new(join: Join, since: Time) -> Joining {
        Joining { join, since, measured: Vec::new(), probing: BTreeSet::new(), company: Company::NotNeeded }
    }
}

impl Coordinator {
    /// A joining node has measured itself against leaders.
    pub fn handle_probed(&mut self, now: Time, link: LinkId, rtts_us: &[(ClusterId, Option<u64>)]) {
        let Some(joining) = self.joining.get_mut(&link).filter(|joining| !joining.probing.is_empty()) else { return };
        let asked = std::mem::take(&mut joining.probing);
        for &(cluster, rtt_us) in rtts_us.iter().filter(|(cluster, _)| asked.contains(cluster)) {
            let rtt = rtt_us.map(Duration::from_micros);
            let at = joining.measured.iter().position(|&(c, _)| c == cluster);
            let shortest = at.and_then(|at| joining.measured[at].1).into_iter().chain(rtt).min();
            match at {
                Some(at) => joining.measured[at].1 = shortest,
                None => joining.measured.push((cluster, shortest)),
            }
            if let (Some(cluster), Some(rtt)) = (self.clusters.get_mut(&cluster), shortest) {
                cluster.rtts.insert(link, rtt);
                while cluster.rtts.len() > RTTS_KEPT {
                    cluster.rtts.pop_first();
                }
            }
        }
        self.probe_or_decide(now, link);
    }

    /// When somebody has waited long enough for company.
    pub(super) fn company_due(&self) -> Option<Time> {
        let awaited = self.joining.values().filter_map(|joining| match joining.company {
            Company::AwaitedUntil(at) => Some(at),
            _ => None,
        });
        awaited.min()
    }

    /// Has those measure again who have waited long enough.
    pub(super) fn company_is_here(&mut self, now: Time) {
        let over = |joining: &Joining| matches!(joining.company, Company::AwaitedUntil(at) if at <= now);
        let waited: Vec<LinkId> = self.joining.iter().filter(|(_, j)| over(j)).map(|(&link, _)| link).collect();
        waited.into_iter().for_each(|link| self.measure_again(now, link));
    }

    pub(super) fn probe_or_decide(&mut self, now: Time, link: LinkId) {
        let joining = &self.joining[&link];
        let others = |cluster| {
            let rtts = self.clusters.get(&cluster).into_iter().flat_map(|cluster| &cluster.rtts);
            rtts.filter(move |&(&other, _)| other != link).map(|(_, rtt)| rtt)
        };
        let verdict = judge(&joining.measured, others);
        let measured: BTreeSet<ClusterId> = joining.measured.iter().map(|&(c, _)| c).collect();
        // Not clearly near to any measured so far: one of the others, or one founded meanwhile, may be the right one.
        let is_near = matches!(verdict, Verdict::Near { .. }) && !is_unclear(&joining.measured);
        if !is_near && now.since(joining.since) < PROBING_MAX {
            let unmeasured = self.leaders(|cluster| !measured.contains(&cluster));
            if !unmeasured.is_empty() {
                return self.probe(link, unmeasured);
            }
        }
        if joining.company == Company::NotNeeded && is_unclear(&joining.measured) {
            let joining = self.joining.get_mut(&link).expect("looked up above");
            joining.company = Company::AwaitedUntil(now + COMPANY_WAIT);
            return;
        }
        let reason = verdict.explain(|cluster| self.cluster_name(cluster));
        let place = match verdict {
            Verdict::Near { cluster, .. } if self.clusters.contains_key(&cluster) => Place::Cluster(cluster),
            _ => Place::New(None),
        };
        let joining = self.joining.remove(&link).expect("looked up above");
        match place {
            // Founded at once, so that the next who measures finds this cluster's leader.
            Place::New(_) if self.clusters.len() < CLUSTERS_MAX => {
                self.admit(now, vec![(link, joining.join, place, reason)]);
            }
            _ => self.make_admissible(now, link, joining.join, place, reason),
        }
    }

    /// Asks a joining node, which has waited for company, for another measurement of those that are nearest.
    fn measure_again(&mut self, now: Time, link: LinkId) {
        let Some(joining) = self.joining.get_mut(&link) else { return };
        joining.company = Company::Here;
        let mut measured = joining.measured.clone();
        measured.sort_by_key(|&(_, rtt)| (rtt.is_none(), rtt));
        measured.truncate(PROBES_MAX);
        let leaders = self.leaders(|cluster| measured.iter().any(|&(nearest, _)| nearest == cluster));
        if leaders.is_empty() {
            return self.probe_or_decide(now, link);
        }
        self.probe(link, leaders);
    }

    fn probe(&mut self, link: LinkId, leaders: Vec<Leader>) {
        let joining = self.joining.get_mut(&link).expect("only who is joining is asked");
        joining.probing = leaders.iter().map(|leader| leader.cluster).collect();
        self.decisions.push_back(Decision::Probe { link, leaders });
    }

    /// Where the leaders of clusters listen, as far as anybody can connect to them, and as many as are measured at a time.
    fn leaders(&self, wanted: impl Fn(ClusterId) -> bool) -> Vec<Leader> {
        let leader = |(&id, cluster): (&ClusterId, &Cluster)| {
            let addresses = self.members[cluster.members.first()?].addresses.clone();
            (!addresses.is_empty()).then_some(Leader { cluster: id, addresses })
        };
        self.clusters.iter().filter(|(id, _)| wanted(**id)).filter_map(leader).take(PROBES_MAX).collect()
    }

    /// Whether a node would found a cluster, and there are as many as there may be.
    pub(super) fn has_no_room_for(&self, place: &Place) -> bool {
        let is_there = match place {
            Place::Cluster(cluster) => self.clusters.contains_key(cluster),
            Place::New(name) => self.clusters.values().any(|cluster| Some(&cluster.name) == name.as_ref()),
        };
        !is_there && self.clusters.len() >= CLUSTERS_MAX
    }
}
