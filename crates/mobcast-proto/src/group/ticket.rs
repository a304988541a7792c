//! The ticket: what a person carries from `mobcast send` to `mobcast recv`. It holds where the group is, the secret
//! that admits a joiner, and the public key by which the joiner knows the group's authority.
//!
//! Text form: `mob1`, then base64url without padding of the body and a check sum. The digit after `mob` is the version
//! of the body, so that a ticket of another version is recognised before anything of it is decoded:
//!
//! | bytes | what |
//! |---|---|
//! | 16 | group |
//! | 32 | secret |
//! | 32 | public key of the authority (Ed25519) |
//! | 8 | expiry, seconds since 1970, big-endian |
//! | 1 | number of addresses, 1 to 8 |
//! | 7 or 19 each | `4` or `6` as a byte, the IP address, the port (big-endian) |
//! | 4 | first bytes of the BLAKE3 hash of everything above |
//!
//! Decoding is total and strict: one text per ticket. White space is ignored, because terminals and mails wrap lines.
//! Whoever prints a ticket prints a secret; [`std::fmt::Debug`] leaves the secret out.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use crate::limits::ADDRESSES_MAX;
use crate::units::{GroupId, PublicKey};
use crate::wire::codec::{DecodeError, Reader, Writer};

const PREFIX: &str = "mob";
const VERSION: u32 = 1;
const CHECK_BYTES: usize = 4;
/// Group, secret, key, expiry, count, and every address of the longest form.
const BODY_BYTES_MAX: usize = 16 + 32 + 32 + 8 + 1 + ADDRESSES_MAX * 19;
/// Four characters for three bytes, rounded up.
const TEXT_CHARS_MAX: usize = (BODY_BYTES_MAX + CHECK_BYTES).div_ceil(3) * 4;

/// Admission to a group.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Where the coordinator listens, best first; one to [`ADDRESSES_MAX`]. Only IP address and port are kept.
    pub addresses: Vec<SocketAddr>,
    /// The group.
    pub group: GroupId,
    /// Yields the bootstrap certificate, which is good for joining and nothing else.
    pub secret: [u8; 32],
    /// Seconds since 1970 after which nobody is admitted with it.
    pub expires_unix_s: u64,
    /// The key by which the group's authority signs the certificates of its members.
    pub authority: PublicKey,
}

/// Why a text is not a ticket that can be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TicketError {
    /// The text does not begin like a ticket.
    #[error("this is not a ticket: a ticket begins with \"mob1\"; copy the line that `mobcast send` printed")]
    NotATicket,
    /// The ticket is for another version of mobcast.
    #[error(
        "this ticket has version {found}, and this program reads version {VERSION}: use the same mobcast at both ends"
    )]
    OtherVersion {
        /// The version that the ticket names.
        found: u32,
    },
    /// A character that no ticket has.
    #[error("the ticket has a character that no ticket has ({found:?}): copy it again, without anything around it")]
    Character {
        /// The first such character.
        found: char,
    },
    /// The check sum is wrong: characters are missing or changed.
    #[error("the ticket is incomplete or damaged ({chars} characters): copy it again, to its very end")]
    Damaged {
        /// Characters after the prefix, white space left out.
        chars: usize,
    },
    /// The check sum is right and the contents are not: made by a faulty program.
    #[error("the ticket was made wrongly ({0}): ask for another one")]
    Malformed(#[from] DecodeError),
}

impl Ticket {
    /// Whether the ticket admits nobody any more at `now_unix_s`.
    pub fn is_expired(&self, now_unix_s: u64) -> bool {
        now_unix_s >= self.expires_unix_s
    }

    fn encode(&self) -> Vec<u8> {
        assert!((1..=ADDRESSES_MAX).contains(&self.addresses.len()), "a ticket has one to {ADDRESSES_MAX} addresses");
        let mut body = Writer::new();
        body.raw(&self.group.0).raw(&self.secret).raw(&self.authority.0).u64(self.expires_unix_s);
        body.u8(self.addresses.len() as u8);
        for address in &self.addresses {
            match address.ip() {
                IpAddr::V4(ip) => body.u8(4).raw(&ip.octets()),
                IpAddr::V6(ip) => body.u8(6).raw(&ip.octets()),
            };
            body.u16(address.port());
        }
        body.into_bytes()
    }

    fn decode(body: &[u8]) -> Result<Ticket, DecodeError> {
        let mut reader = Reader::new(body);
        let group = reader.group()?;
        let secret = reader.array()?;
        let authority = reader.public_key()?;
        let expires_unix_s = reader.u64()?;
        let addresses = (0..address_count(&mut reader)?).map(|_| address(&mut reader)).collect::<Result<_, _>>()?;
        reader.end()?;
        Ok(Ticket { addresses, group, secret, expires_unix_s, authority })
    }
}

