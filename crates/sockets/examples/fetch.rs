//! Fetches a page over HTTP/1.0 and writes it to standard output:
//! `tasuki run -- target/debug/examples/fetch 10.219.0.1:8000 /`

use std::io::{self, Read, Write};

use tasuki_sockets::TcpStream;

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(server), Some(path)) = (args.next(), args.next()) else {
        eprintln!("usage: fetch ADDRESS:PORT PATH");
        std::process::exit(2);
    };
    let mut stream = TcpStream::connect(&server)?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {server}\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let body = answer.windows(4).position(|end| end == b"\r\n\r\n").map_or(0, |at| at + 4);
    eprintln!("{}", String::from_utf8_lossy(&answer[..body]).trim_end());
    io::stdout().write_all(&answer[body..])
}
