//! Value classes: what an edit may put into a register, said in a way that means the same in another process.
//!
//! An input never holds an address. It says "the 12th nmethod body, plus 3"; the [landscape](crate::landscape) of the
//! process that runs it turns that into a number.
//!
//! Signal-safe: everything here; no allocation, no lock.

use crate::landscape::Landscape;

macro_rules! value_classes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A kind of value that matters to a stack walker.
        ///
        /// The discriminants are part of the [codec](crate::codec): new classes go to the end.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum ValueClass {
            $($(#[$doc])* $variant,)*
        }

        impl ValueClass {
            /// Every class, in declaration order (the discriminants are 0..).
            pub const ALL: [ValueClass; Self::COUNT] = [$(ValueClass::$variant,)*];
            /// How many classes there are.
            pub const COUNT: usize = [$($name,)*].len();

            /// A short stable name, used in the text form.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(ValueClass::$variant => $name,)*
                }
            }

            /// The class of that [name](Self::name).
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(ValueClass::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

value_classes! {
    /// A word of the walked stack; the selector counts words up from sp.
    StackWord = "stack-word",
    /// The address of a slot of the walked stack; the selector counts words up from sp.
    StackSlot = "stack-slot",
    /// A word of the walked stack that is a pc in the code cache; the selector counts such words up from sp.
    ReturnAddress = "return-address",
    /// The address of the slot that holds such a word.
    ReturnAddressSlot = "return-address-slot",
    /// A pc in the body of compiled Java code.
    NmethodBody = "nmethod-body",
    /// A pc in the entry or prologue of compiled Java code.
    NmethodEntry = "nmethod-entry",
    /// A pc in the epilogue of compiled Java code.
    NmethodEpilogue = "nmethod-epilogue",
    /// The exception handler of compiled Java code.
    ExceptionHandler = "exception-handler",
    /// The deoptimisation handler of compiled Java code.
    DeoptHandler = "deopt-handler",
    /// A pc in a native wrapper.
    NativeWrapper = "native-wrapper",
    /// A pc in an interpreter codelet.
    InterpreterCodelet = "codelet",
    /// A pc in an interpreter-to-compiled or compiled-to-interpreted adapter.
    Adapter = "adapter",
    /// A pc in a vtable or itable stub.
    VtableStub = "vtable-stub",
    /// A pc in a runtime stub.
    RuntimeStub = "runtime-stub",
    /// A pc in a stub routine.
    StubRoutine = "stub-routine",
    /// An address in the code cache, but in no live blob.
    FreeCode = "free-code",
    /// A pc that this thread had in an earlier sample or step.
    NaturalPc = "natural-pc",
    /// An sp that this thread had in an earlier sample or step.
    NaturalSp = "natural-sp",
    /// A value that this thread's frame pointer register had in an earlier sample or step.
    NaturalFp = "natural-fp",
    /// A pc in libjvm's text.
    LibjvmText = "libjvm-text",
    /// An address in the walked thread's own stack.
    OwnStack = "own-stack",
    /// An address in another thread's stack.
    ForeignStack = "foreign-stack",
    /// An address in a Java stack's yellow zone.
    YellowZone = "yellow-zone",
    /// An address in a Java stack's red zone.
    RedZone = "red-zone",
    /// An address in a Java stack's reserved zone.
    ReservedZone = "reserved-zone",
    /// An address in the C library's guard pages below a stack.
    GuardPages = "guard-pages",
    /// The safepoint poll page.
    PollPage = "poll-page",
    /// An address in the Java heap.
    Heap = "heap",
    /// An address in metaspace.
    Metaspace = "metaspace",
    /// An address at which nothing is mapped.
    Unmapped = "unmapped",
    /// An address in the first page.
    NullPage = "null-page",
    /// An address that the processor rejects whatever is mapped.
    NonCanonical = "non-canonical",
    /// The selector itself.
    Literal = "literal",
    /// The word right below a return address: where calling code has left its frame pointer, if it has. The selector counts as that of
    /// `return-address` does.
    CallerFp = "caller-fp",
}

impl ValueClass {
    /// The class with that discriminant.
    #[inline]
    #[must_use]
    pub const fn from_index(index: u8) -> Option<Self> {
        if (index as usize) < Self::COUNT {
            Some(Self::ALL[index as usize])
        } else {
            None
        }
    }

    /// Whether the class resolves without a landscape, to the same value in every process.
    #[must_use]
    pub const fn is_computed(self) -> bool {
        matches!(
            self,
            ValueClass::NullPage | ValueClass::NonCanonical | ValueClass::Literal
        )
    }

    /// Whether the class's values are addresses of code.
    #[must_use]
    pub const fn is_code(self) -> bool {
        match self {
            ValueClass::ReturnAddress
            | ValueClass::NmethodBody
            | ValueClass::NmethodEntry
            | ValueClass::NmethodEpilogue
            | ValueClass::ExceptionHandler
            | ValueClass::DeoptHandler
            | ValueClass::NativeWrapper
            | ValueClass::InterpreterCodelet
            | ValueClass::Adapter
            | ValueClass::VtableStub
            | ValueClass::RuntimeStub
            | ValueClass::StubRoutine
            | ValueClass::FreeCode
            | ValueClass::NaturalPc
            | ValueClass::LibjvmText => true,
            ValueClass::StackWord
            | ValueClass::StackSlot
            | ValueClass::ReturnAddressSlot
            | ValueClass::CallerFp
            | ValueClass::NaturalSp
            | ValueClass::NaturalFp
            | ValueClass::OwnStack
            | ValueClass::ForeignStack
            | ValueClass::YellowZone
            | ValueClass::RedZone
            | ValueClass::ReservedZone
            | ValueClass::GuardPages
            | ValueClass::PollPage
            | ValueClass::Heap
            | ValueClass::Metaspace
            | ValueClass::Unmapped
            | ValueClass::NullPage
            | ValueClass::NonCanonical
            | ValueClass::Literal => false,
        }
    }
}

/// A value of a class: what the selector picks, plus a byte offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Value {
    /// What kind of value.
    pub class: ValueClass,
    /// Which of its kind; reduced modulo what the landscape has.
    pub selector: u16,
    /// Bytes added to what the selector picks.
    pub offset: i16,
}

