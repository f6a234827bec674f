//! What differs between the architectures.

use framehop::MustNotAllocateDuringUnwind;

/// What framehop unwinds from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers {
    pub(crate) pc: u64,
    pub(crate) sp: u64,
    pub(crate) fp: u64,
    /// The link register, where there is one.
    #[cfg_attr(
        target_arch = "x86_64",
        expect(dead_code, reason = "x86_64 has no link register")
    )]
    pub(crate) lr: u64,
}

#[cfg(target_arch = "x86_64")]
mod native {
    use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};

    use super::{MustNotAllocateDuringUnwind, Registers};

    pub(crate) type Unwinder = UnwinderX86_64<Vec<u8>, MustNotAllocateDuringUnwind>;
    pub(crate) type Cache = CacheX86_64<MustNotAllocateDuringUnwind>;

    pub(crate) fn registers(context: &libc::ucontext_t) -> Registers {
        let word = |register: i32| context.uc_mcontext.gregs[register as usize].cast_unsigned();
        Registers {
            pc: word(libc::REG_RIP),
            sp: word(libc::REG_RSP),
            fp: word(libc::REG_RBP),
            lr: 0,
        }
    }

    impl Registers {
        pub(crate) fn for_framehop(self) -> UnwindRegsX86_64 {
            UnwindRegsX86_64::new(self.pc, self.sp, self.fp)
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod native {
    use framehop::aarch64::{CacheAarch64, PtrAuthMask, UnwindRegsAarch64, UnwinderAarch64};

    use super::{MustNotAllocateDuringUnwind, Registers};

    pub(crate) type Unwinder = UnwinderAarch64<Vec<u8>, MustNotAllocateDuringUnwind>;
    pub(crate) type Cache = CacheAarch64<MustNotAllocateDuringUnwind>;

    pub(crate) fn registers(context: &libc::ucontext_t) -> Registers {
        let context = &context.uc_mcontext;
        Registers {
            pc: context.pc,
            sp: context.sp,
            fp: context.regs[29],
            lr: context.regs[30],
        }
    }

    impl Registers {
        pub(crate) fn for_framehop(self) -> UnwindRegsAarch64 {
            // Bits above 47 of a user address are no address: where return addresses are signed, the signature.
            let mask = PtrAuthMask((1 << 48) - 1);
            UnwindRegsAarch64::new_with_ptr_auth_mask(mask, self.lr, self.sp, self.fp)
        }
    }
}

pub(crate) use native::{Cache, Unwinder, registers};
