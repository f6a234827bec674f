//! AMD64, decoded by iced-x86.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter, Mnemonic, OpKind, Register,
};
use walkfuzz_context::Pc;

use crate::instruction::{Instruction, InstructionKind};
use crate::safefetch::Pattern;

/// SafeFetch as assembly in libjvm (`safefetch_linux_x86_64.S`, JDK 18 and its backports) and as HotSpot's stub
/// generator emits it before.
pub(crate) const SAFEFETCH: [Pattern; 4] = [
    // mov (%rdi),%eax; ret; mov %esi,%eax; ret
    Pattern {
        name: "SafeFetch32",
        bytes: &[0x8b, 0x07, 0xc3, 0x89, 0xf0, 0xc3],
        continuation: 3,
    },
    // mov (%rdi),%rax; ret; mov %rsi,%rax; ret
    Pattern {
        name: "SafeFetchN",
        bytes: &[0x48, 0x8b, 0x07, 0xc3, 0x48, 0x89, 0xf0, 0xc3],
        continuation: 4,
    },
    // movl (%rdi),%esi; movq %rsi,%rax; ret
    Pattern {
        name: "SafeFetch32",
        bytes: &[0x8b, 0x37, 0x48, 0x8b, 0xc6, 0xc3],
        continuation: 2,
    },
    // movq (%rdi),%rsi; movq %rsi,%rax; ret
    Pattern {
        name: "SafeFetchN",
        bytes: &[0x48, 0x8b, 0x37, 0x48, 0x8b, 0xc6, 0xc3],
        continuation: 3,
    },
];

/// The instructions of `code` and how many pieces were none.
pub(crate) fn decode(code: &[u8], start: Pc) -> (Vec<Instruction>, usize) {
    let mut decoder = Decoder::with_ip(64, code, start.0, DecoderOptions::NONE);
    let mut instruction = iced_x86::Instruction::default();
    let mut instructions = Vec::with_capacity(code.len() / 4);
    let mut undecodable = 0;
    while decoder.can_decode() {
        let position = decoder.position();
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            undecodable += 1;
            // Go on behind the first byte, as objdump does: the decoder would skip all bytes that it looked at.
            if decoder.set_position(position + 1).is_err() {
                break;
            }
            decoder.set_ip(start.0.wrapping_add(position as u64 + 1));
            instructions.push(Instruction {
                address: Pc(start.0.wrapping_add(position as u64)),
                len: 1,
                kind: InstructionKind::Other,
                sp_delta: 0,
            });
            continue;
        }
        let (kind, sp_delta) = classify(&instruction);
        instructions.push(Instruction {
            address: Pc(instruction.ip()),
            len: instruction.len() as u8,
            kind,
            sp_delta,
        });
    }
    (instructions, undecodable)
}

/// The beginnings of basic blocks: see [`crate::block_starts`].
pub(crate) fn block_starts(code: &[u8], start: Pc) -> Option<Vec<Pc>> {
    let mut decoder = Decoder::with_ip(64, code, start.0, DecoderOptions::NONE);
    let inside = start.0..start.0.wrapping_add(code.len() as u64);
    let mut boundaries = Vec::with_capacity(code.len() / 4);
    let mut starts = Vec::new();
    let mut begins = true;
    for instruction in &mut decoder {
        if instruction.is_invalid() {
            return None;
        }
        boundaries.push(instruction.ip());
        if begins && !matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
            starts.push(instruction.ip());
            begins = false;
        }
        match instruction.flow_control() {
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                begins = true;
                if inside.contains(&instruction.near_branch_target()) {
                    starts.push(instruction.near_branch_target());
                }
            }
            FlowControl::IndirectBranch | FlowControl::Return | FlowControl::Exception => {
                begins = true;
            }
            _ => {}
        }
    }
    starts.sort_unstable();
    starts.dedup();
    let sound = |pc: &u64| boundaries.binary_search(pc).is_ok();
    starts
        .iter()
        .all(sound)
        .then(|| starts.into_iter().map(Pc).collect())
}

