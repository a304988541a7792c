//! IPv4 packets as a TUN device with offloads hands them over: up to 64 KiB of one TCP stream under one header, to be cut
//! into packets where a link is slow. Promises that what is cut carries the headers that the kernel's own segmentation
//! would give it; leaves to others which pieces travel and when.

use std::ops::Range;
use std::rc::Rc;

/// Bytes of a `virtio_net_hdr`, which precedes each packet.
pub const PREFIX_BYTES: usize = 10;
/// IPv4 and TCP headers with all options.
const HEADERS_MAX: usize = 60 + 60;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
/// With explicit congestion notification: a flag beside the type.
const GSO_ECN: u8 = 0x80;

const TCP: u8 = 6;
const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
const FLAG_FIN: u8 = 0x01;
const FLAG_PSH: u8 = 0x08;
const FLAG_CWR: u8 = 0x80;

/// A TCP connection in one direction: addresses, ports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StreamKey {
    addresses: [u8; 8],
    ports: [u8; 4],
}

/// What the transport header of a packet says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transport {
    Tcp {
        sequence: u32,
        headers: usize,
    },
    Udp {
        headers: usize,
    },
    /// Anything else, parts of packets among it.
    Other,
}

/// A packet, or many in one, as read from a device.
#[derive(Clone, Debug)]
pub struct Packet {
    /// `virtio_net_hdr` and IP packet.
    bytes: Rc<[u8]>,
    transport: Transport,
    /// TCP payload bytes of one packet when this is many, else 0.
    segment_bytes: usize,
}

/// A part of a [`Packet`] that travels as one: one or several packets of at most the MTU.
#[derive(Clone, Debug)]
pub struct Segment {
    packet: Packet,
    /// Of the packet's payload; the whole packet if it is not many.
    payload: Range<usize>,
}

impl Packet {
    /// Takes what was read from a device. None if it is no IPv4 packet.
    pub fn parse(bytes: &[u8]) -> Option<Packet> {
        let ip = bytes.get(PREFIX_BYTES..)?;
        if ip.len() < 20 || ip[0] >> 4 != 4 {
            return None;
        }
        let ip_header = usize::from(ip[0] & 0x0f) * 4;
        let fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff != 0;
        let transport = match ip[9] {
            TCP if !fragment && ip.len() >= ip_header + 20 => {
                let tcp = &ip[ip_header..];
                let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
                Transport::Tcp { sequence, headers: ip_header + usize::from(tcp[12] >> 4) * 4 }
            }
            UDP if !fragment => Transport::Udp { headers: ip_header + UDP_HEADER },
            _ => Transport::Other,
        };
        let many = bytes[1] & !GSO_ECN == GSO_TCPV4 && matches!(transport, Transport::Tcp { .. });
        let segment_bytes = if many { usize::from(u16::from_ne_bytes([bytes[4], bytes[5]])) } else { 0 };
        if let Transport::Tcp { headers, .. } = transport
            && headers > ip.len().min(HEADERS_MAX)
        {
            return None;
        }
        Some(Packet { bytes: bytes.into(), transport, segment_bytes })
    }

    /// Sender's and receiver's address.
    pub fn addresses(&self) -> [[u8; 4]; 2] {
        let ip = self.ip();
        [[ip[12], ip[13], ip[14], ip[15]], [ip[16], ip[17], ip[18], ip[19]]]
    }

    /// Packets of at most the MTU in this one.
    pub fn count(&self) -> usize {
        if self.segment_bytes == 0 { 1 } else { self.payload_bytes().div_ceil(self.segment_bytes).max(1) }
    }

    /// The part from one packet to another.
    pub fn segment(&self, packets: Range<usize>) -> Segment {
        let payload = if self.segment_bytes == 0 {
            0..self.payload_bytes()
        } else {
            packets.start * self.segment_bytes..(packets.end * self.segment_bytes).min(self.payload_bytes())
        };
        Segment { packet: self.clone(), payload }
    }

    fn ip(&self) -> &[u8] {
        &self.bytes[PREFIX_BYTES..]
    }

