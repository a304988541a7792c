//! Choosing one piece among many: the lowest score wins, equal ones by chance. So "rarest first, then random" is a
//! score of the number of copies, and "random useful" (Massoulié et al., INFOCOM 2007) is a constant score.

use crate::content::have::bits_of;
use crate::random::Random;
use crate::units::PieceIndex;

/// Candidates looked at for one choice. Of an object of 500,000 pieces a sample this large holds one of the rarest
/// percent with a probability of 0.72, and costs microseconds.
const SAMPLE: usize = 128;

/// Picks one of the pieces that `candidates` shows as bits of its `words` words; none if there are none.
pub fn pick(
    random: &mut Random,
    words: usize,
    candidates: impl Fn(usize) -> u64,
    mut score: impl FnMut(PieceIndex) -> u64,
) -> Option<PieceIndex> {
    if words == 0 {
        return None;
    }
    let start = random.below(words);
    let mut best: Option<(u64, PieceIndex)> = None;
    let mut ties = 0;
    let all = (start..words).chain(0..start).flat_map(|index| bits_of(index, candidates(index)));
    for piece in all.take(SAMPLE) {
        let value = score(piece);
        match best {
            Some((lowest, _)) if value > lowest => continue,
            Some((lowest, _)) if value == lowest => {
                ties += 1;
                // Reservoir sampling: each of the equal ones is as likely as the others.
                if random.below(ties) == 0 {
                    best = Some((value, piece));
                }
            }
            _ => {
                ties = 1;
                best = Some((value, piece));
            }
        }
    }
    best.map(|(_, piece)| piece)
}

/// Picks one of the pieces that `candidates` shows as [`pick`] does, each with the same probability, however they lie: it looks at all of
/// them.
pub fn pick_any(random: &mut Random, words: usize, candidates: impl Fn(usize) -> u64) -> Option<PieceIndex> {
    let (mut count, mut chosen) = (0, None);
    for index in 0..words {
        let bits = candidates(index);
        let here = bits.count_ones() as usize;
        count += here;
        // Reservoir sampling, by words: each is kept with the part that it has of all so far.
        if here > 0 && random.below(count) < here {
            chosen = Some((index, bits));
        }
    }
    let (index, bits) = chosen?;
    bits_of(index, bits).nth(random.below(bits.count_ones() as usize))
}

/// The bits of word `index` that stand for pieces below `known`.
pub fn known_mask(known: u32, index: usize) -> u64 {
    match (known as usize).saturating_sub(index * 64) {
        0 => 0,
        rest if rest >= 64 => u64::MAX,
        rest => (1 << rest) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::have::HaveSet;

    #[test]
    fn the_lowest_score_wins_and_ties_are_broken_by_chance() {
        let mut set = HaveSet::new();
        for i in 0..200 {
            set.insert(PieceIndex(i));
        }
        let mut random = Random::new(1);
        let mut chosen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let score = |piece: PieceIndex| u64::from(piece.0 % 10 != 3);
            let piece = pick(&mut random, set.word_count(), |i| set.word(i), score).unwrap();
            assert_eq!(piece.0 % 10, 3);
            chosen.insert(piece);
        }
        assert!(chosen.len() >= 15, "only {} of 20 were ever chosen", chosen.len());
    }

    #[test]
    fn any_of_all_is_as_likely_wherever_they_lie() {
        // A part of the pieces, as large as five samples, behind a gap.
        let candidates = |index: usize| if (20..30).contains(&index) { u64::MAX } else { 0 };
        let (mut random, mut times) = (Random::new(1), [0; 10]);
        for _ in 0..1_000 {
            let piece = pick_any(&mut random, 40, candidates).expect("there are 640");
            times[piece.as_usize() / 64 - 20] += 1;
        }
        assert!(times.iter().all(|times| (65..140).contains(times)), "{times:?} where 100 each are expected");
        assert_eq!(pick_any(&mut random, 20, candidates), None);
    }

    #[test]
    fn nothing_is_chosen_from_nothing() {
        assert_eq!(pick(&mut Random::new(1), 0, |_| 0, |_| 0), None);
        assert_eq!(pick(&mut Random::new(1), 5, |_| 0, |_| 0), None);
    }
}
