//! A party: the caller, a relay, or the one that answers.

use std::sync::Arc;
use std::time::Duration;

use abi::data::{DataDescriptor, DataFlags};
use anyhow::{Context as _, Result, ensure};
use shm::{Area, Consumer, Pool, PoolMap, Producer, Region, Ringer, Sleep, Sleeper};

use super::world::{CONTROL_PAGES, DATA_PAGES, RelayWorld, SLOTS, owner};

/// A party that nobody rings looks this often whether all is over.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of a return path in a control area: a party's number. Before them is their count.
const PATH: usize = 4;

/// A call on its way: the control area, and that with data.
struct RelayedCall {
    control: Area,
    data: Option<Area>,
}

/// The areas of a party: the caller has made them.
enum PartyPool {
    Caller(Pool),
    Other(PoolMap),
}

impl PartyPool {
    fn take(&self, slot: &shm::Slot) -> Result<Area> {
        let name = DataDescriptor::decode(slot)?.area;
        Ok(match self {
            Self::Caller(pool) => pool.take(name)?,
            Self::Other(pool) => pool.take(name)?,
        })
    }
}

/// A ring to another party, and its bell.
struct NextParty {
    ring: Producer,
    bell: Ringer,
    to: usize,
}

impl NextParty {
    fn new(region: &Arc<Region>, ring: usize, to: usize) -> Result<Self> {
        let bell = RelayWorld::ringer(region, to)?;
        Ok(Self { ring: Producer::attach(region, ring, SLOTS)?, bell, to })
    }

    /// Hands the call over.
    fn send(&mut self, call: RelayedCall) -> Result<()> {
        for area in [Some(call.control), call.data].into_iter().flatten() {
            let area = area.hand_over(owner(self.to));
            let descriptor =
                DataDescriptor { area, offset: 0, len: 0, flags: DataFlags::NONE, peer: None };
            self.ring.stage(&descriptor.encode())?;
        }
        self.ring.publish();
        self.bell.ring();
        Ok(())
    }
}

/// See the module.
pub(super) struct Party<'w> {
    world: &'w RelayWorld,
    me: usize,
    pool: PartyPool,
    sleeper: Sleeper,
    /// From the party before, and from the next one or the last.
    requests: Option<Consumer>,
    answers: Option<Consumer>,
    onward: Option<NextParty>,
    back: Option<NextParty>,
}

impl<'w> Party<'w> {
    /// The party of that number; 0 calls, the last one answers.
    pub(super) fn new(world: &'w RelayWorld, me: usize) -> Result<Self> {
        let region = world.map()?;
        let last = world.parties() - 1;
        let pool = match me {
            0 => PartyPool::Caller(Pool::create(&region, world.pool, owner(me))?),
            _ => PartyPool::Other(PoolMap::attach(&region, world.pool, owner(me))?),
        };
        let consumer = |ring| Consumer::attach(&region, ring, SLOTS);
        let answers = match (me, world.way.direct) {
            (0, true) => Some(consumer(world.answers())?),
            _ if me < last => Some(consumer(world.backward(me + 1))?),
            _ => None,
        };
        let back = match (me == last, world.way.direct) {
            (true, true) => Some(NextParty::new(&region, world.answers(), 0)?),
            _ if me > 0 => Some(NextParty::new(&region, world.backward(me), me - 1)?),
            _ => None,
        };
        let onward = (me < last)
            .then(|| NextParty::new(&region, RelayWorld::forward(me), me + 1))
            .transpose()?;
        let requests = (me > 0).then(|| consumer(RelayWorld::forward(me - 1))).transpose()?;
        let sleeper = Sleeper::new(region.word32(RelayWorld::bell(me))?);
        Ok(Self { world, me, pool, sleeper, requests, answers, onward, back })
    }

    /// Relays or answers until all is over.
    pub(super) fn serve(mut self) -> Result<()> {
        while !self.world.is_over() {
            let mut is_idle = true;
            while let Some(call) = received(self.requests.as_mut(), &self.pool, self.world)? {
                is_idle = false;
                match &mut self.onward {
                    Some(next) => {
                        push_path(&call.control, self.me)?;
                        next.send(call)?;
                    }
                    None => self.back.as_mut().context("a way back")?.send(call)?,
                }
            }
            while let Some(call) = received(self.answers.as_mut(), &self.pool, self.world)? {
                is_idle = false;
                let mine = pop_path(&call.control)?;
                ensure!(mine == self.me, "an answer for party {mine} came to {}", self.me);
                self.back.as_mut().context("a way back")?.send(call)?;
            }
            if is_idle {
                self.sleep()?;
            }
        }
        Ok(())
    }

    /// Makes so many calls; at most `outstanding` are on their way at once.
    pub(super) fn call(&mut self, count: u32, outstanding: u32) -> Result<()> {
        let (mut begun, mut over) = (0, 0);
        while over < count {
            while begun < count && begun - over < outstanding {
                let call = self.new_call()?;
                self.onward.as_mut().context("a next party")?.send(call)?;
                begun += 1;
            }
            match received(self.answers.as_mut(), &self.pool, self.world)? {
                // Its areas are free again.
                Some(_) => over += 1,
                None => self.sleep()?,
            }
            ensure!(!self.world.is_over(), "a relay ended");
        }
        Ok(())
    }

    fn new_call(&self) -> Result<RelayedCall> {
        let PartyPool::Caller(pool) = &self.pool else { anyhow::bail!("only the caller calls") };
        let control = pool.alloc(CONTROL_PAGES)?;
        control.write(0, &0_u32.to_le_bytes())?;
        let data = self.world.way.data.then(|| pool.alloc(DATA_PAGES)).transpose()?;
        Ok(RelayedCall { control, data })
    }

    fn sleep(&mut self) -> Result<()> {
        self.sleeper.announce(Sleep::Futex);
        for ring in [&mut self.requests, &mut self.answers].into_iter().flatten() {
            if !ring.is_empty()? {
                self.sleeper.awake();
                return Ok(());
            }
        }
        // The end of the time is a reason to look whether all is over.
        let _ = self.sleeper.wait_futex(Some(LOOK));
        Ok(())
    }
}

/// The next call of a ring.
fn received(
    ring: Option<&mut Consumer>,
    pool: &PartyPool,
    world: &RelayWorld,
) -> Result<Option<RelayedCall>> {
    let Some(ring) = ring else { return Ok(None) };
    let Some(slot) = ring.pop()? else { return Ok(None) };
    let control = pool.take(&slot)?;
    let data = match world.way.data {
        // Both were published together.
        true => Some(pool.take(&ring.pop()?.context("the area with data")?)?),
        false => None,
    };
    Ok(Some(RelayedCall { control, data }))
}

/// Puts a return path onto the stack.
fn push_path(control: &Area, me: usize) -> Result<()> {
    let depth = u32::from_le_bytes(control.head(0));
    let at = PATH * (1 + depth as usize);
    control.write(at, &(me as u32).to_le_bytes())?;
    Ok(control.write(0, &(depth + 1).to_le_bytes())?)
}

/// Takes the topmost off.
fn pop_path(control: &Area) -> Result<usize> {
    let depth = u32::from_le_bytes(control.head::<PATH>(0));
    let depth = depth.checked_sub(1).context("a return path")?;
    let path = u32::from_le_bytes(control.head(PATH * (1 + depth as usize)));
    control.write(0, &depth.to_le_bytes())?;
    Ok(path as usize)
}
