//! The zones at the far end of a Java thread's stack.

use walkfuzz_context::Address;

use crate::flags::Flags;
use crate::maps::Maps;
use crate::memory::Memory;
use crate::span::Span;

/// The flags count pages of this size, whatever the machine's page size (stackOverflow.cpp: "the flags are in 4K pages").
const FLAG_PAGE: u64 = 4096;
/// A native guard is one page by default; what is forbidden beyond this is something else.
const MAX_GUARD: u64 = 1 << 20;

/// Sizes of the zones in bytes, the same for all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ZoneSizes {
    /// Touched: the JVM is beyond help.
    pub red: u64,
    /// Touched: StackOverflowError.
    pub yellow: u64,
    /// For critical sections of java.util.concurrent (JEP 270).
    pub reserved: u64,
    /// What native code is promised (`StackShadowPages`); above the other zones, and accessible.
    pub shadow: u64,
}

/// Mangled names of the static sizes: in StackOverflow since 16, in JavaThread before.
const STATICS: [[&str; 2]; 4] = [
    [
        "_ZN13StackOverflow20_stack_red_zone_sizeE",
        "_ZN10JavaThread20_stack_red_zone_sizeE",
    ],
    [
        "_ZN13StackOverflow23_stack_yellow_zone_sizeE",
        "_ZN10JavaThread23_stack_yellow_zone_sizeE",
    ],
    [
        "_ZN13StackOverflow25_stack_reserved_zone_sizeE",
        "_ZN10JavaThread25_stack_reserved_zone_sizeE",
    ],
    [
        "_ZN13StackOverflow23_stack_shadow_zone_sizeE",
        "_ZN10JavaThread23_stack_shadow_zone_sizeE",
    ],
];

impl ZoneSizes {
    /// Reads the JVM's own sizes where libjvm has symbols, and computes them from the flags as the JVM does otherwise.
    #[must_use]
    pub fn read(
        memory: &dyn Memory,
        flags: &Flags,
        page_size: u64,
        symbol: &dyn Fn(&str) -> Option<u64>,
    ) -> Self {
        let size = |names: &[&str; 2], flag: &str| {
            names
                .iter()
                .find_map(|name| symbol(name))
                .and_then(|at| memory.read_u64(Address(at)).ok())
                .filter(|size| *size != 0 && *size < MAX_GUARD * 64)
                .or_else(|| {
                    let pages = flags.number(memory, flag)?;
                    pages
                        .checked_mul(FLAG_PAGE)?
                        .checked_next_multiple_of(page_size)
                })
                .unwrap_or(0)
        };
        let [red, yellow, reserved, shadow] = &STATICS;
        Self {
            red: size(red, "StackRedPages"),
            yellow: size(yellow, "StackYellowPages"),
            reserved: size(reserved, "StackReservedPages"),
            shadow: size(shadow, "StackShadowPages"),
        }
    }
}

/// One stack's zones, in the order in which they lie from its end (lowest address) on: red, yellow, reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Zones {
    /// The red zone.
    pub red: Span,
    /// The yellow zone.
    pub yellow: Span,
    /// The reserved zone.
    pub reserved: Span,
}

impl Zones {
    /// The zones of a stack.
    #[must_use]
    pub fn of(stack: Span, sizes: ZoneSizes) -> Self {
        let red = Span::sized(stack.start, sizes.red);
        let yellow = Span::sized(red.end, sizes.yellow);
        let reserved = Span::sized(yellow.end, sizes.reserved);
        Self {
            red,
            yellow,
            reserved,
        }
    }

    /// All three together.
    #[must_use]
    pub fn all(&self) -> Span {
        Span::new(self.red.start, self.reserved.end)
    }

    /// The C library's guard below a stack: forbidden pages that touch the stack's end from below. `None` where there are
    /// none: HotSpot gives the Java threads that it starts itself no native guard.
    #[must_use]
    pub fn native_guard(stack: Span, maps: &Maps) -> Option<Span> {
        let below = maps.find(Address(stack.start.0.checked_sub(1)?))?;
        // The kernel merges the guard with forbidden pages of the same stack above it, hence the cut.
        let guard = Span::new(below.span.start, stack.start);
        (below.is_forbidden() && guard.length() <= MAX_GUARD).then_some(guard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_lie_above_the_stack_end() {
        let sizes = ZoneSizes {
            red: 0x1000,
            yellow: 0x2000,
            reserved: 0x1000,
            shadow: 0x14000,
        };
        let stack = Span::new(Address(0x10_0000), Address(0x20_0000));
        let zones = Zones::of(stack, sizes);
        assert_eq!(zones.red, Span::new(Address(0x10_0000), Address(0x10_1000)));
        assert_eq!(
            zones.yellow,
            Span::new(Address(0x10_1000), Address(0x10_3000))
        );
        assert_eq!(
            zones.reserved,
            Span::new(Address(0x10_3000), Address(0x10_4000))
        );
    }

    #[test]
    fn guards_touch_the_stack_from_below_and_are_small() {
        let stack = Span::new(Address(0x10_0000), Address(0x20_0000));
        let maps = |text: &str| Maps::parse(text).unwrap();
        let guarded =
            maps("ff000-104000 ---p 00000000 00:00 0\n104000-200000 rw-p 00000000 00:00 0\n");
        assert_eq!(
            Zones::native_guard(stack, &guarded),
            Some(Span::new(Address(0xf_f000), Address(0x10_0000)))
        );
        let bare =
            maps("100000-104000 ---p 00000000 00:00 0\n104000-200000 rw-p 00000000 00:00 0\n");
        assert_eq!(Zones::native_guard(stack, &bare), None);
        let neighbour =
            maps("ff000-100000 rw-p 00000000 00:00 0\n100000-200000 rw-p 00000000 00:00 0\n");
        assert_eq!(Zones::native_guard(stack, &neighbour), None);
    }
}
