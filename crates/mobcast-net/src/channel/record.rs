//! Records of TLS 1.3 (RFC 8446 section 5): header, ciphertext of contents and type, tag. No sockets and no buffers of
//! its own: sealing appends to the caller's, opening works inside the caller's.

use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::ConnectionTrafficSecrets;

use super::ChannelError;

/// Type, legacy version, length.
pub const HEADER_BYTES: usize = 5;
/// Contents of a record at most (section 5.1).
pub const CONTENTS_BYTES_MAX: usize = 1 << 14;
/// What the length in a header may say at most (section 5.2).
pub const CIPHERTEXT_BYTES_MAX: usize = CONTENTS_BYTES_MAX + 256;
/// Header, type byte and tag: what a record adds to its contents.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + 1 + TAG_BYTES;
/// A record that is full.
pub const RECORD_BYTES_FULL: usize = CONTENTS_BYTES_MAX + OVERHEAD_BYTES;
/// Records that one key may seal. AES-GCM keeps its promises up to 2^24.5 full records (section 5.5).
pub const RECORDS_PER_KEY_MAX: u64 = 1 << 24;

const TAG_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
const LEGACY_VERSION: [u8; 2] = [3, 3];

/// Content types (section 5.1).
pub mod content {
    pub const ALERT: u8 = 21;
    pub const HANDSHAKE: u8 = 22;
    pub const APPLICATION_DATA: u8 = 23;
}

/// A traffic key with its counter of records.
struct Keys {
    key: LessSafeKey,
    iv: [u8; NONCE_BYTES],
    sequence: u64,
}

impl Keys {
    /// From what rustls extracts: the number of the next record, and the secrets.
    fn new((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Keys, ChannelError> {
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&aead::AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&aead::AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&aead::CHACHA20_POLY1305, key, iv),
            _ => return Err(ChannelError::Misbehaved("a cipher suite that was not offered")),
        };
        let key = UnboundKey::new(algorithm, key.as_ref()).expect("rustls gives keys of the suite's length");
        let iv = iv.as_ref().try_into().expect("TLS 1.3 has nonces of 12 bytes");
        Ok(Keys { key: LessSafeKey::new(key), iv, sequence })
    }

    /// The nonce of the next record (section 5.3). Counting is bound to it, so that none is used twice.
    fn next_nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        for (byte, count) in nonce[NONCE_BYTES - 8..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= count;
        }
        self.sequence = self.sequence.checked_add(1).expect("keys are updated long before");
        Nonce::assume_unique_for_key(nonce)
    }
}

/// Makes records.
pub struct Sealer(Keys);

impl Sealer {
    /// With the sending secrets.
    pub fn new(secrets: (u64, ConnectionTrafficSecrets)) -> Result<Sealer, ChannelError> {
        Keys::new(secrets).map(Sealer)
    }

    /// Records sealed with this key.
    pub fn records(&self) -> u64 {
        self.0.sequence
    }

    /// Appends one record of `contents` to `out`.
    pub fn seal(&mut self, out: &mut Vec<u8>, content_type: u8, contents: &[u8]) {
        assert!(contents.len() <= CONTENTS_BYTES_MAX, "contents of one record");
        let start = open_record(out);
        out.extend_from_slice(contents);
        self.finish(out, start, content_type);
    }

    /// Starts a stream of application data that is packed into full records behind `out`.
    pub fn pack<'a>(&'a mut self, out: &'a mut Vec<u8>) -> Packer<'a> {
        Packer { sealer: self, out, record: None }
    }

    /// Seals what stands in `out` behind a header begun at `start`.
    fn finish(&mut self, out: &mut Vec<u8>, start: usize, content_type: u8) {
        out.extend_from_slice(&[0; 1 + TAG_BYTES]);
        self.seal_record(&mut out[start..], content_type);
    }

    /// Seals a record whose contents are in their place: see [`contents_mut`].
    pub fn seal_record(&mut self, record: &mut [u8], content_type: u8) {
        assert!((OVERHEAD_BYTES..=RECORD_BYTES_FULL).contains(&record.len()), "a record of {} bytes", record.len());
        let (header_space, rest) = record.split_at_mut(HEADER_BYTES);
        let header = header(rest.len() as u16);
        header_space.copy_from_slice(&header);
        let (inner, tag_space) = rest.split_at_mut(rest.len() - TAG_BYTES);
        *inner.last_mut().expect("a record has its type") = content_type;
        let nonce = self.0.next_nonce();
        let tag = self.0.key.seal_in_place_separate_tag(nonce, Aad::from(header), inner);
        tag_space.copy_from_slice(tag.expect("a record is shorter than any limit of the cipher").as_ref());
    }
}

/// Where the contents of a record stand in it.
pub fn contents_mut(record: &mut [u8]) -> &mut [u8] {
    let end = record.len() - (OVERHEAD_BYTES - HEADER_BYTES);
    &mut record[HEADER_BYTES..end]
}

fn header(length: u16) -> [u8; HEADER_BYTES] {
    let [high, low] = length.to_be_bytes();
    [content::APPLICATION_DATA, LEGACY_VERSION[0], LEGACY_VERSION[1], high, low]
}

fn open_record(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&header(0));
    start
}

/// Packs bytes into records; see [`Sealer::pack`].
pub struct Packer<'a> {
    sealer: &'a mut Sealer,
    out: &'a mut Vec<u8>,
    /// Where the record that is being filled begins.
    record: Option<usize>,
}

