//! How many receive queues an interface may have: what `ethtool -l` shows.

use crate::ethtool::{self, ReceiveQueues};

/// What is wrong with the queues of the interface `name`, of which the first is served, if
/// something is. One whose driver tells nothing of queues has one.
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
