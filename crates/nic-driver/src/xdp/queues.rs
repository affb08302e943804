//! How many receive queues an interface may have, as `ethtool -l` shows it.

use crate::ethtool::{self, ReceiveQueues};

/// The fault in the queues of the interface `name`, if there is one. The first queue is served. An
/// interface whose driver reports nothing about queues has one.
pub(super) fn too_many(name: &str) -> Option<String> {
    let ReceiveQueues { receive, combined } = ethtool::receive_queues(name)?;
    let count = receive.saturating_add(combined);
    // Where both kinds are, the combined ones come first.
    let kind = if combined > 0 { "combined" } else { "rx" };
    (count > 1).then(|| {
        format!(
            "it has {count} receive queues, of which one could be served: \
             `ethtool -L {name} {kind} 1`"
        )
    })
}
