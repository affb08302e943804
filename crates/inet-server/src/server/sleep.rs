//! When the server may sleep, and until when.

use std::time::Duration;

use inet::Instant;

use super::Server;

/// While output waits for room with a driver that should ring us: how long to trust in that.
const NO_ROOM_RETRY: Duration = Duration::from_millis(1);

impl Server {
    /// Does anybody wait for a driver to pass frames: for sent bytes to be released, for the memory
    /// of a client that is gone, or with output for which there was no room? Else nobody needs to
    /// be woken for a frame that has left; what it held is given back in the next iteration.
    fn completions_are_awaited(&mut self) -> bool {
        let Self { clients, engine, .. } = self;
        let mut owners = engine.releases.iter().map(|release| release.owner);
        let awaited = owners.any(|owner| {
            let place = clients.get_mut(usize::from(owner.client));
            place.and_then(Option::as_mut).is_some_and(|client| client.awaits_release(owner))
        });
        awaited || self.completions_are_needed()
    }

    /// Does anybody wait for a driver to pass frames, whom no program can do without?
    fn completions_are_needed(&mut self) -> bool {
        use inet::Egress;
        self.leaving.iter().any(|leaving| leaving.fence.is_some()) || !self.engine.nics.ready()
    }

    /// Says on all bells that we sleep. Look with [`Server::has_work`] afterwards.
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

    /// Has anybody left work for us?
    pub(crate) fn has_work(&mut self) -> bool {
        let completions = match self.sleeping {
            // Who is awake anyway need not wait until somebody waits for it.
            None => !self.engine.releases.is_empty() || self.completions_are_needed(),
            Some(wanted) => {
                let awaited = self.completions_are_awaited();
                if awaited && !wanted {
                    // Somebody began to wait meanwhile, and the drivers would not ring for it.
                    return true;
                }
                wanted
            }
        };
        self.engine.nics.has_work(completions)
            || !self.events.is_empty()
            || self.clients.iter_mut().flatten().any(|client| client.has_work())
    }

    /// How long the server may sleep if nobody rings; `None` is for ever.
    pub(crate) fn deadline(&mut self, now: Instant) -> Option<Duration> {
        use inet::Egress;
        let due = [self.engine.stack.poll_at(), self.network.settling_until()];
        let left = due.into_iter().flatten().min()?.since(now);
        // Output that waits for room is due all the time; the driver rings when there is some.
        let blocked = left.is_zero() && !self.engine.nics.ready();
        Some(if blocked { NO_ROOM_RETRY } else { left })
    }
}
