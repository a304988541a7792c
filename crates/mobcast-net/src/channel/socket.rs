//! Settings of TCP. Congestion control and buffer sizes are the kernel's: it tunes them to the path.

use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Bytes that the kernel takes from us beyond what it can send, before anything is known of the link.
const UNSENT_BYTES_FIRST: u32 = 32 << 10;
/// Connections that wait for being accepted; the kernel's own limit is usually 4,096.
const BACKLOG: i32 = 1024;
/// Silence after which the kernel asks for a sign of life, and the time between two such questions. The protocol's own
/// pings are faster; these end connections whose process sleeps.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(10), Duration::from_secs(5), 3);
/// Probes of one address at most.
const PROBE_TRIES_MAX: u32 = 8;
const PROBE_TIME: Duration = Duration::from_secs(2);

/// A socket that accepts connections on `address`; on an unspecified IPv6 address, those of IPv4 as well. Must be
/// called within a runtime.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// A configured connection to `address`, made within `time`.
pub async fn dial(address: SocketAddr, time: Duration) -> io::Result<TcpStream> {
    let stream = timeout(time, TcpStream::connect(address)).await??;
    configure(&stream)?;
    Ok(stream)
}

/// Sets up a connection that was made or accepted.
pub fn configure(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let (idle, interval, retries) = KEEPALIVE;
    let keepalive = TcpKeepalive::new().with_time(idle).with_interval(interval).with_retries(retries);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&keepalive)?;
    set_unsent_max(&socket, UNSENT_BYTES_FIRST)
}

/// Bounds what the kernel takes beyond what it can send (`TCP_NOTSENT_LOWAT`, Linux since 3.12). What it has taken cannot be taken
/// back, and control frames wait behind it.
pub(super) fn set_unsent_max(socket: &SockRef<'_>, bytes: u32) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    socket.set_tcp_notsent_lowat(bytes)?;
    #[cfg(not(target_os = "linux"))]
    let _ = (socket, bytes);
    Ok(())
}

/// The shortest of `tries` (at most 8) round trips to `address`, measured by connecting and closing at once; nothing if
/// none succeeds. The peer's process takes no part in it, so its load does not either.
pub async fn probe_rtt(address: SocketAddr, tries: u32) -> Option<Duration> {
    let mut shortest = None;
    for _ in 0..tries.clamp(1, PROBE_TRIES_MAX) {
        let start = Instant::now();
        match timeout(PROBE_TIME, TcpStream::connect(address)).await {
            Ok(Ok(_)) => shortest = Some(shortest.unwrap_or(Duration::MAX).min(start.elapsed())),
            // A try that times out costs 2 s: one is enough.
            Ok(Err(_)) | Err(_) => break,
        }
    }
    shortest
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[tokio::test]
    async fn a_listener_on_any_address_takes_both_families() {
        if std::net::TcpListener::bind("[::1]:0").is_err() {
            // Past the macros, whose output is not shown for tests that pass.
            let _ = io::stderr().write_all(b"SKIPPED a_listener_on_any_address_takes_both_families: no IPv6\n");
            return;
        }
        let listener = listen("[::]:0".parse().unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "::1"] {
            let address = SocketAddr::new(host.parse().unwrap(), port);
            let (dialled, accepted) = tokio::join!(dial(address, Duration::from_secs(2)), listener.accept());
            assert!(dialled.unwrap().nodelay().unwrap());
            accepted.unwrap();
        }
    }

    #[tokio::test]
    async fn a_round_trip_is_measured_where_somebody_listens() {
        // Nobody else is given its port once it is closed.
        let listener = listen("127.0.0.98:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let rtt = probe_rtt(address, 8).await.unwrap();
        assert!(rtt < Duration::from_millis(100), "{rtt:?}");
        drop(listener);
        assert_eq!(probe_rtt(address, 8).await, None);
    }
}
