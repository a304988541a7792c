//! The proof that a broadcast is its root's: the description of the object with the signatures that bind it to the
//! root and the root to the group. And a whole object of one piece with its proof, for those that travel in one frame.

use std::sync::Arc;

use crate::content::hashed::HashedObject;
use crate::content::manifest::Batch;
use crate::content::object::Descriptor;
use crate::group::assignment::Credential;
use crate::units::{BroadcastId, ClusterId, Signature};
use crate::wire::codec::{DecodeError, Reader, Writer};

/// Largest object that travels in one frame, bytes: a control frame less descriptor, credential and signatures.
pub const WHOLE_BYTES_MAX: u64 = 64 << 10;

/// What the root says of its object, and why it may be believed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Announcement {
    /// The root's cluster.
    pub cluster: ClusterId,
    /// What is broadcast.
    pub descriptor: Descriptor,
    /// The root's credential.
    pub credential: Credential,
    /// The authority's signature over the credential.
    pub credential_signature: Signature,
    /// The root's signature over broadcast, cluster and descriptor.
    pub signature: Signature,
}

/// An object of at most one piece: announcement, manifest and data together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Whole {
    /// The announcement.
    pub announcement: Announcement,
    /// The only batch of the manifest.
    pub batch: Batch,
    /// The root's signature over the batch.
    pub batch_signature: Signature,
    /// The object.
    pub data: Arc<[u8]>,
}

impl Announcement {
    /// What the root signs.
    pub fn body(&self, broadcast: BroadcastId) -> Vec<u8> {
        let mut w = Writer::new();
        w.broadcast(broadcast).cluster(self.cluster);
        self.descriptor.write(&mut w);
        w.into_bytes()
    }

    /// Writes the announcement.
    pub fn write(&self, w: &mut Writer) {
        w.cluster(self.cluster);
        self.descriptor.write(w);
        self.credential.write(w);
        w.raw(&self.credential_signature.0).raw(&self.signature.0);
    }

    /// Reads what [`Announcement::write`] wrote.
    pub fn read(r: &mut Reader<'_>) -> Result<Announcement, DecodeError> {
        Ok(Announcement {
            cluster: r.cluster()?,
            descriptor: Descriptor::read(r)?,
            credential: Credential::read(r)?,
            credential_signature: r.signature()?,
            signature: r.signature()?,
        })
    }
}

impl Whole {
    /// The data, if it is what its batch says. The batch's signature is the caller's business.
    pub fn intact(&self) -> Option<HashedObject> {
        let object = HashedObject::of(Arc::clone(&self.data));
        let length = self.batch.end.map(|end| end.length);
        let is_intact = length == Some(self.data.len() as u64) && object.piece().as_slice() == &*self.batch.hashes;
        is_intact.then_some(object)
    }

    /// Writes the object with its proof.
    pub fn write(&self, w: &mut Writer) {
        self.announcement.write(w);
        self.batch.write(w);
        w.raw(&self.batch_signature.0).bytes(&self.data);
    }

    /// Reads what [`Whole::write`] wrote.
    pub fn read(r: &mut Reader<'_>) -> Result<Whole, DecodeError> {
        Ok(Whole {
            announcement: Announcement::read(r)?,
            batch: Batch::read(r)?,
            batch_signature: r.signature()?,
            data: r.bytes("object of one piece", WHOLE_BYTES_MAX as usize)?.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::manifest::End;
    use crate::content::manifest::tests::descriptor;
    use crate::units::{Digest, PieceIndex};

    fn whole(data: &[u8], signed: &[u8]) -> Whole {
        let hashes: Vec<Digest> = HashedObject::of(signed.into()).piece().into_iter().collect();
        Whole {
            announcement: Announcement {
                cluster: ClusterId(0),
                descriptor: descriptor(signed.len() as u64, 16 << 10),
                credential: Credential::default(),
                credential_signature: Signature::default(),
                signature: Signature::default(),
            },
            batch: Batch {
                broadcast: BroadcastId::default(),
                piece_size: 16 << 10,
                first: PieceIndex(0),
                previous: Digest::default(),
                hashes: hashes.into(),
                end: Some(End { length: signed.len() as u64, object_hash: Digest::default() }),
            },
            batch_signature: Signature::default(),
            data: data.into(),
        }
    }

    #[test]
    fn only_the_data_that_was_signed_is_intact() {
        assert!(whole(b"weights", b"weights").intact().is_some());
        assert!(whole(b"", b"").intact().is_some());
        assert!(whole(b"Weights", b"weights").intact().is_none());
        assert!(whole(b"weight", b"weights").intact().is_none());
        assert!(whole(b"", b"weights").intact().is_none());
        assert!(whole(b"weights", b"").intact().is_none());
    }
}
