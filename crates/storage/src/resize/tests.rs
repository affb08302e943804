use std::collections::BTreeMap;
use std::fs::File;
use std::future::Future;

use iscsi::settings::DigestPreference;
use scsi::{Command, LunAddress, NexusId, TaskAttribute, UnitRights};
use tokio::task::{LocalSet, spawn_local, yield_now};

use super::*;
use crate::access::AccessPolicy;
use crate::definition::{LunDefinition, TargetDefinition};
use crate::identity::IdentityRegister;
use crate::transport::PortalTransport;

const LUN: LunNumber = LunNumber::new(0).unwrap();
const MIB: u64 = 1 << 20;

/// Runs a test with a device of one unit.
fn with_device<F: Future<Output = ()>>(lun: &str, test: impl FnOnce(Rc<Device>) -> F) {
    let luns = BTreeMap::from([(LUN, lun.parse::<LunDefinition>().unwrap())]);
    let name = "iqn.2026-11.tasuki:disks".parse().unwrap();
    let portal = "127.0.0.1:3260".parse().unwrap();
    let (access, transport) = (AccessPolicy::default(), PortalTransport::Plain);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let register = IdentityRegister::default();
        let (state, digest) = (None, DigestPreference::default());
        let definition =
            TargetDefinition { name, luns, portal, transport, digest, state, register, access };
        test(Device::new(&definition).unwrap()).await;
    });
}

/// READ CAPACITY (10) of a session: the last block, or the sense data.
fn last_block(device: &Device, nexus: NexusId) -> Result<u32, Vec<u8>> {
    let cdb = [0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let command = Command {
        nexus,
        lun: LunAddress::Unit(LUN),
        cdb: &cdb,
        expected_in: 8,
        expected_out: 0,
        attribute: TaskAttribute::Simple,
    };
    let task = device.scsi.borrow_mut().begin(&command);
    let response = task.response().expect("it ends at once");
    match &response.data_in {
        scsi::DataIn::Bytes(bytes) => Ok(u32::from_be_bytes(bytes[..4].try_into().unwrap())),
        _ => Err(response.sense.to_vec()),
    }
}

fn session(device: &Device) -> NexusId {
    let nexus = device.add_nexus("iqn.a", [0; 6], UnitRights::EVERYTHING).unwrap();
    assert!(last_block(device, nexus).is_err(), "the power on");
    nexus
}

#[track_caller]
fn capacity_has_changed(device: &Device, nexus: NexusId) {
    let sense = last_block(device, nexus).expect_err("a unit attention");
    assert_eq!((sense[2], sense[12], sense[13]), (6, 0x2a, 0x09));
}

#[test]
fn a_file_grows_and_shrinks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    File::create(&path).unwrap().set_len(MIB).unwrap();
    with_device(&format!("file:{}", path.display()), |device| async move {
        let nexus = session(&device);
        let len = || std::fs::metadata(&path).unwrap().len();
        for bytes in [3 * MIB, MIB / 2] {
            assert_eq!(resize(&device, LUN, Some(bytes)).await.unwrap(), bytes);
            assert_eq!(len(), bytes);
            capacity_has_changed(&device, nexus);
            assert_eq!(last_block(&device, nexus), Ok(u32::try_from(bytes / 512).unwrap() - 1));
        }
        // Somebody else changes the file.
        for bytes in [5 * MIB + 100, MIB] {
            File::options().write(true).open(&path).unwrap().set_len(bytes).unwrap();
            assert_eq!(resize(&device, LUN, None).await.unwrap(), bytes - bytes % 512);
            assert_eq!(len(), bytes, "it stays as it is");
            capacity_has_changed(&device, nexus);
            assert_eq!(last_block(&device, nexus), Ok(u32::try_from(bytes / 512).unwrap() - 1));
        }
        resize(&device, LUN, None).await.unwrap();
        last_block(&device, nexus).expect("nothing has changed");
    });
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    with_device("memory:1M,block=4096", |device| async move {
        let refused = |lun, bytes| {
            let device = Rc::clone(&device);
            async move {
                let error = resize(&device, LunNumber::new(lun).unwrap(), bytes).await;
                error.expect_err("it is refused").to_string()
            }
        };
        for (lun, bytes, why) in [
            (1, Some(MIB), "there is no logical unit 1"),
            (0, None, "say the new one"),
            (0, Some(512), "less than a block of 4096"),
            (0, Some(MIB + 512), "no whole number of blocks"),
        ] {
            let error = refused(lun, bytes).await;
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(device.volume(LUN).unwrap().size(), MIB);
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    File::create(&path).unwrap().set_len(MIB).unwrap();
    with_device(&format!("file:{},ro", path.display()), |device| async move {
        let error = resize(&device, LUN, Some(2 * MIB)).await.unwrap_err().to_string();
        assert!(error.contains("read-only"), "{error}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), MIB);
    });
}

/// Commands behind the new end are refused at once; those that have begun there find their bytes.
#[test]
fn a_unit_shrinks_when_its_commands_have_ended() {
    with_device("memory:1M", |device| async move {
        let nexus = session(&device);
        let volume = device.volume(LUN).unwrap();
        let tail = ByteRange { offset: MIB - 512, len: 512 };
        let claims = vec![Claim { lun: Some(LUN), range: tail, hold: Hold::Shared }];
        let command = device.lock(u64::MAX, &Access { claims, ..Access::default() }).unwrap();
        let (shrinking, shrunk) = (Rc::clone(&device), tokio::sync::oneshot::channel());
        spawn_local(async move {
            let _ = shrunk.0.send(resize(&shrinking, LUN, Some(MIB / 2)).await);
        });
        for _ in 0..8 {
            yield_now().await;
        }
        capacity_has_changed(&device, nexus);
        assert_eq!(last_block(&device, nexus), Ok(1023));
        assert_eq!(volume.size(), MIB, "a command is under way there");
        let error = resize(&device, LUN, Some(MIB)).await.unwrap_err();
        assert!(matches!(error, ResizeError::Busy(0)), "{error}");
        volume.write(tail.offset, &[bytes::Bytes::from_static(&[7; 512])], false).await.unwrap();
        drop(command);
        assert_eq!(shrunk.1.await.unwrap().unwrap(), MIB / 2);
        assert_eq!(volume.size(), MIB / 2);
        assert_eq!(volume.specification().to_string(), "memory:524288");
        // What was there does not come back.
        resize(&device, LUN, Some(MIB)).await.unwrap();
        let bytes = volume.read(tail.offset, 512).await.unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0));
    });
}

#[test]
fn a_unit_that_goes_meanwhile_is_not_resized() {
    with_device("memory:1M", |device| async move {
        let claims = vec![Claim {
            lun: Some(LUN),
            range: ByteRange { offset: 0, len: MIB },
            hold: Hold::Shared,
        }];
        let command = device.lock(u64::MAX, &Access { claims, ..Access::default() }).unwrap();
        let (shrinking, shrunk) = (Rc::clone(&device), tokio::sync::oneshot::channel());
        spawn_local(async move {
            let _ = shrunk.0.send(resize(&shrinking, LUN, Some(MIB / 2)).await);
        });
        yield_now().await;
        device.remove_lun(LUN).unwrap();
        let unit: LunDefinition = "memory:1M".parse().unwrap();
        let opened = unit.open(&IdentityRegister::default()).unwrap();
        device.add_lun(LUN, &unit, opened).unwrap();
        drop(command);
        assert!(matches!(shrunk.1.await.unwrap(), Err(ResizeError::NoUnit(0))));
        assert_eq!(device.volume(LUN).unwrap().size(), MIB);
    });
}
