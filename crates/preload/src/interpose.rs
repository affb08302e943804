//! How calls are exported: macros that define a C function before the C library's own.

/// Defines exported calls: `fn name(arguments) -> result { ours => body }`.
///
/// When the condition `ours` does not hold, the C library's function of the same name is called,
/// and nothing else. `body` is an [`Outcome`](crate::errno::Outcome). It may be `unsafe`, as far as
/// the call's manual page makes the program responsible.
macro_rules! interpose {
    ($(
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty { $ours:expr => $body:expr }
    )*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> $ret {
            // SAFETY: the program keeps to the call's manual page: its pointers are valid for the
            // call's accesses.
            #[allow(unused_unsafe, reason = "not every condition looks at pointers")]
            let is_ours = unsafe { $ours };
            if is_ours {
                crate::interpose::trace!($name($($arg),*));
                // SAFETY: as above.
                #[allow(unused_unsafe, reason = "nor does every body")]
                return crate::edge::Return::of(move || unsafe { $body });
            }
            // SAFETY: passed on from the program.
            unsafe { crate::real::$name($($arg),*) }
        }
    )*};
}

/// The begin of an exported call, after its condition. A thread that is to be cancelled ends at a
/// cancellation point. If calls are traced, makes the call and prints its line. The call comes here
/// once more, and then goes on.
macro_rules! trace {
    ($name:ident($($arg:expr),* $(,)?)) => {
        if crate::duties::any() {
            crate::cancellation::enter(stringify!($name));
            if crate::trace::is_on() {
                let arguments = [$(crate::trace::Raw::raw($arg)),*];
                // SAFETY: passed on from the program.
                #[allow(unused_unsafe, reason = "not every call is unsafe")]
                let call = || unsafe { $name($($arg),*) };
                let done = crate::trace::traced(stringify!($name), &arguments, call);
                if let Some(result) = done {
                    return result;
                }
            }
        }
    };
}

/// Defines other names of exported calls: `fn alias(arguments) -> result = name;`.
macro_rules! alias {
    ($(fn $alias:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty = $name:ident;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $alias($($arg: $ty),*) -> $ret {
            // SAFETY: passed on from the program.
            unsafe { $name($($arg),*) }
        }
    )*};
}

pub(crate) use {alias, interpose, trace};
