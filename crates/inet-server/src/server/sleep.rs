//! Decides whether the server may sleep, and until when.

use std::time::Duration;

use inet::Instant;

use super::Server;

/// How long the server sleeps while output waits for room in a driver's ring. The driver should
/// ring when there is room; the bound holds if it does not.
const NO_ROOM_RETRY: Duration = Duration::from_millis(1);

impl Server {
    /// Does anything wait for a transmit completion? Three things may: sent bytes to be
    /// released, the memory of a departed client, and output without room in a ring. If nothing
    /// waits, no driver needs to wake the server for a frame that has left. The next iteration
    /// takes back the frame's memory.
    fn completions_are_awaited(&mut self) -> bool {
        let Self { clients, engine, .. } = self;
        let awaited = engine.releases.owners().any(|owner| {
            let place = clients.get_mut(usize::from(owner.client));
            place.and_then(Option::as_mut).is_some_and(|client| client.awaits_release(owner))
        });
        awaited || self.completions_are_needed()
    }

    /// Does the server itself wait for a transmit completion: for the memory of a departed client,
    /// or for room in a ring?
    fn completions_are_needed(&mut self) -> bool {
        self.leaving.iter().any(|leaving| leaving.awaited_frame.is_some())
            || self.engine.nics.is_blocked()
    }

    /// Announces sleep on all bells. The caller looks with [`Server::has_work`] afterwards.
    pub(crate) fn announce(&mut self) {
        let completions = self.completions_are_awaited();
        self.sleeping = Some(completions);
        self.engine.nics.announce(completions);
        self.clients.iter().flatten().for_each(|client| client.announce());
    }

    /// Takes the announcement back.
    pub(crate) fn awake(&mut self) {
        self.sleeping = None;
        self.engine.nics.awake();
        self.clients.iter().flatten().for_each(|client| client.awake());
    }

    /// Is there work for the server?
    pub(crate) fn has_work(&mut self) -> bool {
        let completions = match self.sleeping {
            // An awake server releases bytes even if no program waits for them.
            None => self.engine.releases.owners().next().is_some() || self.completions_are_needed(),
            Some(wanted) => {
                let awaited = self.completions_are_awaited();
                if awaited && !wanted {
                    // A program began to wait after the announcement, which told the drivers not
                    // to ring for completions.
                    return true;
                }
                wanted
            }
        };
        self.engine.nics.has_work(completions)
            || !self.events.is_empty()
            || self.clients.iter_mut().flatten().any(|client| client.has_work())
    }

    /// How long the server may sleep if no bell rings; `None` is for ever.
    pub(crate) fn deadline(&mut self, now: Instant) -> Option<Duration> {
        let due = [self.engine.stack.poll_at(), self.network.settling_until()];
        let left = due.into_iter().flatten().min().map(|due| due.since(now));
        let left = left.into_iter().chain(self.wakefulness.deadline(now)).min()?;
        // Output that waits for room is due all the time; the driver rings when there is room.
        let blocked = left.is_zero() && self.engine.nics.is_blocked();
        Some(if blocked { NO_ROOM_RETRY } else { left })
    }

    /// The thread is about to sleep. It measures what its wake-ups cost only if processors halt.
    pub(crate) fn before_sleep(&mut self, now: Instant) {
        let Self { spin, wakefulness, .. } = self;
        let cost = || Duration::from_nanos(spin.wake_cost());
        wakefulness.before_sleep(now, cost, spin.spins().won);
        if !wakefulness.is_held() {
            spin.before_sleep();
        }
    }
}
