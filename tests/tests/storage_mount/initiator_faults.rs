//! What the end of an initiator, or of the stack below it, leaves on the disk.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::process::{Signal, kill_process};
use tasuki_tests::eventually;

use crate::disk_world::{DiskWorld, Image};
use crate::seeded::Seeded;

/// Bytes that are written in one piece.
const BLOCK: usize = 4096;
/// Blocks that are written.
const BLOCKS: usize = 512;

/// Writes and flushes blocks at random until the mount is dead. Returns the values that each block
/// may have: what was flushed last, and what was written after that.
fn write_until_dead(file: &File, seed: u64, go_on: &AtomicU64) -> Vec<Vec<u64>> {
    let mut seeded = Seeded(seed);
    let mut blocks = vec![vec![0]; BLOCKS];
    let dead = |error: &std::io::Error| {
        let errno = Errno::from_io_error(error);
        // A request that is under way when the stack ends has failed.
        let ended = [Errno::NOTCONN, Errno::CONNABORTED, Errno::IO];
        assert!(errno.is_some_and(|errno| ended.contains(&errno)), "{error}");
    };
    for value in 1_u64.. {
        let block = usize::try_from(seeded.below(BLOCKS as u64)).unwrap();
        blocks[block].push(value);
        let bytes: Vec<u8> = value.to_le_bytes().into_iter().cycle().take(BLOCK).collect();
        if let Err(error) = file.write_all_at(&bytes, (block * BLOCK) as u64) {
            dead(&error);
            break;
        }
        if seeded.below(8) == 0 {
            if let Err(error) = file.sync_data() {
                dead(&error);
                break;
            }
            blocks.iter_mut().for_each(|values| drop(values.drain(..values.len() - 1)));
        }
        go_on.fetch_add(1, Ordering::Relaxed);
    }
    blocks
}

/// Kills the process of the mount, or the stack below it, at a random moment.
fn kill_the_initiator(world: &DiskWorld, image: &Image, stack: bool, seed: u64) {
    let mount = world.mount(0, &[]);
    let file = mount.open();
    // Another round's bytes are zero again.
    file.write_all_at(&vec![0; BLOCKS * BLOCK], 0).unwrap();
    file.sync_all().unwrap();
    let writes = AtomicU64::new(0);
    let blocks = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_until_dead(&file, seed, &writes));
        eventually("writes are made", || writes.load(Ordering::Relaxed) > 20);
        Seeded(seed + 7).pause(100);
        if stack {
            world.restart_stack_of_mounts();
        } else {
            let all = world.mount_processes();
            all.into_iter().for_each(|pid| kill_process(pid, Signal::KILL).unwrap());
        }
        writer.join().unwrap()
    });
    drop(file);
    world.unmount_with(&["umount"], &mount.point());
    eventually("its process has ended", || world.mount_processes().is_empty());
    world.drop_log(&mount);
    // The next session sees the same.
    let mount = world.mount(0, &[]);
    let bytes = std::fs::read(mount.disk()).unwrap();
    mount.unmount();
    let bytes_of_image = std::fs::read(&image.path).unwrap();
    assert!(bytes == bytes_of_image, "seed {seed}: disk and image");
    for (number, (bytes, values)) in bytes.chunks(BLOCK).zip(&blocks).enumerate() {
        let value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        let whole = bytes.chunks(8).all(|part| part == value.to_le_bytes());
        assert!(whole, "seed {seed}: block {number} is torn");
        assert!(values.contains(&value), "seed {seed}: block {number} has {value} of {values:?}");
    }
}

fn kill_initiators(stack: bool, seeds: std::ops::Range<u64>) {
    let Some(world) = DiskWorld::new(&[]) else { return };
    let image = world.image("a.img");
    world.target_up(&[&image.lun]);
    seeds.for_each(|seed| kill_the_initiator(&world, &image, stack, seed));
    world.end();
}

#[test]
fn what_is_flushed_outlives_the_initiator() {
    kill_initiators(false, 100..104);
}

#[test]
fn what_is_flushed_outlives_the_stack_of_the_initiator() {
    kill_initiators(true, 200..203);
}

/// 200 random moments.
#[test]
#[ignore = "takes minutes"]
fn an_initiator_that_is_killed_again_and_again() {
    kill_initiators(false, 300..500);
}

/// 200 random moments.
#[test]
#[ignore = "takes minutes"]
fn a_stack_of_the_initiator_that_is_killed_again_and_again() {
    kill_initiators(true, 500..700);
}
