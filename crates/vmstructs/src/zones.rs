//! The zones at the far end of a Java thread's stack.

use walkfuzz_context::Address;

use crate::flags::Flags;
use crate::maps::Maps;
use crate::memory::Memory;
use crate::span::Span;

/// The flags count pages of this size, whatever the machine's page size (stackOverflow.cpp: "the flags are in 4K pages").
const FLAG_PAGE: u64 = 4096;
/// What is forbidden over more than this is not a native guard alone.
const MAX_GUARD: u64 = 1 << 20;
/// The C library's default: one page.
const DEFAULT_GUARD: u64 = 4096;
/// More than this is not what a JDK leaves out between guard and stack.
const MAX_SLACK: u64 = 1 << 16;

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

    /// The C library's guard below a stack. `None` where there is none: HotSpot gives the Java threads that it starts itself
    /// no native guard.
    ///
    /// Older JDKs (11.0.13 and 17.0.7, but not 17.0.9) subtract an attached thread's guard from its stack although the C library
    /// has done so already: as much accessible stack then lies between the guard and what the JVM calls the stack's end.
    ///
    /// The kernel merges neighbouring forbidden pages. Where the mapping is larger than any guard (the unused part of a malloc
    /// arena lies below it, say), only the last page counts.
    #[must_use]
    pub fn native_guard(stack: Span, maps: &Maps) -> Option<Span> {
        let below = |end: Address| maps.find(Address(end.0.checked_sub(1)?));
        let mut end = stack.start;
        let mut mapping = below(end)?;
        if !mapping.is_forbidden() && end.0 - mapping.span.start.0 <= MAX_SLACK {
            end = mapping.span.start;
            mapping = below(end)?;
        }
        if !mapping.is_forbidden() {
            return None;
        }
        // The same mapping may hold the stack's own zones, hence the cut.
        let guard = Span::new(mapping.span.start, end);
        match guard.length() {
            0..=MAX_GUARD => Some(guard),
            _ => Some(Span::new(Address(end.0 - DEFAULT_GUARD), end)),
        }
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
    fn guards_lie_right_below_and_are_small() {
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
        let merged =
            maps("1000-104000 ---p 00000000 00:00 0\n104000-200000 rw-p 00000000 00:00 0\n");
        assert_eq!(
            Zones::native_guard(stack, &merged),
            Some(Span::new(Address(0x1000), Address(0x10_0000))),
            "as small as a guard may be"
        );
        let high = Span::new(Address(0x4010_0000), Address(0x4020_0000));
        let merged =
            maps("1000-40104000 ---p 00000000 00:00 0\n40104000-40200000 rw-p 00000000 00:00 0\n");
        assert_eq!(
            Zones::native_guard(high, &merged),
            Some(Span::new(Address(0x400f_f000), Address(0x4010_0000)))
        );
        let slack = maps(
            "fe000-ff000 ---p 00000000 00:00 0\nff000-100000 rw-p 00000000 00:00 0\n100000-104000 ---p 00000000 00:00 0\n",
        );
        assert_eq!(
            Zones::native_guard(stack, &slack),
            Some(Span::new(Address(0xf_e000), Address(0xf_f000)))
        );
        let neighbour =
            maps("1000-100000 rw-p 00000000 00:00 0\n100000-200000 rw-p 00000000 00:00 0\n");
        assert_eq!(Zones::native_guard(stack, &neighbour), None);
    }
}