fn address_count(reader: &mut Reader<'_>) -> Result<u8, DecodeError> {
    match reader.u8()? {
        0 => Err(DecodeError::Malformed("ticket without an address")),
        count if usize::from(count) > ADDRESSES_MAX => {
            Err(DecodeError::Limit { what: "number of addresses", value: count.into(), limit: ADDRESSES_MAX as u64 })
        }
        count => Ok(count),
    }
}

fn address(reader: &mut Reader<'_>) -> Result<SocketAddr, DecodeError> {
    let ip = match reader.u8()? {
        4 => IpAddr::V4(Ipv4Addr::from(reader.array::<4>()?)),
        6 => IpAddr::V6(Ipv6Addr::from(reader.array::<16>()?)),
        value => return Err(DecodeError::Unknown { what: "address family", value: value.into() }),
    };
    Ok(SocketAddr::new(ip, reader.u16()?))
}

fn check_sum(body: &[u8]) -> [u8; CHECK_BYTES] {
    let hash = blake3::hash(body);
    let mut sum = [0; CHECK_BYTES];
    sum.copy_from_slice(&hash.as_bytes()[..CHECK_BYTES]);
    sum
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.encode();
        let sum = check_sum(&bytes);
        bytes.extend_from_slice(&sum);
        write!(f, "{PREFIX}{VERSION}{}", base64url::encode(&bytes))
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("addresses", &self.addresses)
            .field("group", &self.group)
            .field("expires_unix_s", &self.expires_unix_s)
            .field("authority", &self.authority)
            .finish_non_exhaustive()
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    fn from_str(text: &str) -> Result<Ticket, TicketError> {
        let mut chars = text.chars().filter(|c| !c.is_whitespace());
        if !PREFIX.chars().all(|expected| chars.next() == Some(expected)) {
            return Err(TicketError::NotATicket);
        }
        let version = chars.next().and_then(|c| c.to_digit(10)).ok_or(TicketError::NotATicket)?;
        if version != VERSION {
            return Err(TicketError::OtherVersion { found: version });
        }
        let encoded: String = chars.by_ref().take(TEXT_CHARS_MAX).collect();
        let length = encoded.len() + chars.count();
        if let Some(found) = encoded.chars().find(|&c| !base64url::is_digit(c)) {
            return Err(TicketError::Character { found });
        }
        let damaged = TicketError::Damaged { chars: length };
        if length > encoded.len() {
            return Err(damaged);
        }
        let bytes = base64url::decode(&encoded).ok_or(damaged.clone())?;
        let body_bytes = bytes.len().checked_sub(CHECK_BYTES).ok_or(damaged.clone())?;
        let (body, sum) = bytes.split_at(body_bytes);
        if sum != check_sum(body) {
            return Err(damaged);
        }
        Ok(Ticket::decode(body)?)
    }
}

