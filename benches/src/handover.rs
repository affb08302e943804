//! `tasuki-bench handover` measures the cost of a hand-over for a program, by the area's size.
//!
//! The consumer is an inet server that never sleeps, on another processor. Behind it is a
//! connection to this program itself, which reads in place. The calls alone are timed, one on each
//! of 16 connections with nothing on its way. Two variants follow:
//!
//! * connections with closed windows: the consumer takes the area and touches no byte of it;
//! * the move of an area between two parties without sockets ([`moved`]), which P1 measured.
//!
//! Beside it the benchmark measures an area that is taken and dropped, and a received area that is
//! taken and given back. The area alone is also moved between parties that lose access to it, and
//! on huge pages. [`transfer`] compares areas with pipes and Unix sockets. In rounds of its own the
//! benchmark measures a send that copies the same bytes, up to the length that one call takes
//! without waiting. Figures are medians of all rounds.

mod mapping;
mod moved;
mod parties;
mod timing;
mod transfer;

use std::io::IoSlice;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use serde::{Deserialize, Serialize};
use sockets::{Client, Errno, SendFlags, Socket, TcpListener, TcpStream, TxSlice, Wait};

use self::mapping::Mapping;
use self::timing::{WAYS, timed};
use self::transfer::TransferTimes;
use crate::calls::server::{Child, pin};
use crate::median::median;

/// Windows are filled by so many bytes at a time, and so long after each nothing more is delivered.
const CHUNK: usize = 64 << 10;
const SETTLED: Duration = Duration::from_millis(1);

/// What `handover` runs.
#[derive(Args)]
pub(crate) struct HandoverArgs {
    /// Bytes of an area.
    #[arg(
        long,
        value_delimiter = ',',
        default_values_t = [4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304]
    )]
    size: Vec<usize>,
    /// Rounds; in each, one hand-over on each connection.
    #[arg(long, default_value_t = 50)]
    rounds: usize,
    /// The processors of this program and of the server.
    #[arg(long, value_delimiter = ',', num_args = 2, default_values_t = [0, 1])]
    processors: Vec<usize>,
    /// Figures as JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Nanoseconds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HandoverFigure {
    pub(crate) size: usize,
    /// The area alone, to another party that takes it and gives it back.
    pub(crate) moved: Option<f64>,
    /// The same where each party loses access to what it gives.
    #[serde(default)]
    pub(crate) moved_strict: Option<f64>,
    /// The same on huge pages, where enough of them are free.
    #[serde(default)]
    pub(crate) moved_huge: Option<f64>,
    /// All bytes to another party, by areas and by copies.
    #[serde(default)]
    pub(crate) transfers: Option<TransferTimes>,
    /// To a connection that waits for its window.
    pub(crate) untouched: Option<f64>,
    pub(crate) hand_over: f64,
    pub(crate) copying_send: f64,
    pub(crate) alloc_and_drop: f64,
    pub(crate) recv_and_drop: f64,
}

/// Measure and print.
pub(crate) fn run(args: &HandoverArgs) -> Result<()> {
    let &[here, there] = args.processors.as_slice() else {
        anyhow::bail!("--processors takes two numbers")
    };
    pin(here)?;
    let server = Child::start(there, true, false)?;
    let client = Client::connect(&server.socket)?;
    let mut figures = Vec::new();
    for &size in &args.size {
        let untouched = Some(untouched(&client, size, args.rounds)?);
        let figure = HandoverFigure { untouched, ..measure(&client, size, args.rounds)? };
        figures.push(figure);
    }
    drop(client);
    // The server's processor is the taker's now.
    drop(server);
    for figure in &mut figures {
        let moved = |mapping| moved::measure(figure.size, args.rounds, there, mapping);
        figure.moved = moved(Mapping::Shared)?;
        figure.moved_strict = moved(Mapping::Strict)?;
        figure.moved_huge = moved(Mapping::Huge)?;
        figure.transfers = Some(TransferTimes::measure(figure.size, args.rounds, there)?);
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&figures)?);
        return Ok(());
    }
    print!("{}", table(&figures));
    Ok(())
}

/// The figures as Markdown.
pub(crate) fn table(figures: &[HandoverFigure]) -> String {
    let head = "| bytes | area alone | strict | huge pages | hand over, window closed \
                | hand over | send by a copy \
                | alloc and drop | receive and drop |";
    let mut text = format!("{head}\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for figure in figures {
        let cell = |nanos: Option<f64>| nanos.map_or("-".to_owned(), |it| format!("{it:.0} ns"));
        let [moved, strict, huge, untouched] =
            [figure.moved, figure.moved_strict, figure.moved_huge, figure.untouched].map(cell);
        let &HandoverFigure { size, hand_over, .. } = figure;
        let &HandoverFigure { copying_send, alloc_and_drop, recv_and_drop, .. } = figure;
        text += &format!(
            "| {size} | {moved} | {strict} | {huge} | {untouched} | {hand_over:.0} ns | \
             {copying_send:.0} ns | {alloc_and_drop:.0} ns | {recv_and_drop:.0} ns |\n"
        );
    }
    text += "\n| bytes read by another | area | strict | huge pages | pipe | Unix socket |\n";
    text += "|---:|---:|---:|---:|---:|---:|\n";
    for figure in figures {
        let Some(TransferTimes { shared, strict, huge, pipe, socket }) = figure.transfers else {
            continue;
        };
        let huge = huge.map_or("-".to_owned(), |nanos| format!("{nanos:.0} ns"));
        text += &format!(
            "| {} | {shared:.0} ns | {strict:.0} ns | {huge} | {pipe:.0} ns | {socket:.0} ns |\n",
            figure.size
        );
    }
    text
}

