//! The clients of an instance: their numbers, their memory, where they are in their lives.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use super::admission::ClientStage;
use super::connections::ConnectionId;
use super::faults::Origin;
use super::instance::Memory;

/// A client.
pub(super) struct Client {
    /// Its program's name, as the program gave it.
    pub(super) program: String,
    pub(super) pid: u32,
    pub(super) origin: Origin,
    /// Its line, while it lives.
    pub(super) connection: Option<ConnectionId>,
    pub(super) stage: ClientStage,
    /// Drivers that have not answered yet, and whether one has refused.
    pub(super) awaited: usize,
    pub(super) refused: bool,
    pub(super) memory: Memory,
    /// The inet server's bell for this client.
    pub(super) bell: OwnedFd,
    /// Thread slots given.
    pub(super) threads: u16,
    /// It is gone, and its sockets close in the background: the how manieth it was to go.
    pub(super) departed: Option<u64>,
    /// The inet server is asked to reset what it left behind.
    pub(super) aborted: bool,
}

impl Client {
    /// A client that no server knows yet.
    pub(super) fn new(
        program: String,
        pid: u32,
        origin: Origin,
        memory: Memory,
        bell: OwnedFd,
    ) -> Self {
        Self {
            program,
            pid,
            origin,
            connection: None,
            stage: ClientStage::Mapping,
            awaited: 0,
            refused: false,
            memory,
            bell,
            threads: 0,
            departed: None,
            aborted: false,
        }
    }
}

/// Numbers beyond twice the clients that are there. So a number is used again late.
const SPARE_NUMBERS: usize = 64;

/// All clients, by number.
pub(super) struct Clients {
    all: BTreeMap<u16, Client>,
    /// Shared sockets, by cookie: the client that they count for, which may be gone.
    shared: BTreeMap<u64, u16>,
    next: u16,
    departures: u64,
}

impl Clients {
    pub(super) fn new() -> Self {
        Self { all: BTreeMap::new(), shared: BTreeMap::new(), next: 1, departures: 0 }
    }

    /// A number that no client has, 1 to 65,535. The inet server looks at every number up to the
    /// highest in each iteration. So there are only [`SPARE_NUMBERS`] more than are needed, and
    /// each is used again after the others.
    pub(super) fn free_number(&mut self) -> Option<u16> {
        let most = u16::try_from(SPARE_NUMBERS + 2 * self.all.len()).unwrap_or(u16::MAX);
        let mut numbers = (self.next..=most).chain(1..=most);
        let found = numbers.find(|n| !self.all.contains_key(n))?;
        self.next = found.checked_add(1).unwrap_or(1);
        Some(found)
    }

    pub(super) fn insert(&mut self, number: u16, client: Client) {
        self.all.insert(number, client);
    }

    pub(super) fn get(&self, number: u16) -> Option<&Client> {
        self.all.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: u16) -> Option<&mut Client> {
        self.all.get_mut(&number)
    }

    /// A driver has answered a request about a client that all drivers got. After the last one,
    /// returns their common answer.
    pub(super) fn answered(&mut self, number: u16, done: Result<(), ()>) -> Option<Result<(), ()>> {
        let client = self.all.get_mut(&number)?;
        client.refused |= done.is_err();
        client.awaited = client.awaited.saturating_sub(1);
        if client.awaited > 0 {
            return None;
        }
        Some(if std::mem::take(&mut client.refused) { Err(()) } else { Ok(()) })
    }

    pub(super) fn remove(&mut self, number: u16) -> Option<Client> {
        self.all.remove(&number)
    }

    /// What the inet server has of descriptors for them: a bell and the process for each, one for
    /// each thread, and one for each shared socket.
    pub(super) fn descriptors(&self) -> u64 {
        let own = self.all.values().map(|client| 2 + u64::from(client.threads.max(1)));
        own.sum::<u64>() + self.shared.len() as u64
    }

    /// A shared socket counts for a client from now on.
    pub(super) fn add_shared(&mut self, cookie: u64, number: u16) {
        self.shared.insert(cookie, number);
    }

    /// A shared socket is one no more.
    pub(super) fn end_shared(&mut self, cookie: u64) {
        self.shared.remove(&cookie);
    }