/// RFC 4648 section 5, without padding.
mod base64url {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    pub fn encode(bytes: &[u8]) -> String {
        let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
        for group in bytes.chunks(3) {
            let bits = group.iter().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - group.len()));
            for digit in 0..=group.len() {
                text.push(char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63]));
            }
        }
        text
    }

    pub fn is_digit(c: char) -> bool {
        value(c).is_some()
    }

    fn value(c: char) -> Option<u32> {
        DIGITS.iter().position(|&digit| char::from(digit) == c).map(|at| at as u32)
    }

    /// Nothing for a text that `encode` never makes.
    pub fn decode(text: &str) -> Option<Vec<u8>> {
        let values = text.chars().map(value).collect::<Option<Vec<u32>>>()?;
        let mut bytes = Vec::with_capacity(values.len() / 4 * 3 + 2);
        for group in values.chunks(4) {
            let bits = group.iter().fold(0u32, |bits, &value| bits << 6 | value) << (6 * (4 - group.len()));
            let count = group.len() - 1;
            // One digit holds no byte, and bits beyond the last byte would give two texts for the same bytes.
            if count == 0 || bits & (0xff_ffff >> (8 * count)) != 0 {
                return None;
            }
            bytes.extend_from_slice(&bits.to_be_bytes()[1..=count]);
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example() -> Ticket {
        Ticket {
            addresses: vec!["192.0.2.7:7070".parse().unwrap(), "[2001:db8::1]:7070".parse().unwrap()],
            group: GroupId([0x11; 16]),
            secret: [0x22; 32],
            expires_unix_s: 1_900_000_000,
            authority: PublicKey([0x33; 32]),
        }
    }

    fn any_ticket() -> impl Strategy<Value = Ticket> {
        let address = (any::<IpAddr>(), any::<u16>()).prop_map(|(ip, port)| SocketAddr::new(ip, port));
        let addresses = prop::collection::vec(address, 1..=ADDRESSES_MAX);
        (addresses, any::<[u8; 16]>(), any::<[u8; 32]>(), any::<u64>(), any::<[u8; 32]>()).prop_map(
            |(addresses, group, secret, expires_unix_s, authority)| Ticket {
                addresses,
                group: GroupId(group),
                secret,
                expires_unix_s,
                authority: PublicKey(authority),
            },
        )
    }

    /// The text of a body that is not a ticket's, with the right check sum.
    fn sealed(body: &[u8]) -> String {
        let bytes = [body, &check_sum(body)[..]].concat();
        format!("mob1{}", base64url::encode(&bytes))
    }

    #[test]
    fn the_text_is_the_documented_one() {
        expect_test::expect!["mob1ERERERERERERERERERERESIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiIiMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMAAAAAcT-zAAIEwAACBxueBiABDbgAAAAAAAAAAAAAAAEbnkMip3w"]
        .assert_eq(&example().to_string());
    }

    #[test]
    fn a_ticket_broken_into_lines_is_read() {
        let text = example().to_string();
        let wrapped = format!("  {}\r\n   {}\n", &text[..60], &text[60..]);
        assert_eq!(wrapped.parse(), Ok(example()));
    }

    #[test]
    fn the_debug_form_keeps_the_secret() {
        let mut ticket = example();
        ticket.secret = [0xab; 32];
        let debug = format!("{ticket:?}");
        assert!(!debug.contains("171") && !debug.contains("abab"), "{debug}");
    }

    #[test]
    fn each_mistake_has_its_name() {
        let text = example().to_string();
        assert_eq!("hello".parse::<Ticket>(), Err(TicketError::NotATicket));
        assert_eq!("".parse::<Ticket>(), Err(TicketError::NotATicket));
        assert_eq!(text.replace("mob1", "mob2").parse::<Ticket>(), Err(TicketError::OtherVersion { found: 2 }));
        assert_eq!(format!("{text}.").parse::<Ticket>(), Err(TicketError::Character { found: '.' }));
        let cut = text.len() - 4 - 7;
        assert_eq!(text[..text.len() - 7].parse::<Ticket>(), Err(TicketError::Damaged { chars: cut }));
        assert_eq!("mob1".parse::<Ticket>(), Err(TicketError::Damaged { chars: 0 }));
        assert!(matches!("mob1".repeat(1000).parse::<Ticket>(), Err(TicketError::Damaged { .. })));
        let mut nowhere = example().encode();
        nowhere.truncate(88);
        nowhere.push(0);
        assert!(matches!(sealed(&nowhere).parse::<Ticket>(), Err(TicketError::Malformed(_))));
    }

    #[test]
    fn the_messages_say_what_to_do() {
        expect_test::expect!["the ticket is incomplete or damaged (12 characters): copy it again, to its very end"]
            .assert_eq(&TicketError::Damaged { chars: 12 }.to_string());
    }

    proptest! {
        #[test]
        fn every_ticket_survives_the_text(ticket in any_ticket()) {
            prop_assert_eq!(ticket.to_string().parse::<Ticket>(), Ok(ticket));
        }

        #[test]
        fn any_changed_character_is_noticed(ticket in any_ticket(), at in any::<prop::sample::Index>(), to in "[A-Za-z0-9_-]") {
            let text = ticket.to_string();
            let at = 4 + at.index(text.len() - 4);
            let changed = format!("{}{to}{}", &text[..at], &text[at + 1..]);
            prop_assume!(changed != text);
            prop_assert!(changed.parse::<Ticket>().is_err());
        }

        #[test]
        fn every_text_is_a_ticket_or_an_error(text in "\\PC*", digits in "[A-Za-z0-9_-]{0,400}") {
            let _ = text.parse::<Ticket>();
            let _ = format!("mob1{digits}").parse::<Ticket>();
        }

        #[test]
        fn every_body_is_a_ticket_of_one_text_or_an_error(body in prop::collection::vec(any::<u8>(), 0..300)) {
            let text = sealed(&body);
            if let Ok(ticket) = text.parse::<Ticket>() {
                prop_assert_eq!(ticket.to_string(), text);
            }
        }
    }
}
