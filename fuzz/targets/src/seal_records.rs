//! Sealed records on a bad path.
//!
//! The first byte chooses the suite and the padding. The others are a sequence of records of two
//! bytes, an action and its argument. An honest client seals data, changes its key and ends; a bad
//! path changes, drops, repeats, exchanges and cuts records, and adds bytes of its own.
//!
//! For any input the server receives a beginning of what the client sent. It sees a whole stream
//! exactly if the path left it whole.

use core::iter;

use seal::{
    HEADER_LEN, OpenError, Opened, Padding, Reason, Receiver, Sealer, SessionSettings, Suite,
    halves_from_exporter,
};

/// Most records of one input.
const MOST_RECORDS: usize = 64;

/// The honest client, and what it has sent.
struct Client {
    sealer: Sealer,
    /// All records, as they were sealed.
    stream: Vec<u8>,
    data: Vec<u8>,
    ended: bool,
}

impl Client {
    /// A Data record; its content never repeats at another place.
    fn data(&mut self, len: usize) -> Option<Vec<u8>> {
        let start = self.data.len();
        let mut chunk: Vec<u8> = (start..start + len).map(|at| (at ^ (at >> 8)) as u8).collect();
        let content = chunk.clone();
        let (mut header, mut tail) = ([0; HEADER_LEN], vec![0; self.sealer.tail_len(len)]);
        self.sealer.seal(&mut header, &mut chunk, &mut tail).ok()?;
        self.data.extend(content);
        Some([&header[..], &chunk, &tail].concat())
    }

    /// The record of an action, if the sealer gives one.
    fn act(&mut self, action: u8, argument: u8) -> Option<Vec<u8>> {
        let argument = usize::from(argument);
        let record = match action {
            0 => self.data(1 + argument),
            1 => self.data(1 + argument * 64),
            2 => self.sealer.rekey(argument % 2 == 1).ok().map(|record| record.as_ref().to_vec()),
            3 => self.sealer.end().ok().map(|record| record.as_ref().to_vec()),
            _ => {
                let alert = self.sealer.alert(Reason::GoingAway).ok();
                alert.map(|record| record.as_ref().to_vec())
            }
        }?;
        self.ended |= action >= 3;
        self.stream.extend(&record);
        Some(record)
    }
}

/// What the path does to the records that wait.
fn tamper(waiting: &mut Vec<Vec<u8>>, action: u8, argument: u8) {
    let at = usize::from(argument);
    let Some(last) = waiting.last_mut() else { return };
    match action {
        0 => {
            let place = at % last.len().max(1);
            if let Some(byte) = last.get_mut(place) {
                *byte ^= 1 << (at % 8);
            }
        }
        1 => drop(waiting.pop()),
        2 => {
            let again = last.clone();
            waiting.push(again);
        }
        3 => {
            let count = waiting.len();
            waiting.swap(count - 1, at % count);
        }
        4 => last.truncate(at),
        5 => last.extend(iter::repeat_n(argument, at % 9)),
        _ => waiting.push(vec![argument; at % 40]),
    }
}

/// Gives all of `stream` to the receiver in cuts: the data, and whether the stream was whole.
fn receive(receiver: &mut Receiver, stream: &[u8], cut: usize) -> (Vec<u8>, Result<(), OpenError>) {
    let mut data = Vec::new();
    for mut piece in stream.chunks(cut) {
        while !piece.is_empty() {
            let taken = receiver.handle_bytes(piece);
            piece = &piece[taken..];
            loop {
                match receiver.next() {
                    Ok(Some(Opened::Data(content))) => data.extend_from_slice(content),
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(error) => return (data, Err(error)),
                }
            }
        }
    }
    let ended = receiver.handle_end_of_stream();
    (data, ended)
}

/// Runs the target.
pub fn run(data: &[u8]) {
    let [choice, script @ ..] = data else { return };
    let suite = if choice & 1 == 0 { Suite::Aes256Gcm } else { Suite::ChaCha20Poly1305 };
    let padding = match choice >> 1 & 3 {
        0 => Padding::None,
        shift => Padding::Multiple(1 << (2 * shift)),
    };
    let cut = 1 + usize::from(choice >> 3) * 37;
    let settings = SessionSettings { padding, ..SessionSettings::default() };
    let halves = |is_client| {
        halves_from_exporter(is_client, suite, &vec![7; suite.hash_len()], settings)
            .expect("the right length")
    };
    let (sealer, _, hello) = halves(true);
    let (_, opener, theirs) = halves(false);
    let mut client = Client { sealer, stream: Vec::new(), data: Vec::new(), ended: false };
    // The server's Hello comes to the client as it is.
    let (_, opener_of_client, _) = halves(true);
    let mut at_client = Receiver::new(opener_of_client);
    at_client.handle_bytes(theirs.as_ref());
    match at_client.next() {
        Ok(Some(Opened::Hello(hello))) => client.sealer.handle_hello(hello),
        other => panic!("no Hello: {other:?}"),
    }
    client.stream.extend(hello.as_ref());
    let mut waiting = vec![hello.as_ref().to_vec()];
    for two in script.chunks_exact(2).take(MOST_RECORDS) {
        match two[0] % 16 {
            action @ 0..5 => waiting.extend(client.act(action, two[1])),
            action @ 5..12 => tamper(&mut waiting, action - 5, two[1]),
            action => waiting.extend(client.act((action - 12) % 2, two[1])),
        }
    }
    let delivered = waiting.concat();
    let (arrived, whole) = receive(&mut Receiver::new(opener), &delivered, cut);
    assert!(client.data.starts_with(&arrived), "data that was not sent");
    match whole {
        Ok(()) => {
            assert!(client.ended && delivered == client.stream, "a stream that was not whole");
            assert_eq!(arrived.len(), client.data.len());
        }
        Err(OpenError::Truncated { .. }) => {
            assert!(!client.ended || delivered != client.stream, "a whole stream was refused");
        }
        Err(error) => {
            let harmed = !client.stream.starts_with(&delivered);
            assert!(harmed, "an honest stream was refused: {error}");
        }
    }
}
