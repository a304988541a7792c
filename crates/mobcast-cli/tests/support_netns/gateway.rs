//! What stands between a machine and the others, made with `nft`: a gateway that translates addresses, and a firewall
//! that swallows whatever wants to come in.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};

use super::ip::ip;
use super::{Family, Lab, Machine, add_address};

/// The machine's address, and its gateway's on that side.
const INSIDE: [&str; 2] = ["192.168.77.2", "192.168.77.1"];
/// The last part of a gateway's address on its site.
const GATEWAY_HOST: usize = 200;

impl Lab {
    /// Adds a machine with a private address behind a gateway at a site. It reaches the site's machines, which see the
    /// gateway's address. Of those, nobody reaches it but through the gateway's port `forwarded.0`, which leads to the
    /// machine's port `forwarded.1`. Returns the machine, and that port as others see it.
    pub fn behind_gateway(&mut self, site: usize, forwarded: (u16, u16)) -> (Machine, SocketAddr) {
        let (router, gateway, namespace) = (self.router(site), self.namespace(), self.namespace());
        ip(&format!("-n {router} link add gateway type veth peer name outside netns {gateway}"));
        ip(&format!("-n {router} link set gateway master switch up"));
        ip(&format!("-n {gateway} link set outside up"));
        add_address(&gateway, "outside", &Family::V4.machine(site, GATEWAY_HOST));
        ip(&format!("-n {gateway} link add inside type veth peer name eth0 netns {namespace}"));
        ip(&format!("-n {gateway} link set inside up"));
        ip(&format!("-n {namespace} link set eth0 up"));
        add_address(&gateway, "inside", &format!("{}/24", INSIDE[1]));
        add_address(&namespace, "eth0", &format!("{}/24", INSIDE[0]));
        ip(&format!("-n {namespace} route add default via {}", INSIDE[1]));
        ip(&format!("netns exec {gateway} sysctl -q -w {}", Family::V4.forwarding()));
        let (outer, inner) = forwarded;
        let target = format!("{}:{inner}", INSIDE[0]);
        nft(
            &gateway,
            &format!(
                "table ip translation {{
                    chain into {{
                        type nat hook prerouting priority dstnat;
                        iifname outside tcp dport {outer} dnat to {target};
                    }}
                    chain out {{
                        type nat hook postrouting priority srcnat;
                        oifname outside masquerade;
                    }}
                }}"
            ),
        );
        let address: IpAddr = Family::V4.machine_address(site, GATEWAY_HOST).parse().expect("an address");
        (Machine { namespace }, SocketAddr::new(address, outer))
    }
}

impl Machine {
    /// From here on, this machine answers to no connection that others begin: their packets are swallowed.
    pub fn lets_nobody_in(&self) {
        nft(
            &self.namespace,
            "table inet firewall {
                chain into {
                    type filter hook input priority filter;
                    iifname eth0 tcp flags & (syn | ack) == syn drop;
                }
            }",
        );
    }
}

/// Loads rules in a namespace.
#[track_caller]
fn nft(namespace: &str, rules: &str) {
    let mut command = Command::new("ip");
    let command = command.args(["netns", "exec", namespace, "nft", "-f", "-"]).stdin(Stdio::piped());
    let mut child = command.spawn().expect("ip starts");
    child.stdin.take().expect("piped").write_all(rules.as_bytes()).expect("written");
    assert!(child.wait().expect("a child").success(), "nft takes these rules: {rules}");
}