    fn header_bytes(&self) -> usize {
        match self.transport {
            Transport::Tcp { headers, .. } | Transport::Udp { headers } => headers.min(self.ip().len()),
            Transport::Other => self.ip().len(),
        }
    }

    fn payload_bytes(&self) -> usize {
        self.ip().len() - self.header_bytes()
    }
}

impl Segment {
    /// Packets of at most the MTU.
    pub fn packets(&self) -> u64 {
        if self.packet.segment_bytes == 0 {
            1
        } else {
            self.payload.len().div_ceil(self.packet.segment_bytes).max(1) as u64
        }
    }

    /// IP bytes on the wire, with a header for each packet.
    pub fn wire_bytes(&self) -> u64 {
        self.packets() * self.packet.header_bytes() as u64 + self.payload.len() as u64
    }

    /// The TCP stream that it is of, and the sequence numbers of its payload.
    pub fn stream(&self) -> Option<(StreamKey, u32, u32)> {
        let Transport::Tcp { sequence, .. } = self.packet.transport else { return None };
        let ip = self.packet.ip();
        let transport = usize::from(ip[0] & 0x0f) * 4;
        let mut key = StreamKey { addresses: [0; 8], ports: [0; 4] };
        key.addresses.copy_from_slice(&ip[12..20]);
        key.ports.copy_from_slice(&ip[transport..transport + 4]);
        Some((key, sequence.wrapping_add(self.payload.start as u32), self.payload.len() as u32))
    }

    /// Bytes of UDP data.
    pub fn datagram_bytes(&self) -> u64 {
        match self.packet.transport {
            Transport::Udp { .. } => self.payload.len() as u64,
            _ => 0,
        }
    }

    /// Puts `virtio_net_hdr` and headers into `head` and returns the payload that follows them.
    pub fn write<'a>(&'a self, head: &mut Vec<u8>) -> &'a [u8] {
        head.clear();
        let header_bytes = self.packet.header_bytes();
        let whole = self.payload.len() == self.packet.payload_bytes();
        head.extend_from_slice(&self.packet.bytes[..PREFIX_BYTES + header_bytes]);
        if !whole {
            self.rewrite(head, header_bytes);
        }
        &self.packet.ip()[header_bytes..][self.payload.clone()]
    }

    /// Gives the headers of the whole those of this part.
    fn rewrite(&self, head: &mut [u8], header_bytes: usize) {
        let Packet { segment_bytes, .. } = self.packet;
        let (prefix, headers) = head.split_at_mut(PREFIX_BYTES);
        let one = self.payload.len() <= segment_bytes;
        if one {
            prefix[1] = GSO_NONE;
            prefix[4..6].copy_from_slice(&0u16.to_ne_bytes());
        }
        prefix[0] |= NEEDS_CHECKSUM;
        let (ip, tcp) = headers.split_at_mut(usize::from(headers[0] & 0x0f) * 4);
        let length = (header_bytes + self.payload.len()) as u16;
        ip[2..4].copy_from_slice(&length.to_be_bytes());
        let index = self.payload.start.checked_div(segment_bytes).unwrap_or(0);
        let identification = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(index as u16);
        ip[4..6].copy_from_slice(&identification.to_be_bytes());
        ip[10..12].fill(0);
        let checksum = !sum(ip);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add(self.payload.start as u32);
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        if self.payload.end < self.packet.payload_bytes() {
            tcp[13] &= !(FLAG_FIN | FLAG_PSH);
        }
        if self.payload.start > 0 {
            tcp[13] &= !FLAG_CWR;
        }
        // Who needs the checksum completes it from the sum of the pseudo header (RFC 9293, 3.1).
        let mut pseudo = [0; 12];
        pseudo[..8].copy_from_slice(&ip[12..20]);
        pseudo[9] = TCP;
        pseudo[10..].copy_from_slice(&(length - ip.len() as u16).to_be_bytes());
        tcp[16..18].copy_from_slice(&sum(&pseudo).to_be_bytes());
    }
}

