//! An echo server, one thread per connection:
//! `tasuki run -- target/debug/examples/echo 0.0.0.0:7`

use std::io;

use tasuki_sockets::TcpListener;

fn main() -> io::Result<()> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "0.0.0.0:7".to_owned());
    let listener = TcpListener::bind(&addr)?;
    eprintln!("echoing on {}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || {
            let peer = stream.peer_addr();
            match io::copy(&mut &stream, &mut &stream) {
                Ok(bytes) => eprintln!("{peer:?}: {bytes} bytes"),
                Err(error) => eprintln!("{peer:?}: {error}"),
            }
        });
    }
    Ok(())
}
