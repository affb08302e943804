//! Counters: a struct of named, documented numbers. Each layer declares its own.

/// Declares a struct of named, documented counters, `Counters` if no name is given. The shell
/// around the core declares its own with it.
#[macro_export]
macro_rules! counters {
    ($type:ident: $($field:ident $name:literal $doc:literal)*) => {
        /// Counts since the start.
        #[derive(Debug, Clone, Default)]
        pub(crate) struct $type {
            $(#[doc = $doc] pub(crate) $field: u64,)*
        }

        impl $type {
            /// Name and value of each.
            pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$(($name, self.$field),)*].into_iter()
            }
        }
    };
    ($($field:ident $name:literal $doc:literal)*) => {
        $crate::counters! { Counters: $($field $name $doc)* }
    };
}