    /// Number of the shared sockets that count for a client.
    pub(super) fn count_shared(&self, number: u16) -> usize {
        self.shared.values().filter(|of| **of == number).count()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, &Client)> {
        self.all.iter().map(|(number, client)| (*number, client))
    }

    /// A client is gone. What it has queued is still sent.
    pub(super) fn depart(&mut self, number: u16) {
        self.departures += 1;
        if let Some(client) = self.all.get_mut(&number) {
            client.departed = Some(self.departures);
        }
    }

    /// The departed client to give up first, if there are more than `most` whose data is still to
    /// be sent: the oldest of the origin that has the most of them. It counts as given up from now
    /// on.
    pub(super) fn give_up_departed(&mut self, most: usize) -> Option<u16> {
        let waiting = || {
            let all = self.iter().filter(|(_, client)| !client.aborted);
            all.filter_map(|(number, client)| Some((client.departed?, number, &client.origin)))
        };
        if waiting().count() <= most {
            return None;
        }
        let mut counts: BTreeMap<&Origin, usize> = BTreeMap::new();
        waiting().for_each(|(_, _, origin)| *counts.entry(origin).or_default() += 1);
        let most_of_one = counts.values().max().copied();
        let (_, number, _) =
            waiting().filter(|(_, _, origin)| counts.get(origin).copied() == most_of_one).min()?;
        self.all.get_mut(&number)?.aborted = true;
        Some(number)
    }

    /// The numbers of the clients that still have their connection.
    pub(super) fn connected(&self) -> Vec<(u16, ConnectionId)> {
        self.iter().filter_map(|(number, client)| Some((number, client.connection?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        let memory = Memory::create("t", 4096, false).unwrap();
        let me = Origin::of(rustix::process::getpid(), rustix::process::Uid::ROOT, "x");
        Client::new("x".to_owned(), 1, me, memory, super::super::instance::bell().unwrap())
    }

    #[test]
    fn the_first_to_go_is_the_first_to_be_given_up() {
        let mut clients = Clients::new();
        for number in 1..=5 {
            clients.insert(number, client());
        }
        for number in [4, 2, 5] {
            assert_eq!(clients.give_up_departed(2), None);
            clients.depart(number);
        }
        assert_eq!(clients.give_up_departed(2), Some(4));
        assert_eq!(clients.give_up_departed(2), None);
        clients.remove(4);
        clients.depart(1);
        assert_eq!(clients.give_up_departed(2), Some(2));
    }

    #[test]
    fn all_drivers_answer_as_one() {
        let mut clients = Clients::new();
        clients.insert(1, Client { awaited: 3, ..client() });
        assert_eq!(clients.answered(1, Ok(())), None);
        assert_eq!(clients.answered(1, Err(())), None);
        assert_eq!(clients.answered(1, Ok(())), Some(Err(())));
        clients.get_mut(1).unwrap().awaited = 1;
        assert_eq!(clients.answered(1, Ok(())), Some(Ok(())));
        assert_eq!(clients.answered(2, Ok(())), None);
    }

    #[test]
    fn numbers_are_used_again_late() {
        let mut clients = Clients::new();
        assert_eq!(clients.free_number(), Some(1));
        clients.insert(1, client());
        assert_eq!(clients.free_number(), Some(2));
        assert_eq!(clients.free_number(), Some(3));
        // 0 is reserved, 1 is in use.
        let next = (4..=200).find(|_| clients.free_number() == Some(2));
        assert!(next.is_some_and(|n| n >= 64), "{next:?}");
        (2..=130).for_each(|number| clients.insert(number, client()));
        assert!((0..1000).all(|_| clients.free_number().is_some_and(|number| number > 130)));
    }

    /// The inet server looks at every number up to the highest, again and again.
    #[test]
    fn numbers_stay_small_however_many_clients_come_and_go() {
        let mut clients = Clients::new();
        let live: Vec<u16> = (0..20).filter_map(|_| clients.free_number()).collect();
        live.into_iter().for_each(|number| clients.insert(number, client()));
        let highest = (0..10_000).filter_map(|_| clients.free_number()).max();
        assert!(highest.is_some_and(|highest| highest < 200), "{highest:?}");
    }
}
