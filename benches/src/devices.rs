//! `tasuki-bench devices` measures the cost of a frame by each way that the kernel offers to a
//! device.
//!
//! The benchmark makes a network namespace of its own, which is gone at the end. In it are devices,
//! one for each way, and no address. Frames are those of a TCP connection between other stations.
//! They have 1,514 bytes, or they are super-segments of 64 KiB with virtio's header.
//!
//! * **Sending:** the kernel at the far end drops a frame as soon as IP sees that it is not for
//!   this host. That happens within the sending call, unless a row says otherwise. So the figure
//!   has the whole way there, and nothing of TCP.
//! * **Receiving:** a packet socket at the far end has sent the frames before, so there is always a
//!   frame and no reader waits. The time of that sending is shown beside it, since some ways do
//!   work there. At the end each frame is in the reader's own memory.
//!
//! Ways take turns, round by round. Figures are medians of all rounds.
#![allow(unsafe_code)]

mod frames;
mod method;
mod packet;
mod shared;
mod tap;
mod uring;

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::thread::UnshareFlags;

use self::method::{Contender, sh};
pub(crate) use self::method::{DeviceFigure, Direction};
use crate::calls::server::pin;

/// What `devices` runs.
#[derive(Args)]
pub(crate) struct DevicesArgs {
    /// Rounds; medians are over them.
    #[arg(long, default_value_t = 200)]
    rounds: u32,
    /// Only ways with this in the name of their device or their own.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// The processor that all is done on, and the other one of ways that use two.
    #[arg(long, value_delimiter = ',', num_args = 2, default_values_t = [0, 1])]
    processors: Vec<usize>,
    /// Figures as JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// Measure and print.
pub(crate) fn run(args: &DevicesArgs) -> Result<()> {
    let &[here, there] = args.processors.as_slice() else {
        bail!("--processors takes two numbers")
    };
    pin(here)?;
    enter_namespace()?;
    let mut contenders = tap::all([here, there])?;
    contenders.extend(packet::all()?);
    contenders.retain(|it| it.is_named(&args.only));
    for round in 0..=args.rounds {
        for contender in &mut contenders {
            contender.round()?;
            if round == 0 {
                contender.forget();
            }
        }
    }
    let figures: Vec<DeviceFigure> = contenders.into_iter().flat_map(Contender::figures).collect();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&figures)?);
    } else {
        print!("{}", tables(&figures));
    }
    Ok(())
}

/// A network namespace of our own, in which nothing is said unasked, and the sysfs of it.
fn enter_namespace() -> Result<()> {
    // SAFETY: descriptors stay shared with all threads; only they would be unsafe to part with.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET | UnshareFlags::NEWNS) }
        .context("making a network namespace (needs root)")?;
    sh("mount --make-rprivate / && mount -t sysfs sysfs /sys && \
        for key in all default; do echo 1 > /proc/sys/net/ipv6/conf/$key/disable_ipv6; done; true")
}

/// As Markdown: a table for each device, direction and kind of frame.
pub(crate) fn tables(figures: &[DeviceFigure]) -> String {
    let same = |a: &DeviceFigure, b: &DeviceFigure| {
        (&a.device, a.direction, a.frame) == (&b.device, b.direction, b.frame)
    };
    let mut heads: Vec<&DeviceFigure> = Vec::new();
    for figure in figures {
        if !heads.iter().any(|head| same(head, figure)) {
            heads.push(figure);
        }
    }
    let mut text = String::new();
    for head in heads {
        let (word, far) = match head.direction {
            Direction::Send => ("send", ""),
            Direction::Receive => ("receive", " far end, ns |"),
        };
        text += &format!("\n| {}, {word} {} B | ns | ratio |{far}\n", head.device, head.frame);
        text += &format!("|---|---:|---:|{}\n", if far.is_empty() { "" } else { "---:|" });
        for DeviceFigure { way, nanos, far_nanos, .. } in figures.iter().filter(|it| same(it, head))
        {
            let far = far_nanos.map(|far| format!(" {far:.0} |")).unwrap_or_default();
            text += &format!("| {way} | {nanos:.0} | {:.2} |{far}\n", nanos / head.nanos);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_to_the_first_way_of_the_same_kind() {
        let figure = |direction, way: &str, nanos, far_nanos| DeviceFigure {
            device: "tap".to_owned(),
            direction,
            frame: 1514,
            way: way.to_owned(),
            nanos,
            far_nanos,
        };
        let text = tables(&[
            figure(Direction::Send, "writev", 1000.0, None),
            figure(Direction::Receive, "read", 500.0, Some(700.0)),
            figure(Direction::Send, "two threads", 600.0, None),
        ]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "| tap, send 1514 B | ns | ratio |");
        assert_eq!(lines[3..5], ["| writev | 1000 | 1.00 |", "| two threads | 600 | 0.60 |"]);
        assert_eq!(lines[6], "| tap, receive 1514 B | ns | ratio | far end, ns |");
        assert_eq!(lines[8], "| read | 500 | 1.00 | 700 |");
    }
}
