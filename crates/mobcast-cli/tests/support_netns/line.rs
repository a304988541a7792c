//! A line between two routers on which each packet takes its time. It needs no queueing discipline of the kernel's:
//! packets leave a router through a TUN device, wait here, and enter the other router through another one.
//!
//! A TUN device takes no offloads unless it is asked to, so packets have the size of the MTU. Each direction has a thread, which
//! sleeps until a packet comes or the oldest one is due. The line has no rate of its own: it carries what the
//! processor can.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The character device from which TUN devices come.
pub const TUN: &str = "/dev/net/tun";

/// The line's device at each router.
pub const DEVICE: &str = "line";

/// The MTU of a TUN device, unless it is changed.
const PACKET_BYTES: usize = 1_500;

/// Packets that a direction holds at most, 300 MB/s at 10 ms; what comes on top is lost, as in a full queue.
const HELD_MAX: usize = 2_048;

/// Packets taken at a time, so that those that are due do not wait for a flood to end.
const TAKEN_MAX: usize = 64;

const TUNSETIFF: Opcode = opcode::write::<c_int>(b'T', 202);

/// Packets without link header (`IFF_TUN`), and without a header of TUN's own (`IFF_NO_PI`).
const FLAGS: u16 = 0x0001 | 0x1000;

/// `struct ifreq` as far as TUNSETIFF reads it, and its full size.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// A line in operation; dropped, it is cut and its devices are gone.
pub struct Line {
    stop: Option<PipeWriter>,
    threads: Vec<JoinHandle<()>>,
}

impl Line {
    /// Lays a line between the routers in these two namespaces. Their devices are down.
    pub fn lay(routers: [&str; 2], one_way: Duration) -> Line {
        let [first, second] = routers.map(|router| Arc::new(device_in(router)));
        let (stopped, stop) = std::io::pipe().expect("a pipe");
        let directions = [(Arc::clone(&first), Arc::clone(&second)), (second, first)];
        let threads = directions.map(|(from, to)| {
            let stopped = stopped.try_clone().expect("a pipe");
            std::thread::spawn(move || carry(&from, &to, one_way, &stopped))
        });
        Line { stop: Some(stop), threads: threads.into() }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // Both directions see the pipe's end.
        self.stop.take();
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the line broke");
        }
    }
}

/// Carries packets from one device to the other until the line is cut.
fn carry(mut from: &File, mut to: &File, one_way: Duration, stopped: &PipeReader) {
    let mut held: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    loop {
        while held.front().is_some_and(|(due, _)| *due <= Instant::now()) {
            let (_, packet) = held.pop_front().expect("there is one");
            // A device that is down or full loses packets, as on any line.
            let _ = to.write(&packet);
        }
        let wait = held.front().map(|(due, _)| due.saturating_duration_since(Instant::now()));
        let wait = wait.map(|wait| Timespec::try_from(wait).expect("short"));
        let mut fds = [PollFd::new(&from, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        match poll(&mut fds, wait.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("waiting for packets: {error}"),
        }
        if !fds[1].revents().is_empty() {
            return;
        }
        for _ in 0..TAKEN_MAX {
            let mut packet = vec![0; PACKET_BYTES];
            match from.read(&mut packet) {
                Ok(n) if held.len() < HELD_MAX => {
                    packet.truncate(n);
                    held.push_back((Instant::now() + one_way, packet));
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("taking packets: {error}"),
            }
        }
    }
}

/// A TUN device in a namespace. It is there as long as the file is open.
fn device_in(namespace: &str) -> File {
    let network = File::open(Path::new("/run/netns").join(namespace)).expect("the namespace");
    // The thread that enters the namespace ends there; the file works from everywhere.
    let thread = std::thread::spawn(move || {
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).expect("root enters");
        device()
    });
    thread.join().expect("a device")
}

fn device() -> File {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(TUN).expect("TUN devices");
    let mut request = InterfaceRequest { name: [0; 16], flags: FLAGS, rest: [0; 22] };
    request.name[..DEVICE.len()].copy_from_slice(DEVICE.as_bytes());
    // SAFETY: TUNSETIFF takes a pointer to a `struct ifreq`, whose size and layout `InterfaceRequest` has; it reads and
    // writes that alone, where all bit patterns are valid, and keeps no pointer. `file` is an open descriptor.
    unsafe { ioctl(&file, Updater::<TUNSETIFF, InterfaceRequest>::new(&mut request)) }.expect("the device is made");
    file
}
