//! TUN devices with offloads: a packet may be up to 64 KiB of one TCP stream, and its checksum is left to whoever needs it.
//! The one file of the lab with `unsafe`.

use std::ffi::c_int;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::ioctl::{IntegerSetter, Opcode, Updater, ioctl, opcode};

/// The character device from which TUN devices come.
pub const TUN: &str = "/dev/net/tun";
/// Prefix, packet.
pub const READ_BYTES_MAX: usize = super::packet::PREFIX_BYTES + 65_535;

const TUNSETIFF: Opcode = opcode::write::<c_int>(b'T', 202);
const TUNSETOFFLOAD: Opcode = opcode::write::<c_int>(b'T', 208);

/// Packets without link header (`IFF_TUN`), without a header of TUN's own (`IFF_NO_PI`), with a `virtio_net_hdr`.
const FLAGS: u16 = 0x0001 | 0x1000 | 0x4000;
/// Checksums and TCP segmentation are left to the reader (`TUN_F_CSUM`, `TUN_F_TSO4`).
const OFFLOADS: usize = 0x01 | 0x02;

/// `struct ifreq` as far as TUNSETIFF reads it, and its full size.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// A device of this name in the network namespace of the calling thread; it is there as long as the file is open.
/// Reads do not block.
pub fn device(name: &str) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(TUN)?;
    let mut request = InterfaceRequest { name: [0; 16], flags: FLAGS, rest: [0; 22] };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: TUNSETIFF takes a pointer to a `struct ifreq`, whose size and layout `InterfaceRequest` has; it reads and
    // writes that alone, where all bit patterns are valid, and keeps no pointer. `file` is an open descriptor.
    unsafe { ioctl(&file, Updater::<TUNSETIFF, InterfaceRequest>::new(&mut request)) }?;
    // SAFETY: TUNSETOFFLOAD takes its argument by value.
    unsafe { ioctl(&file, IntegerSetter::<TUNSETOFFLOAD>::new_usize(OFFLOADS)) }?;
    Ok(file)
}
