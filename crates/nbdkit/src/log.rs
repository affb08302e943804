//! Messages of Tasuki's crates in nbdkit's log, from the level that TASUKI_LOG names (`warn` if it
//! names none). Those below `warn` are seen with `nbdkit -v`.

use std::io::{self, Write};

use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::nbdkit;

/// Messages go to nbdkit from now on.
pub(crate) fn start() {
    let asked = std::env::var("TASUKI_LOG").unwrap_or_default();
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::WARN.into());
    let filter = filter.parse(&asked).unwrap_or_else(|error| {
        nbdkit::error(&format!("TASUKI_LOG is ignored: {error}"));
        EnvFilter::new("warn")
    });
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(NbdkitLog);
    // There is no other in this library.
    let _ = lines.without_time().with_ansi(false).with_level(false).with_target(false).try_init();
}

/// Makes writers for messages.
struct NbdkitLog;

/// Writes one message.
struct MessageWriter {
    important: bool,
}

impl<'a> MakeWriter<'a> for NbdkitLog {
    type Writer = MessageWriter;

    fn make_writer(&'a self) -> MessageWriter {
        MessageWriter { important: true }
    }

    fn make_writer_for(&'a self, message: &Metadata<'_>) -> MessageWriter {
        MessageWriter { important: *message.level() <= Level::WARN }
    }
}

impl Write for MessageWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        match self.important {
            true => nbdkit::error(text.trim_end()),
            false => nbdkit::debug(text.trim_end()),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_important_or_not() {
        let lines = tracing_subscriber::fmt().with_writer(NbdkitLog).without_time();
        let lines = lines.with_max_level(Level::DEBUG).with_ansi(false).with_level(false);
        tracing::subscriber::with_default(lines.with_target(false).finish(), || {
            tracing::warn!(lun = 3, "lost");
            tracing::info!("back");
        });
        assert_eq!(nbdkit::told(), ["error: lost lun=3", "debug: back"]);
    }
}