/// A connection to ourselves.
fn pair(client: &Arc<Client>) -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind_via(client, (Ipv4Addr::LOCALHOST, 0))?;
    let near = TcpStream::connect_via(client, listener.local_addr()?)?;
    Ok((near, listener.accept()?.0))
}

fn alloc(client: &Client, size: usize) -> Result<Vec<TxSlice>> {
    (0..WAYS).map(|_| Ok(client.alloc(size)?.freeze())).collect()
}

/// Hands each pair a slice; how long one took, nanoseconds.
fn hand_over(pairs: &[(TcpStream, TcpStream)], slices: &[TxSlice]) -> Result<f64> {
    let flags = SendFlags::default();
    let (nanos, sent) = timed(|| {
        pairs.iter().zip(slices).try_for_each(|((near, _), slice)| {
            let slice = std::slice::from_ref(slice);
            near.as_socket().send_slices(slice, flags, None, Wait::No).map(drop)
        })
    });
    sent?;
    Ok(nanos / WAYS as f64)
}

fn measure(client: &Arc<Client>, size: usize, rounds: usize) -> Result<HandoverFigure> {
    let pairs = (0..WAYS).map(|_| pair(client)).collect::<Result<Vec<_>>>()?;
    let [mut handed, mut copied, mut made, mut taken] = [const { Vec::new() }; 4];
    // The memory of the first round is in no cache.
    for round in 0..=rounds {
        let (alloc, slices) = timed(|| alloc(client, size));
        let slices = slices?;
        let over = hand_over(&pairs, &slices)?;
        drain(&pairs, size, &mut taken)?;
        let (freed, ()) = timed(|| drop(slices));
        if round > 0 {
            handed.push(over);
            made.push((alloc + freed) / WAYS as f64);
        }
    }
    let bytes = vec![0xa5; size];
    for round in 0..=rounds {
        let (copy, sent) = timed(|| {
            let each = pairs.iter().map(|(near, _)| send_once(near.as_socket(), &bytes));
            each.collect::<Result<Vec<_>>>()
        });
        for (pair, sent) in pairs.iter().zip(sent?) {
            drain(std::slice::from_ref(pair), sent, &mut Vec::new())?;
        }
        if round > 0 {
            copied.push(copy / WAYS as f64);
        }
    }
    let [hand_over, copying_send, alloc_and_drop, recv_and_drop] =
        [handed, copied, made, taken].map(|times| median(times).unwrap_or(f64::NAN));
    let (moved, untouched) = (None, None);
    Ok(HandoverFigure {
        size,
        moved,
        moved_strict: None,
        moved_huge: None,
        transfers: None,
        untouched,
        hand_over,
        copying_send,
        alloc_and_drop,
        recv_and_drop,
    })
}

/// Nanoseconds of a hand-over to connections whose receivers read nothing and whose windows are
/// full. The server takes the area and does no more with it.
fn untouched(client: &Arc<Client>, size: usize, rounds: usize) -> Result<f64> {
    let mut handed = Vec::new();
    for round in 0..=rounds {
        let pairs = (0..WAYS).map(|_| pair(client)).collect::<Result<Vec<_>>>()?;
        while pairs.iter().any(|(near, _)| near.as_socket().unsent_len() == 0) {
            for (near, _) in &pairs {
                if near.as_socket().unsent_len() == 0 {
                    send_once(near.as_socket(), &[0xa5; CHUNK])?;
                }
            }
            std::thread::sleep(SETTLED);
        }
        let slices = alloc(client, size)?;
        let over = hand_over(&pairs, &slices)?;
        if round > 0 {
            handed.push(over);
        }
        // Unread bytes reset the connection, so the areas come back.
        for (near, far) in pairs {
            far.shutdown(std::net::Shutdown::Both)?;
            drop((far, near));
        }
    }
    median(handed).context("no rounds")
}

/// Sends as much as there is room for.
fn send_once(socket: &Socket, bytes: &[u8]) -> Result<usize> {
    match socket.send(&[IoSlice::new(bytes)], SendFlags::default(), None, Wait::No) {
        Err(Errno::AGAIN) => Ok(0),
        sent => Ok(sent?),
    }
}

/// Takes `size` bytes at each far end, and waits until all is acknowledged and the areas are back.
fn drain(pairs: &[(TcpStream, TcpStream)], size: usize, taken: &mut Vec<f64>) -> Result<()> {
    for (near, far) in pairs {
        let mut left = size;
        while left > 0 {
            let (nanos, len) = timed(|| far.as_socket().recv_area(Wait::No).map(|area| area.len()));
            match len {
                Err(Errno::AGAIN) => std::hint::spin_loop(),
                len => {
                    left -= len?;
                    taken.push(nanos);
                }
            }
        }
        let socket = near.as_socket();
        while socket.unsent_len() > 0 {
            std::hint::spin_loop();
        }
        socket.slices_done()?;
    }
    Ok(())
}
