//! The fifth paper's measurement with plain sockets: a program reads blocks from another one, which
//! encrypts each as a whole, above TCP.
//!
//! The cipher is the paper's, triple DES in CBC mode, with HMAC-SHA1-96, as ESP has it (RFC 2451,
//! RFC 2404). Both programs run on instances by the preloaded library. A request is the block's
//! length, four bytes. The reader keeps so many requests open, so the server encrypts the next
//! block while one is on its way.
//!
//! Without a cipher the same programs measure ESP below TCP, or nothing.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use aws_lc_rs::cipher::{
    Algorithm, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, UnboundCipherKey,
};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::{hmac, iv::FixedLength};
use clap::{Args, ValueEnum};

/// Longest block, bytes.
const MOST: usize = 4 << 20;
/// Bytes of triple DES's blocks and vectors.
const VECTOR: usize = 8;
/// Bytes of HMAC-SHA1-96.
const SUM: usize = 12;

/// What protects a block above TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BlockCipher {
    /// Nothing.
    None,
    /// Triple DES and HMAC-SHA1-96.
    #[value(name = "3des")]
    TripleDes,
}

impl BlockCipher {
    /// As the command line has it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::TripleDes => "3des",
        }
    }
}

/// The server's arguments.
#[derive(Args)]
pub(crate) struct ServeBlocksArgs {
    /// Where it listens.
    #[arg(long)]
    bind: SocketAddr,
    /// What protects the blocks.
    #[arg(long, value_enum)]
    cipher: BlockCipher,
}

/// The reader's arguments.
#[derive(Args)]
pub(crate) struct ReadBlocksArgs {
    /// The server.
    #[arg(long)]
    connect: SocketAddr,
    /// What protects the blocks.
    #[arg(long, value_enum)]
    cipher: BlockCipher,
    /// Bytes of a block, a multiple of 8.
    #[arg(long)]
    size: u32,
    /// Requests that are open at a time.
    #[arg(long)]
    depth: u16,
    /// Seconds.
    #[arg(long)]
    seconds: f64,
}

/// Serves blocks until killed, a thread for each connection. The first line is the process's id.
pub(crate) fn serve(args: &ServeBlocksArgs) -> Result<()> {
    let listener = TcpListener::bind(args.bind)?;
    println!("{}", std::process::id());
    for stream in listener.incoming() {
        let (stream, cipher) = (stream?, args.cipher);
        thread::spawn(move || {
            if let Err(error) = serve_one(stream, cipher) {
                eprintln!("tasuki-bench serve-blocks: {error:#}");
            }
        });
    }
    Ok(())
}

fn serve_one(mut stream: TcpStream, cipher: BlockCipher) -> Result<()> {
    stream.set_nodelay(true)?;
    let keys = Keys::new()?;
    let content = vec![0x5a; MOST];
    let mut block = Vec::new();
    let mut request = [0; 4];
    loop {
        match stream.read_exact(&mut request) {
            // The reader has what it came for.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        let size = u32::from_be_bytes(request) as usize;
        let content = content.get(..size).context("a request for too long a block")?;
        match cipher {
            BlockCipher::None => stream.write_all(content)?,
            BlockCipher::TripleDes => {
                keys.seal(content, &mut block)?;
                stream.write_all(&block)?;
            }
        }
    }
}

/// Reads blocks for some time, and prints the figures as `tasuki disk bench --json` does.
pub(crate) fn read(args: &ReadBlocksArgs) -> Result<()> {
    let size = args.size as usize;
    ensure!(size.is_multiple_of(VECTOR) && size <= MOST, "a block of {size} bytes");
    let mut stream = TcpStream::connect(args.connect)?;
    stream.set_nodelay(true)?;
    let keys = Keys::new()?;
    let on_wire = match args.cipher {
        BlockCipher::None => size,
        BlockCipher::TripleDes => VECTOR + size + SUM,
    };
    let mut block = vec![0; on_wire];
    let request = args.size.to_be_bytes();
    let mut asked = std::collections::VecDeque::new();
    let (began, mut latencies) = (Instant::now(), Vec::new());
    let runtime = Duration::from_secs_f64(args.seconds);
    loop {
        while asked.len() < usize::from(args.depth.max(1)) && began.elapsed() < runtime {
            stream.write_all(&request)?;
            asked.push_back(Instant::now());
        }
        let Some(when) = asked.pop_front() else { break };
        stream.read_exact(&mut block)?;
        if args.cipher == BlockCipher::TripleDes {
            let content = keys.open(&mut block)?;
            ensure!(content.iter().all(|byte| *byte == 0x5a), "a block has other bytes");
        }
        latencies.push(when.elapsed().as_secs_f64() * 1e6);
    }
    let seconds = began.elapsed().as_secs_f64();
    latencies.sort_by(f64::total_cmp);
    let percent = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
    let figures = serde_json::json!({
        "requests_per_second": latencies.len() as f64 / seconds,
        "seconds": seconds,
        "latency_us": { "p50": percent(50), "p99": percent(99) },
    });
    println!("{figures}");
    Ok(())
}

/// Keys of both ends. They protect nothing but a measurement.
struct Keys {
    encrypting: EncryptingKey,
    decrypting: DecryptingKey,
    integrity: hmac::Key,
}

impl Keys {
    fn new() -> Result<Self> {
        let mut key = [0; 24];
        key.iter_mut().zip(1..).for_each(|(byte, value)| *byte = value);
        #[expect(deprecated, reason = "it is here for comparison with it")]
        let triple_des: &Algorithm = &aws_lc_rs::cipher::DES_EDE3_FOR_LEGACY_USE_ONLY;
        let unbound = || UnboundCipherKey::new(triple_des, &key);
        Ok(Self {
            encrypting: EncryptingKey::cbc(unbound()?)?,
            decrypting: DecryptingKey::cbc(unbound()?)?,
            integrity: hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &key[..20]),
        })
    }

    /// Vector, ciphertext and check value of a block.
    fn seal(&self, content: &[u8], block: &mut Vec<u8>) -> Result<()> {
        let mut vector = [0; VECTOR];
        aws_lc_rs::rand::fill(&mut vector)?;
        block.clear();
        block.extend_from_slice(&vector);
        block.extend_from_slice(content);
        let context = EncryptionContext::Iv64(FixedLength::from(vector));
        self.encrypting.less_safe_encrypt(&mut block[VECTOR..], context)?;
        let sum = hmac::sign(&self.integrity, block);
        block.extend_from_slice(&sum.as_ref()[..SUM]);
        Ok(())
    }

    fn open<'a>(&self, block: &'a mut [u8]) -> Result<&'a [u8]> {
        let (sealed, sum) = block.split_at_mut(block.len() - SUM);
        let expected = hmac::sign(&self.integrity, sealed);
        verify_slices_are_equal(&expected.as_ref()[..SUM], sum)?;
        let (vector, content) = sealed.split_first_chunk_mut::<VECTOR>().context("a vector")?;
        let context = DecryptionContext::Iv64(FixedLength::from(*vector));
        Ok(self.decrypting.decrypt(content, context)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_opened_by_the_other_end_and_by_nobody_else() {
        let (mut block, content) = (Vec::new(), [7; 64]);
        Keys::new().unwrap().seal(&content, &mut block).unwrap();
        assert_eq!(block.len(), VECTOR + 64 + SUM);
        assert!(!block.windows(8).any(|part| part == [7; 8]));
        let keys = Keys::new().unwrap();
        assert_eq!(keys.open(&mut block.clone()).unwrap(), content);
        block[20] ^= 1;
        assert!(keys.open(&mut block).is_err());
    }
}
