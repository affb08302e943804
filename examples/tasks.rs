//! An echo server, and a client with many connections, both in tasks of one thread.
//!
//! ```text
//! tasuki run -- tasks server 0.0.0.0:7
//! tasuki run -- tasks client 10.218.0.1:7 500
//! ```
#![forbid(unsafe_code)]

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use futures_io::{AsyncRead, AsyncWrite};
use tasuki_sockets::aio::{TcpListener, TcpStream, block_on, spawn};

/// Questions of each connection.
const ROUNDS: usize = 3;

async fn read(mut stream: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
    poll_fn(|context| Pin::new(&mut stream).poll_read(context, into)).await
}

async fn write_all(mut stream: &TcpStream, mut from: &[u8]) -> io::Result<()> {
    while !from.is_empty() {
        let sent = poll_fn(|context| Pin::new(&mut stream).poll_write(context, from)).await?;
        from = &from[sent..];
    }
    Ok(())
}

async fn echo(stream: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 4096];
    loop {
        match read(&stream, &mut buffer).await? {
            0 => return Ok(()),
            len => write_all(&stream, &buffer[..len]).await?,
        }
    }
}

async fn serve(addr: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(addr).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (stream, peer) = listener.accept().await?;
        // No code waits for the task: it ends with its connection.
        drop(spawn(async move {
            if let Err(error) = echo(stream).await {
                eprintln!("{peer}: {error}");
            }
        })?);
    }
}

async fn ask(addr: SocketAddr, number: usize) -> io::Result<()> {
    let stream = TcpStream::connect(addr).await?;
    let question = format!("question {number}\n").repeat(1 + number % 50).into_bytes();
    let mut answer = vec![0; question.len()];
    for _ in 0..ROUNDS {
        write_all(&stream, &question).await?;
        let mut got = 0;
        while got < answer.len() {
            got += match read(&stream, &mut answer[got..]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                len => len,
            };
        }
        if answer != question {
            return Err(io::Error::other("another answer than the question"));
        }
    }
    Ok(())
}

async fn crowd(addr: SocketAddr, connections: usize) -> io::Result<()> {
    let tasks: Vec<_> = (0..connections).map(|n| spawn(ask(addr, n))).collect::<Result<_, _>>()?;
    for task in tasks {
        task.await?;
    }
    println!("{connections} connections answered");
    Ok(())
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let addr = words.get(1).and_then(|addr| addr.parse().ok());
    let connections = words.get(2).map_or(Some(500), |number| number.parse().ok());
    match (words.first().map(String::as_str), addr, connections) {
        (Some("server"), Some(addr), _) => block_on(serve(addr))?,
        (Some("client"), Some(addr), Some(connections)) => block_on(crowd(addr, connections))?,
        _ => {
            eprintln!("usage: tasks server ADDRESS:PORT | client ADDRESS:PORT [CONNECTIONS]");
            std::process::exit(2);
        }
    }
}
