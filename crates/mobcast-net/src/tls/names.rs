//! The names in certificates: DNS names in form only, so that X.509 libraries can carry and compare them.

use mobcast_proto::{GroupId, NodeId};
use rustls_pki_types::ServerName;

use super::peer::Expected;

/// Common name of every group's authority; groups differ by its key.
pub const AUTHORITY: &str = "mobcast group authority";
/// Common name of the issuer of bootstrap certificates.
pub const BOOTSTRAP: &str = "mobcast bootstrap";

/// The name of a node. Hex in lower case without leading zeros: exactly one name for each node.
pub fn node(node: NodeId, group: GroupId) -> String {
    format!("n{:x}.{group}.mobcast", node.0)
}

/// The name of whoever is the coordinator.
pub fn coordinator(group: GroupId) -> String {
    format!("coordinator.{group}.mobcast")
}

/// The name of everyone who only has a ticket.
pub fn joiner(group: GroupId) -> String {
    format!("joiner.{group}.mobcast")
}

/// The node that `name` names, if it names one of `group`.
pub fn parse_node(name: &str, group: GroupId) -> Option<NodeId> {
    let id = name.strip_prefix('n')?.split('.').next()?;
    let found = NodeId(u32::from_str_radix(id, 16).ok()?);
    (node(found, group) == name).then_some(found)
}

/// What a server's certificate must be valid for.
pub fn server(expected: Expected, group: GroupId) -> ServerName<'static> {
    let name = match expected {
        Expected::Coordinator => coordinator(group),
        Expected::Node(id) => node(id, group),
    };
    server_name(name)
}

/// A name made here as the type that webpki compares.
pub fn server_name(name: String) -> ServerName<'static> {
    ServerName::try_from(name).expect("names made here are valid DNS names")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_one_name_that_is_a_dns_name() {
        let group = GroupId([0xee; 16]);
        for id in [0, 1, 10, 99_999, u32::MAX] {
            let name = node(NodeId(id), group);
            assert_eq!(parse_node(&name, group), Some(NodeId(id)));
            server(Expected::Node(NodeId(id)), group);
        }
        server(Expected::Coordinator, group);
        server_name(joiner(group));
    }

    #[test]
    fn other_names_are_no_nodes() {
        let group = GroupId([1; 16]);
        let name = node(NodeId(7), group);
        assert_eq!(parse_node(&name, GroupId([2; 16])), None);
        for other in [coordinator(group), joiner(group), name.replace("n7", "n07"), name.replace("n7", "n+7")] {
            assert_eq!(parse_node(&other, group), None, "{other}");
        }
    }
}