/// The text of the first instruction of `bytes` and its length.
pub(crate) fn text(bytes: &[u8], pc: Pc) -> Option<(String, usize)> {
    let mut decoder = Decoder::with_ip(64, bytes, pc.0, DecoderOptions::NONE);
    let instruction = decoder.can_decode().then(|| decoder.decode())?;
    if instruction.is_invalid() {
        return None;
    }
    let mut formatter = GasFormatter::new();
    let options = formatter.options_mut();
    options.set_uppercase_hex(false);
    options.set_branch_leading_zeros(false);
    options.set_small_hex_numbers_in_decimal(false);
    options.set_space_after_operand_separator(false);
    options.set_rip_relative_addresses(true);
    let mut text = String::new();
    formatter.format(&instruction, &mut text);
    Some((text, instruction.len()))
}

fn classify(i: &iced_x86::Instruction) -> (InstructionKind, i32) {
    use InstructionKind as Kind;
    match i.flow_control() {
        FlowControl::Return => return (Kind::Ret, 0),
        FlowControl::Call | FlowControl::IndirectCall => return (Kind::Call, 0),
        _ => {}
    }
    let delta = i.stack_pointer_increment();
    let fp_operand = i.op0_kind() == OpKind::Register && i.op0_register() == Register::RBP;
    match i.mnemonic() {
        Mnemonic::Leave => (Kind::Leave, 0),
        Mnemonic::Push if fp_operand => (Kind::PushFp, delta),
        Mnemonic::Pop if fp_operand => (Kind::PopFp, delta),
        Mnemonic::Push | Mnemonic::Pushfq => (Kind::Push, delta),
        Mnemonic::Pop | Mnemonic::Popfq => (Kind::Pop, delta),
        _ => moves(i),
    }
}

fn moves(i: &iced_x86::Instruction) -> (InstructionKind, i32) {
    use InstructionKind as Kind;
    let (sp, fp) = (Register::RSP, Register::RBP);
    let constant = |n: i64| (n, i32::try_from(n).unwrap_or(0));
    match i.code() {
        Code::Sub_rm64_imm8 | Code::Sub_rm64_imm32 if i.op0_register() == sp => {
            let (n, delta) = constant(i.immediate(1) as i64);
            (Kind::SubSp(n), delta.wrapping_neg())
        }
        Code::Add_rm64_imm8 | Code::Add_rm64_imm32 if i.op0_register() == sp => {
            let (n, delta) = constant(i.immediate(1) as i64);
            (Kind::AddSp(n), delta)
        }
        // HotSpot also moves sp by `lea n(%rsp),%rsp`, which leaves the flags alone.
        Code::Lea_r64_m if i.op0_register() == sp && i.memory_index() == Register::None => {
            let (n, delta) = constant(i.memory_displacement64() as i64);
            match i.memory_base() {
                base if base == sp && n < 0 => (Kind::SubSp(-n), delta),
                base if base == sp => (Kind::AddSp(n), delta),
                base if base == fp => (Kind::MovSpFp, 0),
                _ => (Kind::Other, 0),
            }
        }
        Code::Mov_r64_rm64 | Code::Mov_rm64_r64 => {
            let memory = i.op0_kind() == OpKind::Memory || i.op1_kind() == OpKind::Memory;
            let in_frame = memory && i.memory_base() == sp && i.memory_index() == Register::None;
            let kind = match (i.op0_register(), i.op1_register()) {
                (a, b) if !memory && a == fp && b == sp => Kind::MovFpSp,
                (a, b) if !memory && a == sp && b == fp => Kind::MovSpFp,
                (a, _) if in_frame && a == fp => Kind::RestoreFp,
                (_, b) if in_frame && b == fp => Kind::SaveFp,
                _ => Kind::Other,
            };
            (kind, 0)
        }
        _ => (Kind::Other, 0),
    }
}
