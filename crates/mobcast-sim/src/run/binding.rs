//! What binds a network's optimum, in words.

use mobcast_topology::{Binding, ClusterIndex, LinkRef, Topology};

/// The resource by the names of its clusters.
pub(super) fn in_words(topology: &Topology, binding: &Binding) -> String {
    let name = |cluster: ClusterIndex| topology.clusters()[cluster.as_usize()].name.as_str();
    let link = |link: &LinkRef| match *link {
        LinkRef::Wan { from, to } => format!("{}→{}", name(from), name(to)),
        LinkRef::AccessOut(cluster) => format!("{}'s access link out", name(cluster)),
        LinkRef::AccessIn(cluster) => format!("{}'s access link in", name(cluster)),
        LinkRef::Fabric(cluster) => format!("{}'s switches", name(cluster)),
    };
    match binding {
        Binding::Nothing => "nothing".into(),
        Binding::Cut { receiver, links } => {
            let links: Vec<String> = links.iter().map(link).collect();
            format!("on the way to {}: {}", name(*receiver), links.join(", "))
        }
        Binding::RootNicOut => "what the root's network card sends".into(),
        Binding::NicIn(cluster) => format!("what network cards in {} receive", name(*cluster)),
        Binding::TotalAccessOut => "what all access links send together".into(),
        Binding::TotalNicOut => "what all network cards send together".into(),
        Binding::WanNicsOut => "what the second network cards of the root's cluster send together".into(),
        Binding::WanNicsIn(cluster) => format!("what the second network cards of {} receive together", name(*cluster)),
        Binding::Fabric(cluster) => format!("what the switches of {} carry", name(*cluster)),
    }
}
