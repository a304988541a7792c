//! Options of sockets that no library names.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libc::{c_void, setsockopt, socklen_t};

/// A plain number, as options of sockets are.
pub(super) trait Number: Copy {}
impl Number for c_int {}
impl Number for u64 {}

/// Sets one option of a socket. Errors are the kernel's.
pub(super) fn set<T: Number>(socket: impl AsFd, level: c_int, name: c_int, value: T) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as `value` has, all of them initialized, and keeps no reference to them; the descriptor is
    // borrowed, so it is open.
    let result = unsafe {
        setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast::<c_void>(),
            size_of::<T>() as socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
