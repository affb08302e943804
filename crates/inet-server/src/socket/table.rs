//! The socket table of a client.
//!
//! The place freed last is used first. So few pages of a large socket table are ever touched, and
//! the server's own table is as long as the most sockets that the client has had at a time.

use abi::SocketId;

use super::Socket;

/// The socket table of a client.
pub(crate) struct SocketTable {
    sockets: Vec<Option<Box<Socket>>>,
    generations: Vec<u16>,
    free: Vec<u16>,
    touched: Vec<u16>,
    /// Most places.
    most: u16,
}

impl SocketTable {
    pub(crate) fn new(count: u16) -> Self {
        Self {
            sockets: Vec::new(),
            generations: Vec::new(),
            free: Vec::new(),
            touched: Vec::new(),
            most: count,
        }
    }

    /// All places that were ever in use are below this.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.sockets.len()
    }

    /// The socket of a place.
    pub(crate) fn at(&mut self, index: u16) -> Option<&mut Socket> {
        self.sockets.get_mut(usize::from(index))?.as_deref_mut()
    }

    /// All places in use.
    pub(crate) fn in_use(&self) -> Vec<u16> {
        self.sockets.iter().flatten().map(|socket| socket.id.index).collect()
    }

    /// The place of the next socket.
    pub(crate) fn next_free(&self) -> Option<u16> {
        self.free.last().copied().or_else(|| self.next_unused())
    }

    /// The lowest place that was never in use.
    fn next_unused(&self) -> Option<u16> {
        u16::try_from(self.sockets.len()).ok().filter(|next| *next < self.most)
    }

    /// Has the socket's words published at the end of the iteration.
    pub(crate) fn touch(&mut self, socket: &mut Socket) {
        if !socket.touched {
            socket.touched = true;
            self.touched.push(socket.id.index);
        }
    }

    pub(crate) fn next_touched(&mut self) -> Option<&mut Socket> {
        while let Some(index) = self.touched.pop() {
            // A place may have been freed, and even used again, since it was touched.
            if self.at(index).is_some_and(|socket| socket.touched) {
                return self.at(index);
            }
        }
        None
    }

    pub(crate) fn claim(&mut self) -> Option<SocketId> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.add_place()?,
        };
        let generation = self.generations.get(usize::from(index)).copied()?;
        Some(SocketId { index, generation })
    }

    #[cold]
    fn add_place(&mut self) -> Option<u16> {
        let index = self.next_unused()?;
        self.sockets.push(None);
        self.generations.push(0);
        Some(index)
    }

    pub(crate) fn put(&mut self, socket: Socket) {
        if let Some(place) = self.sockets.get_mut(usize::from(socket.id.index)) {
            *place = Some(Box::new(socket));
        }
    }

    /// Takes a socket out of its place, for a step that also needs the rest of the client. Only
    /// [`SocketTable::put_back`] or [`SocketTable::free`] may follow.
    #[inline]
    pub(crate) fn take(&mut self, index: u16) -> Option<Box<Socket>> {
        self.sockets.get_mut(usize::from(index))?.take()
    }

    /// Puts a socket back, at the end of the step that took it.
    #[inline]
    pub(crate) fn put_back(&mut self, socket: Box<Socket>) {
        if let Some(place) = self.sockets.get_mut(usize::from(socket.id.index)) {
            *place = Some(socket);
        }
    }

    /// Frees the place of a socket that was taken out.
    pub(crate) fn free(&mut self, index: u16) {
        if let Some(generation) = self.generations.get_mut(usize::from(index)) {
            *generation = generation.wrapping_add(1);
            self.free.push(index);
        }
    }
}
