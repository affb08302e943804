use std::fs::File;
use std::future::Future;
use std::path::Path;

use bytes::Bytes;
use scsi::{
    Allocation, ByteRange, Extent, ExtentState, MediumError, MediumOperation, MediumOutput,
};

use super::{OpenError, Volume, VolumeSpecification, VolumeUse};
use crate::identity::IdentityRegister;
use crate::ring::Ring;

const SIZE: u64 = 1 << 20;
const BLOCK: u32 = 512;

/// Runs what `test` gives with a ring.
fn with_ring<F: Future<Output = ()>>(test: impl FnOnce(std::rc::Rc<Ring>) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let ring = Ring::new().unwrap();
        tokio::select! {
            ended = ring.run() => panic!("the ring ended: {ended:?}"),
            () = test(ring.clone()) => {}
        }
    });
}

fn image(folder: &Path) -> VolumeSpecification {
    let path = folder.join("image");
    File::create(&path).unwrap().set_len(SIZE).unwrap();
    VolumeSpecification::File(path)
}

fn try_open(volume: &VolumeSpecification, ring: &std::rc::Rc<Ring>) -> Result<Volume, OpenError> {
    let opened = volume.open(BLOCK, false, &IdentityRegister::default())?;
    let wanted = VolumeUse { lun: 0, block_size: BLOCK, read_only: false };
    Volume::new(volume, opened, wanted, ring)
}

fn open(volume: &VolumeSpecification, ring: &std::rc::Rc<Ring>) -> Volume {
    try_open(volume, ring).unwrap()
}

/// The same operations on a volume and on plain bytes.
async fn compare(volume: &Volume) {
    let mut model = vec![0_u8; SIZE as usize];
    let mut seed = 7_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    for number in 0..400_u64 {
        let offset = random(SIZE / 512 - 300) * 512;
        let len = (1 + random(300)) * 512;
        let range = ByteRange { offset, len };
        let (start, end) = (offset as usize, (offset + len) as usize);
        let fill = number as u8 | 1;
        match random(4) {
            0 => {
                // In pieces, none of which is aligned.
                let bytes = Bytes::from(vec![fill; len as usize]);
                let pieces = [bytes.slice(..100), bytes.slice(100..)];
                volume.write(offset, &pieces, number % 5 == 0).await.unwrap();
                model[start..end].fill(fill);
            }
            1 => {
                let block = Bytes::from(vec![fill; 512]);
                let operation = MediumOperation::WriteSame { range, block };
                assert_eq!(volume.operate(&operation).await, Ok(MediumOutput::Done));
                model[start..end].fill(fill);
            }
            2 => {
                let all = [Allocation::Deallocate, Allocation::Anchor, Allocation::Write];
                let allocation = all[number as usize % 3];
                let operation = MediumOperation::Zero { range, allocation };
                assert_eq!(volume.operate(&operation).await, Ok(MediumOutput::Done));
                model[start..end].fill(0);
            }
            _ => {
                let read = volume.read(offset, len as usize).await.unwrap();
                assert!(read[..] == model[start..end], "operation {number} at {offset}");
            }
        }
    }
    assert_eq!(volume.operate(&MediumOperation::Flush).await, Ok(MediumOutput::Done));
    assert!(volume.read(0, SIZE as usize).await.unwrap()[..] == model[..]);
}

#[test]
fn volumes_hold_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    with_ring(async |ring| {
        compare(&open(&image(folder.path()), &ring)).await;
        compare(&open(&VolumeSpecification::Memory(SIZE), &ring)).await;
    });
}

