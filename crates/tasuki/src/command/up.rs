//! `tasuki up`: an instance that programs share.

use crate::cli::UpArgs;
use crate::command::background::{self, Ready};
use crate::exit::{Code, Failure};
use crate::runtime_dir::RuntimeDir;
use crate::settings::Settings;
use crate::supervisor::{Instance, Signals, Supervisor, Workload};

/// Starts the instance, or is it.
///
/// # Errors
/// Why it did not start, or (in the foreground) did not go on.
pub(crate) fn up(args: &UpArgs) -> Result<u8, Failure> {
    if let Some(log) = background::log_path() {
        return background::work(&log, |ready| {
            let settings = Settings::new(args.name.clone(), &args.options)?;
            std::env::set_current_dir("/")
                .map_err(|error| Failure::system("change to /", error))?;
            serve(settings, ready)
        });
    }
    let settings = Settings::new(args.name.clone(), &args.options)?;
    if args.foreground {
        return serve(settings, Box::new(background::notify));
    }
    // The log of a running instance must not be overwritten. If the instance runs, report just
    // that.
    if let Ok(_running) = crate::operator::Operator::connect(&args.name) {
        let name = &args.name;
        let sentence =
            format!("instance {name} is already running; end it with `tasuki down {name}`");
        return Err(Failure::new(Code::AlreadyRunning, sentence));
    }
    background::detach(RuntimeDir::make()?.make_log(args.name.as_str())?)
}

fn serve(settings: Settings, ready: Ready) -> Result<u8, Failure> {
    let signals = Signals::catch()?;
    let instance = Instance::make(settings)?;
    Supervisor::start(instance, signals, Workload::Serve(ready))?.run()
}
