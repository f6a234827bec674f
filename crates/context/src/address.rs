//! Addresses as types: a program counter is not a stack pointer.

use std::fmt;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
    };
}

address!(
    /// Any address in the walked process.
    Address
);
address!(
    /// A program counter.
    Pc
);
address!(
    /// A stack pointer.
    Sp
);
address!(
    /// A frame pointer (or whatever the frame pointer register holds).
    Fp
);
