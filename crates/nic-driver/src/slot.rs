//! The slot of a driver's device: the device may be lost and come back.
//!
//! While the slot is empty nothing is received, and frames to send are dropped and counted, as on
//! an unplugged cable. Connections go on as soon as there is a device again. The interface stays
//! registered with the same [`Features`], so a device that does less does not fit.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use abi::offload::{Features, RxOffload, TxOffload};
use shm::descriptors::keep;

use crate::device::{Device, Part, Pending, Placed, Received};

/// See the module's head.
pub(crate) struct DeviceSlot {
    device: Option<Box<dyn Device>>,
    features: Features,
    /// Never readable: the descriptor to wait for without a device.
    nothing: OwnedFd,
    dropped: u64,
    lost: u64,
}

impl DeviceSlot {
    /// With a device in it.
    ///
    /// # Errors
    /// The system's, when no descriptor is left.
    pub(crate) fn new(device: Box<dyn Device>) -> io::Result<Self> {
        let (features, nothing) = (device.features(), keep(shm::eventfd()?));
        Ok(Self { device: Some(device), features, nothing, dropped: 0, lost: 0 })
    }

    /// Does a device do all that the interface was registered with?
    pub(crate) fn fits(&self, device: &dyn Device) -> bool {
        device.features().has(self.features)
    }

    /// Another device, or none; the former one. The descriptor to wait for is another then.
    pub(crate) fn replace(&mut self, device: Option<Box<dyn Device>>) -> Option<Box<dyn Device>> {
        self.lost += u64::from(device.is_none() && self.device.is_some());
        std::mem::replace(&mut self.device, device)
    }
}

impl Device for DeviceSlot {
    fn features(&self) -> Features {
        self.features
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<Received>> {
        self.device.as_mut().map_or(Ok(None), |device| device.receive(into))
    }

    fn receive_unsolicited(&mut self, into: &mut [u8]) -> io::Result<Option<Received>> {
        self.device.as_mut().map_or(Ok(None), |device| device.receive_unsolicited(into))
    }

    fn unsolicited_fd(&self) -> Option<BorrowedFd<'_>> {
        self.device.as_ref().and_then(|device| device.unsolicited_fd())
    }

    fn datagrams_fd(&self) -> Option<BorrowedFd<'_>> {
        self.device.as_ref().and_then(|device| device.datagrams_fd())
    }

    fn datagrams_reported(&mut self) {
        if let Some(device) = &mut self.device {
            device.datagrams_reported();
        }
    }

    fn set_crowded(&mut self, crowded: bool) {
        if let Some(device) = &mut self.device {
            device.set_crowded(crowded);
        }
    }

    fn post(&mut self, at: usize) -> bool {
        self.device.as_mut().is_some_and(|device| device.post(at))
    }

    fn receive_posted(&mut self) -> io::Result<Option<Placed>> {
        self.device.as_mut().map_or(Ok(None), |device| device.receive_posted())
    }

    fn look_at(&mut self, frame: &[u8]) -> RxOffload {
        self.device.as_mut().map_or(RxOffload::NONE, |device| device.look_at(frame))
    }

    fn transmit(&mut self, frame: &[Part<'_>], offload: TxOffload) -> io::Result<bool> {
        if let Some(device) = &mut self.device {
            return device.transmit(frame, offload);
        }
        self.dropped += 1;
        Ok(true)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.device.as_mut().map_or(Ok(()), |device| device.flush())
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.device.as_ref().map_or(self.nothing.as_fd(), |device| device.poll_fd())
    }

    fn room_is_readable(&self) -> bool {
        self.device.as_ref().is_some_and(|device| device.room_is_readable())
    }

    fn prepare_sleep(&mut self, receive: bool) -> bool {
        self.device.as_mut().is_none_or(|device| device.prepare_sleep(receive))
    }

    fn awake(&mut self, ready: bool) {
        if let Some(device) = &mut self.device {
            device.awake(ready);
        }
    }

    fn pending(&self) -> Pending {
        self.device.as_ref().map_or(Pending::default(), |device| device.pending())
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("nic.devices-lost", self.lost);
        each("nic.tx-no-device", self.dropped);
        if let Some(device) = &self.device {
            device.counters(each);
        }
    }
}
