//! What is known of the unit, from the first parameter to the last request.
//!
//! ```text
//!   config* ─▶ config_complete ─▶ get_ready ──── fork ───▶ after_fork ─▶ open* ─▶ cleanup
//!   words      options            unit, checked            disk's thread
//! ```

use std::ffi::OsStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use user::exit::Failure;
use user::parameters::{UnitArgs, in_parameters};

use crate::connection::Connection;
use crate::disk_thread::DiskThread;
use crate::failure::PluginError;
use crate::log;
use crate::nbdkit;
use crate::parameters::Parameters;
use crate::unit::Unit;

static STATE: Mutex<PluginState> =
    Mutex::new(PluginState { parameters: Parameters::new(), args: None, unit: None, disk: None });

#[derive(Debug)]
struct PluginState {
    parameters: Parameters,
    args: Option<UnitArgs>,
    unit: Option<Unit>,
    disk: Option<DiskThread>,
}

fn state() -> MutexGuard<'static, PluginState> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A failure of the start, in nbdkit's words.
fn at_start(failure: Failure) -> PluginError {
    let error = PluginError::from(failure);
    PluginError { sentence: in_parameters(&error.sentence), ..error }
}

/// nbdkit has called its functions in another order.
fn out_of_order() -> PluginError {
    PluginError::new(libc::EINVAL, "nbdkit has not made the unit ready")
}

/// A parameter.
pub(crate) fn config(key: &str, value: &OsStr) -> Result<(), PluginError> {
    state().parameters.add(key, value)
}

/// There are no more parameters.
pub(crate) fn config_complete() -> Result<(), PluginError> {
    let mut state = state();
    let args = state.parameters.parse()?;
    let key_file = args.luks.key.key_file.as_deref();
    let from_input = key_file.is_some_and(|file| file.as_os_str() == "-");
    if from_input && !nbdkit::is_input_free() {
        let sentence = "key-file=-: standard input is the client's (nbdkit -s): say a file";
        return Err(PluginError::new(libc::EINVAL, sentence));
    }
    state.args = Some(args);
    Ok(())
}

/// The last call before nbdkit goes to the background: what is wrong is said here.
pub(crate) fn get_ready() -> Result<(), PluginError> {
    log::start();
    let mut state = state();
    let args = state.args.take().ok_or_else(out_of_order)?;
    let unit = Unit::new(&args).map_err(at_start)?;
    unit.check().map_err(at_start)?;
    state.unit = Some(unit);
    Ok(())
}

/// The first call in the process that serves.
pub(crate) fn after_fork() -> Result<(), PluginError> {
    let mut state = state();
    let unit = state.unit.take().ok_or_else(out_of_order)?;
    state.disk = Some(DiskThread::start(unit).map_err(at_start)?);
    Ok(())
}

/// A client.
pub(crate) fn open() -> Result<Connection, PluginError> {
    let disk = state().disk.as_ref().map(DiskThread::handle);
    Connection::new(disk.ok_or_else(out_of_order)?)
}

/// All connections are closed.
pub(crate) fn cleanup() {
    let disk = state().disk.take();
    if let Some(disk) = disk {
        disk.end();
    }
}