impl Value {
    /// A value.
    #[must_use]
    pub const fn new(class: ValueClass, selector: u16, offset: i16) -> Self {
        Self {
            class,
            selector,
            offset,
        }
    }

    /// What it is in this process; `None` if the landscape has nothing of the class.
    #[inline]
    #[must_use]
    pub fn resolve<L: Landscape + ?Sized>(self, landscape: &L) -> Option<u64> {
        landscape
            .resolve(self.class, self.selector)
            .map(|base| base.wrapping_add_signed(i64::from(self.offset)))
    }

    /// Whether the offset takes the value off a word boundary (the addresses of data classes are on one).
    #[must_use]
    pub const fn is_misaligned(self) -> bool {
        self.offset % 8 != 0
    }
}

/// Bytes of the page at address zero that [`ValueClass::NullPage`] spreads over.
const NULL_PAGE_BYTES: u64 = 4096;

// Bits 63..=47 are mixed in each, so that neither 48-bit nor 57-bit virtual addresses (x86_64 with five-level paging) make
// them canonical; and bits 55..=48 are mixed, since aarch64 ignores the top byte of a data address (TBI).
const NON_CANONICAL: [u64; 8] = [
    0x4141_4141_4141_4140,
    0xdead_beef_dead_bee8,
    0x8080_0000_0000_0000,
    0x7f7f_ffff_ffff_fff8,
    0xa5a5_a5a5_a5a5_a5a0,
    0x00ab_cdef_0000_1000 | 1 << 62,
    0xff55_0000_7fff_fff8 ^ 1 << 57,
    0x0102_0304_0506_0708,
];

/// Resolves the classes that need no table ([`ValueClass::is_computed`]).
#[inline]
pub(crate) fn computed(class: ValueClass, selector: u16) -> Option<u64> {
    let selector = u64::from(selector);
    match class {
        ValueClass::NullPage => Some(selector * 8 % NULL_PAGE_BYTES),
        ValueClass::NonCanonical => {
            let pattern = NON_CANONICAL[(selector % NON_CANONICAL.len() as u64) as usize];
            Some(pattern.wrapping_add(selector / NON_CANONICAL.len() as u64 * 8))
        }
        ValueClass::Literal => Some(selector),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_indices_lead_back_to_their_class() {
        for (index, class) in (0u8..).zip(ValueClass::ALL) {
            assert_eq!(class as u8, index);
            assert_eq!(ValueClass::from_index(index), Some(class));
            assert_eq!(ValueClass::from_name(class.name()), Some(class));
        }
        assert_eq!(ValueClass::from_index(ValueClass::COUNT as u8), None);
        assert_eq!(ValueClass::from_name("no-such-class"), None);
    }

    #[test]
    fn non_canonical_is_so_for_both_architectures_and_both_address_widths() {
        for selector in 0..=u16::MAX {
            let value = computed(ValueClass::NonCanonical, selector).unwrap();
            for width in [48, 57] {
                let sign_extended = ((value << (64 - width)) as i64 >> (64 - width)) as u64;
                assert_ne!(
                    value, sign_extended,
                    "{value:#x} is canonical at {width} bits"
                );
            }
            let below_top_byte = value >> 48 & 0xff;
            assert!(below_top_byte != 0 && below_top_byte != 0xff, "{value:#x}");
        }
    }

    #[test]
    fn null_page_stays_in_the_first_page_and_literals_are_themselves() {
        for selector in [0, 1, 511, 512, u16::MAX] {
            let null = computed(ValueClass::NullPage, selector).unwrap();
            assert!(null < NULL_PAGE_BYTES && null.is_multiple_of(8));
            assert_eq!(
                computed(ValueClass::Literal, selector),
                Some(u64::from(selector))
            );
        }
    }

    #[test]
    fn only_offsets_off_a_word_are_misaligned() {
        for (offset, misaligned) in [(0, false), (8, false), (-8, false), (-3, true), (4, true)] {
            assert_eq!(
                Value::new(ValueClass::OwnStack, 0, offset).is_misaligned(),
                misaligned
            );
        }
    }
}
