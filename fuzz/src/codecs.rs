//! Decoders of what comes from outside: frames, payload headers, tickets. Whatever is decoded is encoded again and must
//! be the same, so that two nodes never see different things in the same bytes, and nobody signs one thing and
//! forwards another.

use mobcast_proto::content::slots::SlotSet;
use mobcast_proto::group::report::Report;
use mobcast_proto::group::ticket::Ticket;
use mobcast_proto::limits::{CHUNK_BYTES_MAX, FRAME_BYTES_MAX, PIECE_SIZE_MAX};
use mobcast_proto::strategy::message::StrategyMessage;
use mobcast_proto::wire::{Frame, PROTOCOL_VERSION, PayloadHeader};

/// Any bytes as a frame.
pub fn frame(data: &[u8]) {
    let Ok(frame) = Frame::decode(data) else { return };
    let encoded = frame.encode();
    assert!(encoded.len() <= FRAME_BYTES_MAX, "a frame of {} bytes", encoded.len());
    if has_one_form(&frame) {
        assert_eq!(encoded, data, "another form of the same frame: {frame:?}");
    }
    if !matches!(&frame, Frame::Hello(hello) if hello.version != PROTOCOL_VERSION) {
        assert_eq!(Frame::decode(&encoded), Ok(frame), "a frame changes on its way");
    }
}

/// All frames have one form, except the greeting of another version, of which only the version is read, and those with
/// slots: none and all may also be written in full.
fn has_one_form(frame: &Frame) -> bool {
    let plain = |slots: &SlotSet| ![SlotSet::none(), SlotSet::all()].contains(slots);
    match frame {
        Frame::Hello(hello) => hello.version == PROTOCOL_VERSION,
        Frame::Assign { assignment, .. } => plain(&assignment.slots),
        Frame::Reports { reports } => reports.iter().all(|signed| match &signed.report {
            Report::Standing(standing) => plain(&standing.assignment.slots),
            _ => true,
        }),
        Frame::Strategy { message: StrategyMessage::Interest { slots, .. }, .. }
        | Frame::Strategy { message: StrategyMessage::Share { slots }, .. } => plain(slots),
        _ => true,
    }
}

/// Any bytes as the header of payload.
pub fn payload_header(data: &[u8]) {
    let Ok(header) = PayloadHeader::decode(data) else { return };
    assert_eq!(header.encode(), data, "another form of the same header");
    assert!((1..=CHUNK_BYTES_MAX).contains(&header.range.len()) && header.range.end <= PIECE_SIZE_MAX);
}

/// Any text as a ticket; and any bytes as the body of one, with the right check sum.
pub fn ticket(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(ticket) = text.parse::<Ticket>()
    {
        let packed: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        assert_eq!(ticket.to_string(), packed, "two texts for one ticket");
    }
    let sealed = sealed_ticket(data);
    if let Ok(ticket) = sealed.parse::<Ticket>() {
        assert_eq!(ticket.to_string(), sealed, "two texts for one ticket");
        assert!((1..=8).contains(&ticket.addresses.len()));
    }
}

/// The text of a ticket with this body, as documented in `mobcast_proto::group::ticket`.
fn sealed_ticket(body: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bytes = [body, &blake3::hash(body).as_bytes()[..4]].concat();
    let mut text = String::from("mob1");
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        (0..=group.len()).for_each(|i| text.push(char::from(DIGITS[(bits >> (18 - 6 * i)) as usize & 63])));
    }
    text
}