impl Packer<'_> {
    /// Bytes that wait in the buffer.
    pub fn sealed_bytes(&self) -> usize {
        self.out.len()
    }

    /// Appends `bytes` to the stream. A record is sealed while its contents are still in the processor's cache.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let start = *self.record.get_or_insert_with(|| open_record(self.out));
            let room = CONTENTS_BYTES_MAX - (self.out.len() - start - HEADER_BYTES);
            let (head, tail) = bytes.split_at(room.min(bytes.len()));
            self.out.extend_from_slice(head);
            bytes = tail;
            if head.len() == room {
                self.finish();
            }
        }
    }

    /// Ends the last record.
    pub fn finish(&mut self) {
        if let Some(start) = self.record.take() {
            self.sealer.finish(self.out, start, content::APPLICATION_DATA);
        }
    }
}

/// How long the record is that begins with `header`, its header included.
pub fn record_bytes(header: [u8; HEADER_BYTES]) -> Result<usize, ChannelError> {
    let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if header[0] != content::APPLICATION_DATA {
        return Err(ChannelError::Misbehaved("a record that is not encrypted"));
    }
    if length > CIPHERTEXT_BYTES_MAX {
        return Err(ChannelError::Misbehaved("a record that is too long"));
    }
    Ok(HEADER_BYTES + length)
}

/// Opens records.
pub struct Opener(Keys);

impl Opener {
    /// With the receiving secrets.
    pub fn new(secrets: (u64, ConnectionTrafficSecrets)) -> Result<Opener, ChannelError> {
        Keys::new(secrets).map(Opener)
    }

    /// Opens the ciphertext `space[ciphertext_at..]` and puts the contents at the start of `space`; gives their type
    /// and length.
    pub fn open(
        &mut self,
        header: [u8; HEADER_BYTES],
        space: &mut [u8],
        ciphertext_at: usize,
    ) -> Result<(u8, usize), ChannelError> {
        let nonce = self.0.next_nonce();
        let opened = self.0.key.open_within(nonce, Aad::from(header), space, ciphertext_at..);
        let inner = opened.map_err(|_| ChannelError::Tampered)?;
        // Section 5.4: the type is the last byte that is not zero; zeros behind it are padding.
        let last = inner.iter().rposition(|&byte| byte != 0);
        let at = last.ok_or(ChannelError::Misbehaved("a record without a type"))?;
        if at > CONTENTS_BYTES_MAX {
            return Err(ChannelError::Misbehaved("a record that is too long"));
        }
        Ok((inner[at], at))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rustls::crypto::cipher::{AeadKey, Iv};

    use super::*;

    fn secrets() -> (u64, ConnectionTrafficSecrets) {
        (0, ConnectionTrafficSecrets::Chacha20Poly1305 { key: AeadKey::from([7; 32]), iv: Iv::from([9; 12]) })
    }

    fn open_all(wire: &mut [u8]) -> Result<Vec<u8>, ChannelError> {
        let mut opener = Opener::new(secrets()).unwrap();
        let (mut contents, mut at) = (Vec::new(), 0);
        while at < wire.len() {
            let header = wire[at..at + HEADER_BYTES].try_into().unwrap();
            let end = at + record_bytes(header)?;
            let (kind, len) = opener.open(header, &mut wire[at..end], HEADER_BYTES)?;
            assert_eq!(kind, content::APPLICATION_DATA);
            contents.extend_from_slice(&wire[at..at + len]);
            at = end;
        }
        Ok(contents)
    }

    #[test]
    fn padding_is_taken_off_and_a_record_of_padding_is_refused() {
        let mut sealer = Sealer::new(secrets()).unwrap();
        let mut wire = Vec::new();
        // The type byte of the padded record, its padding, and the sealer's own type byte: zero is padding as well.
        sealer.seal(&mut wire, 0, b"abc\x17\0\0\0");
        assert_eq!(open_all(&mut wire).unwrap(), b"abc");
        let mut wire = Vec::new();
        Sealer::new(secrets()).unwrap().seal(&mut wire, 0, &[0; 10]);
        assert!(matches!(open_all(&mut wire), Err(ChannelError::Misbehaved(_))));
    }

    #[test]
    fn sequence_numbers_are_part_of_the_nonce() {
        let mut keys = Keys::new(secrets()).unwrap();
        keys.sequence = 0x0102;
        let nonce = *keys.next_nonce().as_ref();
        assert_eq!(nonce, [9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 8, 11]);
        assert_eq!(keys.sequence, 0x0103);
    }

    proptest! {
        #[test]
        fn a_packed_stream_opens_to_itself(parts in prop::collection::vec(0usize..40_000, 0..8)) {
            let mut sealer = Sealer::new(secrets()).unwrap();
            let (mut wire, mut stream) = (Vec::new(), Vec::new());
            let mut packer = sealer.pack(&mut wire);
            for (i, len) in parts.into_iter().enumerate() {
                let part = vec![i as u8 + 1; len];
                packer.push(&part);
                stream.extend_from_slice(&part);
            }
            packer.finish();
            prop_assert_eq!(wire.len(), stream.len() + stream.len().div_ceil(CONTENTS_BYTES_MAX) * OVERHEAD_BYTES);
            prop_assert_eq!(open_all(&mut wire).unwrap(), stream);
        }

        #[test]
        fn a_changed_bit_is_noticed(len in 1usize..100, bit in any::<prop::sample::Index>()) {
            let mut wire = Vec::new();
            Sealer::new(secrets()).unwrap().seal(&mut wire, content::APPLICATION_DATA, &vec![1; len]);
            let bit = bit.index((wire.len() - HEADER_BYTES) * 8) + HEADER_BYTES * 8;
            wire[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(open_all(&mut wire).is_err());
        }
    }
}
