//! An echo server, and a client with many connections, in tokio's tasks.
//!
//! ```text
//! tasuki run -- tokio_tasks server 0.0.0.0:7
//! tasuki run -- tokio_tasks client 10.218.0.1:7 500
//! ```
#![forbid(unsafe_code)]

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tasuki_tokio::{TcpListener, TcpStream, block_on};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::spawn_local;
use tokio::time::timeout;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

async fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 4096];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            len => stream.write_all(&buffer[..len]).await?,
        }
    }
}

async fn serve(addr: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(addr).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (stream, peer) = listener.accept().await?;
        spawn_local(async move {
            if let Err(error) = echo(stream).await {
                eprintln!("{peer}: {error}");
            }
        });
    }
}

async fn ask(addr: SocketAddr, number: usize) -> io::Result<()> {
    let mut stream = TcpStream::connect(addr).await?;
    let question = format!("question {number}\n").repeat(1 + number % 50).into_bytes();
    let mut answer = vec![0; question.len()];
    for _ in 0..3 {
        stream.write_all(&question).await?;
        stream.read_exact(&mut answer).await?;
        if answer != question {
            return Err(io::Error::other("another answer than the question"));
        }
    }
    Ok(())
}

async fn crowd(addr: SocketAddr, connections: usize) -> io::Result<()> {
    let tasks: Vec<_> = (0..connections).map(|n| spawn_local(ask(addr, n))).collect();
    for task in tasks {
        timeout(PATIENCE, task).await???;
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
            eprintln!("usage: tokio_tasks server ADDRESS:PORT | client ADDRESS:PORT [CONNECTIONS]");
            std::process::exit(2);
        }
    }
}
