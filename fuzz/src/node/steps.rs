//! The input as a sequence of steps. Choices are small numbers, so that changing a byte changes one thing.

use arbitrary::{Result, Unstructured};
use mobcast_proto::io::PeerIdentity;
use mobcast_proto::limits::{CHUNK_BYTES_MAX, PIECE_SIZE_MAX};
use mobcast_proto::{BroadcastId, ByteRange, ClusterId, Duration, GroupId, LinkId};

use super::frames;
use super::world::World;
use super::{GROUP, description};

/// Steps of one input: as many as show anything, and few enough for thousands of inputs a second.
const STEPS_MAX: usize = 300;

/// Feeds everything.
pub fn run(world: &mut World, u: &mut Unstructured<'_>) -> Result<()> {
    for _ in 0..STEPS_MAX {
        if u.is_empty() {
            break;
        }
        step(world, u)?;
    }
    Ok(())
}

fn step(world: &mut World, u: &mut Unstructured<'_>) -> Result<()> {
    match u.int_in_range(0..=20)? {
        0..=8 => frame(world, u),
        9..=11 => payload(world, u),
        12 | 13 => verified(world, u),
        14 => {
            let time = Duration::from_millis(1 << u.int_in_range(0..=14)?);
            world.pass(time);
            Ok(())
        }
        15 => any_link(world, u).map(|link| link.into_iter().for_each(|link| world.link_down(link))),
        16 => accept(world, u),
        17 => dialled(world, u),
        18 => {
            if let Some(index) = any_index(world.sending.len(), u)? {
                world.sent(index);
            }
            Ok(())
        }
        19 => {
            let rtt = u.arbitrary::<Option<u16>>()?.map(|us| Duration::from_micros(us.into()));
            world.probed(rtt);
            Ok(())
        }
        _ => command(world, u),
    }
}

fn any_index(len: usize, u: &mut Unstructured<'_>) -> Result<Option<usize>> {
    if len == 0 { Ok(None) } else { u.choose_index(len).map(Some) }
}

fn any_link(world: &World, u: &mut Unstructured<'_>) -> Result<Option<LinkId>> {
    let index = any_index(world.links.len(), u)?;
    Ok(index.and_then(|index| world.links.keys().nth(index).copied()))
}

fn frame(world: &mut World, u: &mut Unstructured<'_>) -> Result<()> {
    let Some(link) = any_link(world, u)? else { return Ok(()) };
    if u.ratio(1, 16)? {
        let len = usize::from(u.arbitrary::<u8>()?).min(u.len());
        let bytes = u.bytes(len)?;
        world.feed_bytes(link, bytes);
        return Ok(());
    }
    let frame = frames::frame(world, u, link)?;
    world.feed(link, &frame);
    frames::note_batch(world, &frame);
    Ok(())
}

/// What was asked for, a part of it, or what nobody wants.
fn payload(world: &mut World, u: &mut Unstructured<'_>) -> Result<()> {
    if let Some(index) = any_index(world.asked.len(), u)?
        && !u.ratio(1, 8)?
    {
        let asked = world.asked[index];
        let ByteRange { start, end } = asked.range;
        let end = if u.ratio(1, 4)? { u.int_in_range(start + 1..=end)? } else { end };
        match end == asked.range.end {
            true => drop(world.asked.swap_remove(index)),
            false => world.asked[index].range.start = end,
        }
        world.payload(asked.link, asked.broadcast, asked.piece, ByteRange { start, end });
        return Ok(());
    }
    let Some(link) = any_link(world, u)? else { return Ok(()) };
    let (broadcast, piece) = (frames::broadcast(u)?, frames::piece(u)?);
    let len = u.int_in_range(1..=CHUNK_BYTES_MAX)?;
    let start = if u.arbitrary()? { 0 } else { u.int_in_range(0..=PIECE_SIZE_MAX - len)? };
    world.payload(link, broadcast, piece, ByteRange { start, end: start + len });
    Ok(())
}

fn verified(world: &mut World, u: &mut Unstructured<'_>) -> Result<()> {
    if let Some(index) = any_index(world.full.len(), u)? {
        let (right, forged) = (!u.ratio(1, 5)?, u.arbitrary()?);
        world.verified(index, right, forged);
    }
    Ok(())
}

fn accept(world: &mut World, u: &mut Unstructured<'_>) -> Result<()> {
    let identity = if u.ratio(1, 3)? {
        PeerIdentity::Joiner
    } else {
        PeerIdentity::Member { node: frames::node(u)?, cluster: ClusterId(u.int_in_range(0..=3)?) }
    };
    let group = if u.ratio(1, 16)? { GroupId([4; 16]) } else { GROUP };
    world.accept_link(identity, group);
    Ok(())
}

fn dialled(world: &mut World, u: &mut Unstructured<'_>) -> Result<()> {
    let Some(index) = any_index(world.dials.len(), u)? else { return Ok(()) };
    let Some(&link) = world.dials.keys().nth(index) else { return Ok(()) };
    let identity = PeerIdentity::Member { node: frames::node(u)?, cluster: ClusterId(u.int_in_range(0..=3)?) };
    world.dialled(link, (!u.ratio(1, 3)?).then_some(identity));
    Ok(())
}

fn command(world: &mut World, u: &mut Unstructured<'_>) -> Result<()> {
    let own: Vec<BroadcastId> = world.own.keys().copied().collect();
    let heard: Vec<BroadcastId> = world.heard.keys().copied().collect();
    match u.int_in_range(0..=11)? {
        0..=2 if !own.is_empty() => world.source(*u.choose(&own)?, u.ratio(1, 3)?),
        3 | 4 if !heard.is_empty() => world.accept(*u.choose(&heard)?),
        5 if !heard.is_empty() => world.decline(*u.choose(&heard)?),
        6 if !own.is_empty() => world.abort(*u.choose(&own)?),
        7 | 8 => {
            if let Some(index) = any_index(world.complete.len(), u)? {
                world.confirm(index);
            }
        }
        9 if !heard.is_empty() => world.forget(*u.choose(&heard)?),
        10 if !own.is_empty() => world.forget(*u.choose(&own)?),
        11 => {
            let form = u.arbitrary()?;
            world.broadcast(description(u, form)?);
        }
        _ => {}
    }
    Ok(())
}
