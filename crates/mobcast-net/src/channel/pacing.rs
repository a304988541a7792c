//! Pacing of what goes far. Where payload crosses a link in both directions, acknowledgements wait in the queues of the other direction's data and
//! come in heaps; each heap lets a burst of packets go, which a queue of about one round trip drops (Zhang, Shenker, Clark, "Observations on
//! the dynamics of a congestion control algorithm: the effects of two-way traffic", SIGCOMM 1991). The kernel can spread
//! packets over the round trip, whatever the congestion control (Linux since 4.13, `tcp_internal_pacing`; by the queueing
//! discipline where that is `fq`), and does so when a socket has a limit to its rate. The limit given here is none.

use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use libc::{IPPROTO_TCP, SO_MAX_PACING_RATE, SOL_SOCKET, TCP_INFO, c_void, getsockopt, setsockopt, socklen_t};

/// Round trips from which on a socket is paced. Nearer ones have short queues, and a timer for each packet costs more there.
const FAR: Duration = Duration::from_millis(2);
/// Bytes per second: no limit, but another value than the one that means that there is none; and neither is its lower half, which is
/// all that older kernels read.
const UNLIMITED: u64 = (u64::MAX >> 1) - 1;
const _: () = assert!(UNLIMITED as u32 != u32::MAX);
/// What `tcp_info` of linux/tcp.h has up to `tcpi_min_rtt`, in units of four bytes; that is its last (since Linux 4.9).
const INFO_WORDS: usize = 38;

/// Has the kernel pace what is sent, if the peer is far. Systems that cannot do it send as they did.
pub fn pace_if_far(socket: impl AsFd) -> io::Result<()> {
    match round_trip(&socket)? {
        Some(rtt) if rtt >= FAR => set_max_pacing_rate(socket, UNLIMITED),
        _ => Ok(()),
    }
}

/// The shortest round trip that the kernel has seen, if it tells.
fn round_trip(socket: impl AsFd) -> io::Result<Option<Duration>> {
    let mut info = [0u32; INFO_WORDS];
    let mut bytes = size_of_val(&info) as socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes, which is the size of `info`, any contents of which are valid; the descriptor is
    // borrowed, so it is open.
    let result = unsafe {
        getsockopt(socket.as_fd().as_raw_fd(), IPPROTO_TCP, TCP_INFO, info.as_mut_ptr().cast::<c_void>(), &mut bytes)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let told = bytes as usize == size_of_val(&info);
    Ok(told.then(|| Duration::from_micros(u64::from(info[INFO_WORDS - 1]))))
}

fn set_max_pacing_rate(socket: impl AsFd, bytes_per_s: u64) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as `bytes_per_s` has, and keeps no reference to them; the descriptor is borrowed, so it is open.
    let result = unsafe {
        setsockopt(
            socket.as_fd().as_raw_fd(),
            SOL_SOCKET,
            SO_MAX_PACING_RATE,
            (&raw const bytes_per_s).cast::<c_void>(),
            size_of::<u64>() as socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn max_pacing_rate(socket: &TcpStream) -> u64 {
        let (mut rate, mut bytes) = (0u64, size_of::<u64>() as socklen_t);
        // SAFETY: as above.
        let result = unsafe {
            getsockopt(
                socket.as_fd().as_raw_fd(),
                SOL_SOCKET,
                SO_MAX_PACING_RATE,
                (&raw mut rate).cast::<c_void>(),
                &mut bytes,
            )
        };
        assert_eq!((result, bytes), (0, 8));
        rate
    }

    #[test]
    fn who_is_near_is_not_paced_and_who_is_far_has_no_limit_that_would_be_felt() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let rtt = round_trip(&stream).expect("it is a TCP socket").expect("it has made a handshake");
        assert!(rtt < Duration::from_secs(1), "{rtt:?} on loopback: the wrong word of tcp_info");
        if rtt < FAR {
            pace_if_far(&stream).expect("nothing to do");
            assert_eq!(max_pacing_rate(&stream), u64::MAX, "none");
        }
        set_max_pacing_rate(&stream, UNLIMITED).expect("anybody may");
        assert_eq!(max_pacing_rate(&stream), UNLIMITED);
    }

    #[test]
    fn what_is_no_tcp_socket_is_an_error() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        assert!(pace_if_far(one).is_err());
    }
}