/// Ones' complement sum of 16-bit words (RFC 1071).
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w.get(1).copied().unwrap_or(0)])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A TCP packet from 10.100.`from`.1 to 10.100.`to`.1, as a device would hand it over.
    pub fn tcp(from: u8, to: u8, sequence: u32, payload: usize, segment: u16) -> Vec<u8> {
        let mut bytes = vec![0; PREFIX_BYTES + 52 + payload];
        if segment > 0 {
            bytes[1] = GSO_TCPV4;
            bytes[4..6].copy_from_slice(&segment.to_ne_bytes());
        }
        bytes[0] = NEEDS_CHECKSUM;
        let ip = &mut bytes[PREFIX_BYTES..];
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&((52 + payload) as u16).to_be_bytes());
        ip[9] = TCP;
        ip[12..20].copy_from_slice(&[10, 100, from, 1, 10, 100, to, 1]);
        ip[20..24].copy_from_slice(&[0x10, 0, 0x20, 0]);
        ip[24..28].copy_from_slice(&sequence.to_be_bytes());
        ip[32] = 8 << 4;
        ip[33] = FLAG_PSH | 0x10;
        for (i, byte) in ip[52..].iter_mut().enumerate() {
            *byte = i as u8;
        }
        bytes
    }

    #[test]
    fn a_whole_packet_leaves_as_it_came() {
        let bytes = tcp(1, 2, 7, 100, 0);
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!((packet.count(), packet.addresses()), (1, [[10, 100, 1, 1], [10, 100, 2, 1]]));
        let segment = packet.segment(0..1);
        let mut head = Vec::new();
        let payload = segment.write(&mut head).to_vec();
        assert_eq!([head, payload].concat(), bytes);
        assert_eq!(segment.wire_bytes(), 152);
    }

    #[test]
    fn parts_of_a_large_packet_are_packets_of_their_own() {
        let packet = Packet::parse(&tcp(1, 2, u32::MAX - 999, 3_500, 1_000)).unwrap();
        assert_eq!(packet.count(), 4);
        let whole = packet.segment(0..4);
        assert_eq!((whole.packets(), whole.wire_bytes()), (4, 4 * 52 + 3_500));
        let last = packet.segment(3..4);
        let (_, sequence, bytes) = last.stream().unwrap();
        assert_eq!((sequence, bytes), (2_000, 500), "sequence numbers wrap");
        let mut head = Vec::new();
        let middle = packet.segment(1..3);
        assert_eq!(middle.write(&mut head), &packet.bytes[PREFIX_BYTES + 52 + 1_000..][..2_000]);
        let ip = &head[PREFIX_BYTES..];
        assert_eq!(u16::from_be_bytes([ip[2], ip[3]]), 2_052);
        assert_eq!(u32::from_be_bytes([ip[24], ip[25], ip[26], ip[27]]), 0);
        assert_eq!(sum(&ip[..20]), 0xffff, "the header's checksum is right");
        assert_eq!((ip[33] & FLAG_PSH, head[1]), (0, GSO_TCPV4), "two packets in one, and not the last");
        last.write(&mut head);
        assert_eq!((head[PREFIX_BYTES + 33] & FLAG_PSH, head[1]), (FLAG_PSH, GSO_NONE));
    }

    #[test]
    fn what_is_no_whole_packet_is_refused_or_opaque() {
        assert!(Packet::parse(&[0; 12]).is_none());
        let mut six = tcp(1, 2, 0, 10, 0);
        six[PREFIX_BYTES] = 0x60;
        assert!(Packet::parse(&six).is_none());
        let mut fragment = tcp(1, 2, 0, 10, 0);
        fragment[PREFIX_BYTES + 6] = 0x20;
        let fragment = Packet::parse(&fragment).unwrap().segment(0..1);
        assert_eq!((fragment.stream(), fragment.wire_bytes()), (None, 62));
        let mut long = tcp(1, 2, 0, 0, 0);
        long[PREFIX_BYTES + 32] = 15 << 4;
        assert!(Packet::parse(&long).is_none(), "a header that is longer than its packet");
    }
}