#[test]
fn holes_are_told_and_made() {
    let folder = tempfile::tempdir().unwrap();
    with_ring(async |ring| {
        for volume in [image(folder.path()), VolumeSpecification::Memory(SIZE)] {
            let volume = open(&volume, &ring);
            let written = Bytes::from(vec![1; 128 << 10]);
            volume.write(256 << 10, &[written], false).await.unwrap();
            let map = MediumOperation::Map { range: ByteRange { offset: 0, len: SIZE }, most: 8 };
            let extent = |kib: u64, state| Extent { len: kib << 10, state };
            let (hole, data) = (ExtentState::Deallocated, ExtentState::Mapped);
            let expected = vec![extent(256, hole), extent(128, data), extent(640, hole)];
            assert_eq!(volume.operate(&map).await, Ok(MediumOutput::Extents(expected)));
            let ranges = vec![ByteRange { offset: 0, len: SIZE }];
            let unmap = MediumOperation::Unmap { ranges, anchor: false };
            assert_eq!(volume.operate(&unmap).await, Ok(MediumOutput::Done));
            let expected = vec![extent(1024, hole)];
            assert_eq!(volume.operate(&map).await, Ok(MediumOutput::Extents(expected)));
        }
    });
}

#[test]
fn a_file_that_shrinks_is_a_read_error_at_its_end() {
    let folder = tempfile::tempdir().unwrap();
    with_ring(async |ring| {
        let volume = open(&image(folder.path()), &ring);
        let file = File::options().write(true).open(folder.path().join("image")).unwrap();
        file.set_len(8192).unwrap();
        assert_eq!(volume.read(4096, 8192).await, Err(MediumError::Read(8192)));
        assert_eq!(volume.read(0, 8192).await.unwrap().len(), 8192);
    });
}

/// Memory is used again for other units and other initiators.
#[test]
fn no_volume_shows_bytes_of_another() {
    let folder = tempfile::tempdir().unwrap();
    with_ring(async |ring| {
        let secret = open(&VolumeSpecification::Memory(SIZE), &ring);
        let many = Bytes::from(vec![0x5e; SIZE as usize]);
        secret.write(0, std::slice::from_ref(&many), true).await.unwrap();
        let file = open(&image(folder.path()), &ring);
        let shrunk = File::options().write(true).open(folder.path().join("image")).unwrap();
        shrunk.set_len(8192).unwrap();
        let hole = open(&VolumeSpecification::Memory(SIZE), &ring);
        hole.write(70_000, &[Bytes::from_static(&[7; 512])], false).await.unwrap();
        let null = open(&VolumeSpecification::Null(SIZE), &ring);
        for len in [512, 4096, 12_288, 128 << 10, 512 << 10] {
            let seen = secret.read(0, len).await.unwrap();
            assert!(seen == many[..len]);
            drop(seen);
            let zeroes = hole.read(512 << 10, len).await.unwrap();
            assert!(zeroes.len() == len && zeroes.iter().all(|byte| *byte == 0));
            drop(zeroes);
            // Its end has no bytes at all, not those that the memory had.
            let end = file.read(8192 - 512, len).await;
            assert!(end.as_ref().map_or(len > 512, |end| end[..] == [0; 512]), "{len}: {end:?}");
            assert!(null.read(0, len).await.unwrap().iter().all(|byte| *byte == 0));
        }
    });
}

/// The kernel may still write into the memory: it stays until the operation is over.
#[test]
fn an_operation_that_is_dropped_keeps_its_memory() {
    let folder = tempfile::tempdir().unwrap();
    with_ring(async |ring| {
        let volume = open(&image(folder.path()), &ring);
        for _ in 0..100 {
            let read = volume.read(0, 512 << 10);
            let _ = tokio::time::timeout(std::time::Duration::ZERO, read).await;
        }
        assert_eq!(volume.read(0, 4096).await.unwrap().len(), 4096);
    });
}

#[test]
fn what_is_no_volume_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    with_ring(async |ring| {
        let file = image(folder.path());
        let _held = open(&file, &ring);
        let other = |volume: &VolumeSpecification| try_open(volume, &ring);
        assert!(matches!(other(&file), Err(OpenError::InUse(_))));
        let folder_itself = VolumeSpecification::File(folder.path().into());
        assert!(matches!(other(&folder_itself), Err(OpenError::Kind(_))));
        let missing = VolumeSpecification::File(folder.path().join("none"));
        assert!(matches!(other(&missing), Err(OpenError::Open { .. })));
        let small = folder.path().join("small");
        File::create(&small).unwrap().set_len(511).unwrap();
        let small = VolumeSpecification::File(small);
        assert!(matches!(other(&small), Err(OpenError::TooSmall { size: 511, .. })));
    });
}
