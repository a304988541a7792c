//! Generated data for benchmarks and demonstrations: every node can make any byte of it from the seed alone, and it
//! does not compress.

/// A counter in steps of an odd constant, multiplied by itself with some bits changed, both halves of the product laid over each other
/// (wyrand, Wang Yi): that passes the usual tests of randomness, each word is independent of the others, and one multiplication
/// makes eight bytes, so that whoever measures a transfer of such data does not measure its making.
const STEP: u64 = 0xa076_1d64_78bd_642f;
const CHANGE: u64 = 0xe703_7ed1_a0b4_28db;

/// Word `index` (bytes `8 * index` onwards, little-endian) of the data of a seed.
#[inline(always)]
fn word(key: u64, index: u64) -> u64 {
    let counter = key.wrapping_add(index.wrapping_mul(STEP));
    let product = u128::from(counter) * u128::from(counter ^ CHANGE);
    (product >> 64) as u64 ^ product as u64
}

/// Fills `buf` with the bytes of the data of `seed` from byte `offset` on. The same byte comes out however the data
/// is cut into calls.
pub fn synthetic_fill(seed: u64, offset: u64, buf: &mut [u8]) {
    // The key is mixed, so that neighbouring seeds do not give the same words shifted.
    let key = word(!seed, 1);
    let mut index = offset / 8;
    let skip = (offset % 8) as usize;
    let (head, body) = buf.split_at_mut(if skip == 0 { 0 } else { buf.len().min(8 - skip) });
    if !head.is_empty() {
        let len = head.len();
        head.copy_from_slice(&word(key, index).to_le_bytes()[skip..skip + len]);
        index += 1;
    }
    let mut words = body.chunks_exact_mut(8);
    for chunk in &mut words {
        chunk.copy_from_slice(&word(key, index).to_le_bytes());
        index += 1;
    }
    let tail = words.into_remainder();
    let len = tail.len();
    tail.copy_from_slice(&word(key, index).to_le_bytes()[..len]);
}

/// Words compared in a step: several at a time do not wait for each other.
const COMPARED_WORDS: usize = 4;
const COMPARED_BYTES: usize = 8 * COMPARED_WORDS;

/// Whether these are the bytes of the data of `seed` from byte `offset` on.
pub fn is_synthetic(seed: u64, offset: u64, data: &[u8]) -> bool {
    let key = word(!seed, 1);
    let to_word = (offset.next_multiple_of(8) - offset) as usize;
    let (head, body) = data.split_at(to_word.min(data.len()));
    let (mut index, mut differences) = (offset.div_ceil(8), [0; COMPARED_WORDS]);
    let mut steps = body.chunks_exact(COMPARED_BYTES);
    for step in &mut steps {
        for (at, difference) in differences.iter_mut().enumerate() {
            let found = u64::from_le_bytes(step[8 * at..8 * at + 8].try_into().expect("eight bytes"));
            *difference |= found ^ word(key, index + at as u64);
        }
        index += COMPARED_WORDS as u64;
    }
    let tail = steps.remainder();
    let ends = [(offset, head), (offset + (data.len() - tail.len()) as u64, tail)];
    differences == [0; COMPARED_WORDS]
        && ends.into_iter().all(|(at, end)| {
            let mut expected = [0; COMPARED_BYTES];
            synthetic_fill(seed, at, &mut expected[..end.len()]);
            expected[..end.len()] == *end
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_range_has_the_bytes_of_the_whole() {
        let mut whole = vec![0; 1000];
        synthetic_fill(7, 0, &mut whole);
        for start in 0..40 {
            for len in 0..40 {
                let mut part = vec![0; len];
                synthetic_fill(7, start as u64, &mut part);
                assert_eq!(part, whole[start..start + len]);
            }
        }
    }

    #[test]
    fn any_byte_that_is_another_is_noticed() {
        let mut whole = vec![0; 100];
        synthetic_fill(7, 0, &mut whole);
        for (start, end) in (0..20).flat_map(|start| (start..60).map(move |end| (start, end))) {
            assert!(is_synthetic(7, start as u64, &whole[start..end]));
            assert!(start == end || !is_synthetic(8, start as u64, &whole[start..end]), "another seed");
            for at in start..end {
                whole[at] ^= 1;
                assert!(!is_synthetic(7, start as u64, &whole[start..end]), "{at} of {start}..{end}");
                whole[at] ^= 1;
            }
        }
    }

    #[test]
    fn seeds_differ_and_bytes_are_evenly_spread() {
        let (mut a, mut b) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        synthetic_fill(1, 0, &mut a);
        synthetic_fill(2, 0, &mut b);
        let same = a.iter().zip(&b).filter(|(x, y)| x == y).count();
        assert!(same < 512, "{same} of 65,536 bytes equal; 256 are expected by chance");
        let mut counts = [0u32; 256];
        a.iter().for_each(|&byte| counts[usize::from(byte)] += 1);
        assert!(counts.iter().all(|&count| (150..=370).contains(&count)), "each byte value comes 256 times");
    }
}
