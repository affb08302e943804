//! `tasuki run --trace`: a line for each call that goes to Tasuki, as strace prints them.
//!
//! ```text
//! 4711 1764000000.123456 connect(3, {AF_INET, 10.219.0.1:80}, 16) = 0 <0.000213>
//! ```
//!
//! The variable `TASUKI_TRACE` says where lines go: `-` is standard error, anything else a file.
//! [`is_on`] is one load; all else is out of the calls' way. A line is one write(2). Nothing here
//! allocates or locks, so calls of signal handlers have their lines as well.

mod arguments;
mod line;
mod output;
mod symbols;

use core::cell::Cell;

use rustix::time::{ClockId, clock_gettime};

use self::arguments::with_kinds;
use self::line::Line;
pub(crate) use self::line::{Raw, Shown};
use crate::{duties, errno};

thread_local! {
    /// This thread is in a traced call, whose own calls are no lines.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Are calls traced?
#[inline]
pub(crate) fn is_on() -> bool {
    duties::has(duties::TRACE)
}

/// Once per process image: are they to be traced?
pub(crate) fn begin() {
    if output::open() {
        duties::add(duties::TRACE);
    }
}

/// This thread's end of a traced call, by return or by cancellation.
struct Inside;

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

/// Makes `call` and prints its line. `None`: the call is within another one, or has no line. Then
/// it is not made.
#[cold]
pub(crate) fn traced<T: Shown>(
    name: &str,
    arguments: &[u64],
    call: impl FnOnce() -> T,
) -> Option<T> {
    let kinds = arguments::kinds(name)?;
    if INSIDE.replace(true) {
        return None;
    }
    let inside = Inside;
    let wall = clock_gettime(ClockId::Realtime);
    let begun = clock_gettime(ClockId::Monotonic);
    let result = call();
    let ended = clock_gettime(ClockId::Monotonic);
    let errno = errno::number();
    let mut line = Line::begin(wall);
    line.call(name, &with_kinds(kinds, arguments), result.value());
    line.result(result.value(), errno);
    let nanos = (ended.tv_sec - begun.tv_sec) * 1_000_000_000 + ended.tv_nsec - begun.tv_nsec;
    line.end(nanos);
    output::write(line.bytes());
    errno::set_number(errno);
    drop(inside);
    Some(result)
}
