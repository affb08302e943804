//! Becomes many clients of an instance, each with many thread slots, and keeps them until it is
//! killed.
//!
//! Arguments: the socket of the instance, clients, threads of each. Prints a line for each client,
//! and "done".

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use abi::control::{ClientReply, ClientRequest, VERSION};
use shm::Channel;

/// The reply, and its descriptors. `None`: the supervisor closed the connection.
fn ask(line: &mut Channel, request: &ClientRequest) -> Option<(ClientReply, Vec<OwnedFd>)> {
    let body = serde_json::to_vec(request).expect("a request is plain data");
    line.send(&body, &[]).ok()?;
    let message = line.recv().ok()??;
    Some((serde_json::from_slice(&message.body).expect("a reply"), message.fds))
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, path, clients, threads] = &words[..] else {
        panic!("usage: thread_crowd SOCKET CLIENTS THREADS")
    };
    let (clients, threads): (usize, usize) = (clients.parse().unwrap(), threads.parse().unwrap());
    let mut kept = Vec::new();
    for _ in 0..clients {
        let Ok(stream) = UnixStream::connect(path) else {
            println!("nobody listens");
            continue;
        };
        let mut line = Channel::from_fd(stream.into());
        let hello = ClientRequest::Hello { version: VERSION, program: "crowd".to_owned() };
        match ask(&mut line, &hello) {
            Some((ClientReply::Welcome { .. }, fds)) => kept.extend(fds),
            Some((ClientReply::Error { message }, _)) => {
                println!("no client: {message}");
                continue;
            }
            other => {
                println!("no answer: {other:?}");
                continue;
            }
        }
        let mut given = 0;
        for _ in 0..threads {
            match ask(&mut line, &ClientRequest::AttachThread) {
                Some((ClientReply::Thread { .. }, fds)) => {
                    kept.extend(fds);
                    given += 1;
                }
                Some((ClientReply::Error { message }, _)) => {
                    println!("no thread: {message}");
                    break;
                }
                other => {
                    println!("no answer: {other:?}");
                    break;
                }
            }
        }
        println!("threads: {given}");
        kept.push(line.into());
    }
    println!("done");
    std::thread::sleep(std::time::Duration::from_secs(600));
}
