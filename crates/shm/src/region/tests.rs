use std::sync::atomic::Ordering;

use proptest::prelude::*;

use super::*;

fn region(len: usize) -> (Arc<Region>, OwnedFd) {
    Region::create("shm-test", len, Backing::Small).unwrap()
}

/// RFC 1071, 4.1, word by word.
fn naive_sum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        sum = (sum >> 16) + (sum & 0xffff);
    }
    u16::try_from(sum).unwrap()
}

#[test]
fn create_rounds_up_and_seals() {
    let (region, fd) = region(PAGE + 1);
    assert_eq!((region.len(), region.backing()), (2 * PAGE, Backing::Small));
    assert!(rustix::fs::ftruncate(&fd, PAGE as u64).is_err(), "shrinking");
    assert!(rustix::fs::ftruncate(&fd, 3 * PAGE as u64).is_err(), "growing");
    assert!(rustix::fs::fcntl_add_seals(&fd, SealFlags::WRITE).is_err(), "more seals");
    assert!(rustix::io::fcntl_getfd(&fd).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
}

#[test]
fn two_mappings_see_the_same_bytes() {
    let (ours, fd) = region(2 * PAGE);
    let theirs = Region::map(fd.as_fd(), 2 * PAGE, Access::ReadWrite).unwrap();
    ours.write(PAGE - 2, b"across a page").unwrap();
    let mut got = [0; 13];
    theirs.read(PAGE - 2, &mut got).unwrap();
    assert_eq!(&got, b"across a page");
    ours.word64(8).unwrap().store(7, Ordering::Release);
    assert_eq!(theirs.word64(8).unwrap().load(Ordering::Acquire), 7);
    assert_eq!(format!("{:?}", theirs.word64(8).unwrap()), "7");
}

#[test]
fn a_word_keeps_its_region_mapped() {
    let word = region(PAGE).0.word32(64).unwrap();
    word.fetch_add(3, Ordering::Relaxed);
    assert_eq!(word.clone().load(Ordering::Relaxed), 3);
    assert_eq!(word.region().len(), PAGE);
}

#[test]
fn ranges_are_checked() {
    let (region, _fd) = region(PAGE);
    let outside = |offset, len| OutOfRange { offset, len, region: PAGE };
    assert_eq!(region.read(PAGE, &mut [0; 1]), Err(outside(PAGE, 1)));
    assert_eq!(region.write(usize::MAX, &[0; 2]), Err(outside(usize::MAX, 2)));
    assert_eq!(region.checksum(1, PAGE), Err(outside(1, PAGE)));
    assert_eq!(region.as_ptr(0, PAGE + 1), Err(outside(0, PAGE + 1)));
    assert!(region.read(PAGE, &mut []).is_ok());
    for offset in [1, 2, 3, 5, PAGE, PAGE - 2, usize::MAX - 3] {
        assert!(region.word32(offset).is_err(), "{offset}");
        assert!(region.word64(offset).is_err(), "{offset}");
    }
    assert!(region.word32(PAGE - 4).is_ok() && region.word64(PAGE - 8).is_ok());
    assert!(region.word64(4).is_err());
}

/// The choice is not the reader's: its descriptor allows no more.
#[test]
fn a_read_only_descriptor_cannot_be_mapped_for_writing() {
    let (ours, fd) = region(PAGE);
    let given = Region::read_only(fd.as_fd()).unwrap();
    let theirs = Region::map(given.as_fd(), PAGE, Access::ReadOnly).unwrap();
    ours.write(0, b"ab").unwrap();
    let mut got = [0; 2];
    theirs.read(0, &mut got).unwrap();
    assert_eq!(&got, b"ab");
    let refused = Region::map(given.as_fd(), PAGE, Access::ReadWrite).unwrap_err();
    assert!(matches!(refused, RegionError::System { errno: Errno::ACCESS, .. }), "{refused}");
    assert_eq!(rustix::io::pwrite(&given, b"x", 0), Err(Errno::BADF));
    // A writer that comes later, such as a restarted server, maps the first descriptor.
    Region::map(fd.as_fd(), PAGE, Access::ReadWrite).unwrap();
    // Only root may open it again for writing.
    let mode = rustix::fs::fstat(&given).unwrap().st_mode;
    assert_eq!(mode & 0o777, 0o400);
}

#[test]
fn a_read_only_mapping_refuses_writes() {
    let (ours, fd) = region(PAGE);
    let theirs = Region::map(fd.as_fd(), PAGE, Access::ReadOnly).unwrap();
    ours.write(0, b"ab").unwrap();
    let mut got = [0; 2];
    theirs.read(0, &mut got).unwrap();
    assert_eq!(&got, b"ab");
    assert_eq!(theirs.checksum(0, 2), Ok(0x6162));
    assert_eq!(theirs.write(0, b"x"), Err(OutOfRange { offset: 0, len: 1, region: 0 }));
    assert!(theirs.word32(0).is_err() && theirs.word64(0).is_err());
}

#[test]
fn memfds_that_no_supervisor_sends_are_refused() {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("shm-test", flags).unwrap();
    rustix::fs::ftruncate(&fd, PAGE as u64).unwrap();
    let map = |len| Region::map(fd.as_fd(), len, Access::ReadWrite).map(|_| ());
    assert!(matches!(map(PAGE), Err(RegionError::Unsealed)));
    rustix::fs::fcntl_add_seals(&fd, SealFlags::GROW).unwrap();
    assert!(matches!(map(PAGE), Err(RegionError::Unsealed)));
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
    assert!(matches!(map(PAGE), Ok(())));
    assert!(
        matches!(map(PAGE + 1), Err(RegionError::TooShort { want, have: 4096 }) if want == 2 * PAGE)
    );
    assert!(matches!(map(usize::MAX), Err(RegionError::System { errno: Errno::OVERFLOW, .. })));
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let not_a_memfd = Region::map(file.as_fd(), PAGE, Access::ReadOnly);
    assert!(matches!(not_a_memfd, Err(RegionError::Unsealed)));
}

#[test]
fn huge_pages_or_small_ones_but_a_region() {
    let (region, fd) = Region::create("shm-test", 3 << 20, Backing::Huge).unwrap();
    let len = match region.backing() {
        Backing::Huge => 4 << 20,
        Backing::Small => 3 << 20,
    };
    assert_eq!(region.len(), len);
    region.write(len - 1, b"x").unwrap();
    let theirs = Region::map(fd.as_fd(), 3 << 20, Access::ReadOnly).unwrap();
    assert_eq!((theirs.len(), theirs.backing()), (len, region.backing()));
    let strict = Region::map_strict(fd.as_fd(), 3 << 20);
    assert_eq!(strict.is_ok(), region.backing() == Backing::Small);
    assert_eq!(format!("{} {}", Backing::Small, Backing::Huge), "4k 2M");
}

#[test]
fn a_large_region_takes_memory_only_where_touched() {
    let (region, fd) = region(4 << 30);
    region.write((4 << 30) - 1, b"x").unwrap();
    let blocks = rustix::fs::fstat(&fd).unwrap().st_blocks;
    assert!(blocks * 512 <= 4 << 20, "{blocks} blocks for one byte");
}

proptest! {
    #[test]
    fn checksum_is_the_naive_sum(
        bytes in prop::collection::vec(any::<u8>(), 0..3000),
        at in 0_usize..70,
    ) {
        let (region, _fd) = region(2 * PAGE);
        region.write(at, &bytes).unwrap();
        prop_assert_eq!(region.checksum(at, bytes.len()).unwrap(), naive_sum(&bytes));
    }
}

#[test]
fn checksum_of_the_largest_words_over_many_blocks() {
    let (region, _fd) = region(4 << 20);
    let len = (3 << 20) + 77;
    region.write(5, &vec![0xff; len]).unwrap();
    assert_eq!(region.checksum(5, len).unwrap(), naive_sum(&vec![0xff; len]));
    assert_eq!(region.checksum((3 << 20) + 82, 1000).unwrap(), 0, "nothing but zeros");
}

#[test]
fn after_the_writers_are_sealed_others_only_read() {
    let (ours, fd) = Region::create_unsealed("shm-test", PAGE, Backing::Small).unwrap();
    Region::seal_writers(fd.as_fd()).unwrap();
    assert!(Region::map(fd.as_fd(), PAGE, Access::ReadWrite).is_err());
    let theirs = Region::map(fd.as_fd(), PAGE, Access::ReadOnly).unwrap();
    ours.write(1, b"still").unwrap();
    let mut got = [0; 5];
    theirs.read(1, &mut got).unwrap();
    assert_eq!(&got, b"still");
    assert!(rustix::io::write(&fd, b"x").is_err(), "through the descriptor");
    // Nor by another way to the same memory.
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
    let flags = rustix::fs::OFlags::RDWR;
    if let Ok(again) = rustix::fs::open(path, flags, rustix::fs::Mode::empty()) {
        assert!(Region::map(again.as_fd(), PAGE, Access::ReadWrite).is_err());
    }
    assert!(rustix::fs::ftruncate(&fd, 2 * PAGE as u64).is_err(), "growing");
    let (_region, sealed) = region(PAGE);
    assert!(Region::seal_writers(sealed.as_fd()).is_err(), "its writers are not known");
}

/// Long copies are made in pieces where both sides lie near each other in their pages.
#[test]
fn copies_are_whole_wherever_both_sides_lie() {
    let (region, _) = region(4 * PAGE);
    let bytes: Vec<u8> = (0..PAGE + 77).map(|at| (at % 251) as u8).collect();
    let lengths = [0, PIECE, PIECE + 1, 2 * PIECE, bytes.len()];
    for (offset, len) in (0..PAGE).flat_map(|offset| lengths.map(|len| (offset, len))) {
        let mut into = vec![0; len + 1];
        region.write(offset, &bytes[..len]).unwrap();
        region.read(offset, &mut into[..len]).unwrap();
        assert!(into[..len] == bytes[..len] && into[len] == 0, "{len} bytes at {offset}");
    }
}
