//! Native frames from registers outwards, by the modules' `.eh_frame`.
//!
//! libjvm is compiled without frame pointers in most places, so that following fp would lose frames. Where a pc has no entry in its module's
//! table (hand-written assembly), the frame pointer is tried, and the result is kept only as long as it makes sense.
//!
//! Not for handlers: it reads files and allocates. The stack may be dead by then; `read` says what was there.

use framehop::aarch64::{CacheAarch64, PtrAuthMask, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Unwinder};
use walkfuzz_context::{Address, Arch, Pc, Registers};

use crate::modules::{Module, Modules, SymbolisedPc};

/// No backtrace is longer.
pub const FRAME_LIMIT: usize = 32;

/// The frames from `registers` outwards, innermost first. The first one's pc is that of `registers`; the others' are return addresses, named by the
/// call before them.
///
/// Ends behind the first frame that `is_last` (the walker's entry, say), before a pc outside every module, where a frame makes no sense, and
/// at [`FRAME_LIMIT`]. `read` gives the word at an address of the stack.
#[must_use]
pub fn unwind(
    modules: &Modules,
    registers: &Registers,
    mut read: impl FnMut(Address) -> Option<u64>,
    is_last: impl Fn(&SymbolisedPc) -> bool,
) -> Vec<SymbolisedPc> {
    let (pc, sp, fp) = (registers.pc().0, registers.sp().0, registers.fp().0);
    match registers.arch {
        Arch::X86_64 => frames(
            UnwinderX86_64::<Vec<u8>, MayAllocateDuringUnwind>::new(),
            CacheX86_64::new(),
            UnwindRegsX86_64::new(pc, sp, fp),
            |regs| regs.sp(),
            modules,
            registers.pc(),
            &mut read,
            is_last,
        ),
        Arch::Aarch64 => frames(
            UnwinderAarch64::<Vec<u8>, MayAllocateDuringUnwind>::new(),
            CacheAarch64::new(),
            // Bits above 47 of a user address are no address: where return addresses are signed, the signature.
            UnwindRegsAarch64::new_with_ptr_auth_mask(
                PtrAuthMask((1 << 48) - 1),
                Arch::Aarch64.lr().map_or(0, |lr| registers.get(lr)),
                sp,
                fp,
            ),
            |regs| regs.sp(),
            modules,
            registers.pc(),
            &mut read,
            is_last,
        ),
    }
}

#[expect(
    clippy::too_many_arguments,
    reason = "one body for two architectures' types"
)]
fn frames<U>(
    mut unwinder: U,
    mut cache: U::Cache,
    mut regs: U::UnwindRegs,
    sp_of: impl Fn(&U::UnwindRegs) -> u64,
    modules: &Modules,
    pc: Pc,
    read: &mut impl FnMut(Address) -> Option<u64>,
    is_last: impl Fn(&SymbolisedPc) -> bool,
) -> Vec<SymbolisedPc>
where
    U: Unwinder<Module = framehop::Module<Vec<u8>>>,
{
    let mut read_word = |at: u64| read(Address(at)).ok_or(());
    let mut known: Vec<Address> = Vec::new();
    let mut found = Vec::new();
    let mut address = FrameAddress::from_instruction_pointer(pc.0);
    while found.len() < FRAME_LIMIT {
        // A call may be a function's last instruction, so that the return address is in the next one.
        let Some(module) = modules.find(Address(address.address_for_lookup())) else {
            break;
        };
        let mut frame = modules.symbolise(Pc(address.address_for_lookup()));
        let behind_call = address.address().wrapping_sub(frame.pc);
        frame.pc = address.address();
        frame.module_offset = frame.module_offset.wrapping_add(behind_call);
        if frame.function.is_some() {
            frame.offset = frame.offset.wrapping_add(behind_call);
        }
        let end = is_last(&frame);
        found.push(frame);
        if end {
            break;
        }
        if !known.contains(&module.base) {
            known.push(module.base);
            if let Some(module) = unwind_tables(module) {
                unwinder.add_module(module);
            }
        }
        let before = sp_of(&regs);
        let next = unwinder.unwind_frame(address, &mut regs, &mut cache, &mut read_word);
        let Ok(Some(return_address)) = next else {
            break;
        };
        // A stack grows downwards: whoever called has the higher sp. (A leaf of aarch64 need not have moved it.)
        if sp_of(&regs) < before {
            break;
        }
        let Some(next) = FrameAddress::from_return_address(return_address) else {
            break;
        };
        address = next;
    }
    found
}

/// A module's unwind tables, read from its file, for a framehop unwinder.
#[must_use]
pub fn unwind_tables(module: &Module) -> Option<framehop::Module<Vec<u8>>> {
    let table = module.table()?;
    let data = |name: &str| {
        let range = table.section(name)?;
        table.read(range.start, range.end - range.start).ok()
    };
    let (start, end) = (module.ranges.first()?.start, module.ranges.last()?.end);
    Some(framehop::Module::new(
        module.name().to_owned(),
        start..end,
        module.base.0,
        ExplicitModuleSectionInfo {
            base_svma: table.link_base(),
            text_svma: table.section(".text"),
            text: data(".text"),
            got_svma: table.section(".got"),
            eh_frame_svma: table.section(".eh_frame"),
            eh_frame: data(".eh_frame"),
            eh_frame_hdr_svma: table.section(".eh_frame_hdr"),
            eh_frame_hdr: data(".eh_frame_hdr"),
            ..ExplicitModuleSectionInfo::default()
        },
    ))
}
