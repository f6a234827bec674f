//! The agent: its template's parts, and the edits as statements of C.

use walkfuzz_context::edit::PAC_SHIFT;
use walkfuzz_context::{Arch, BlobKind, Edit, LandscapeTable, Register, Value, ValueClass};
use walkfuzz_record::Finding;

use crate::plan::Plan;
use crate::template::render;

/// One C file, in the order in which it is read.
const TEMPLATE: &str = concat!(
    include_str!("../templates/agent/jvmti.c"),
    include_str!("../templates/agent/code_and_threads.c"),
    include_str!("../templates/agent/values.c"),
    include_str!("../templates/agent/walk.c"),
);

/// How many variants of the edits are tried at one sample, the finding's own first.
pub(crate) const TURNS: &str = "64";

/// The C file.
pub(crate) fn agent(finding: &Finding, plan: &Plan, title: &str, jvm: &str) -> String {
    let perturbation = if plan.perturbation.is_untouched() {
        "nothing: the registers stay as the kernel delivered them".to_owned()
    } else {
        plan.perturbation.display(plan.arch).to_string()
    };
    let texts = [
        ("TITLE", title),
        ("JVM", jvm),
        ("PERTURBATION", &perturbation),
        ("EDITS", &edits(plan, &finding.blob.kind)),
        ("TURNS", TURNS),
        ("DEPTH", &plan.depth.to_string()),
    ];
    render(TEMPLATE, |part| plan.needs(part), &texts)
}

/// The body of the function that edits the registers.
fn edits(plan: &Plan, blob: &str) -> String {
    let mut lines = Vec::new();
    let edits = plan.perturbation.edits();
    let wants_value = |edit: &Edit| match edit {
        Edit::Set { value, .. } => !value.class.is_computed(),
        Edit::Swap { .. } => true,
        _ => false,
    };
    if edits.iter().any(wants_value) {
        lines.push("word value;".to_owned());
    }
    for edit in edits {
        statement(plan.arch, edit, &mut lines);
    }
    lines.push(match kind(blob) {
        Some(kind) => format!("return kind_at(PC) == {kind};"),
        None => "return true;".to_owned(),
    });
    lines
        .iter()
        .map(|line| format!("    {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The agent's name for the kind of code that the finding's pc was in.
fn kind(blob: &str) -> Option<&'static str> {
    let kind = BlobKind::ALL.into_iter().find(|kind| kind.name() == blob)?;
    Some(match kind {
        BlobKind::Interpreter => "INTERPRETER",
        BlobKind::Nmethod => "NMETHOD",
        BlobKind::NativeWrapper => "NATIVE_WRAPPER",
        BlobKind::Adapter => "ADAPTER",
        BlobKind::VtableStub => "VTABLE_STUB",
        BlobKind::RuntimeStub => "RUNTIME_STUB",
        BlobKind::StubRoutine => "STUB_ROUTINE",
        BlobKind::Buffer => "BUFFER",
        BlobKind::FreeCode => "FREE_CODE",
        BlobKind::Libjvm | BlobKind::Outside => "OUTSIDE",
    })
}

/// A register as the agent names it.
fn name(arch: Arch, register: Register) -> String {
    if register == arch.pc() {
        return "PC".to_owned();
    }
    if register == arch.sp() {
        return "SP".to_owned();
    }
    if register == arch.fp() {
        return "FP".to_owned();
    }
    match arch {
        Arch::X86_64 => {
            let name = register.name(arch).unwrap_or_default();
            format!("REGISTER({})", name.to_uppercase())
        }
        Arch::Aarch64 => format!("REGISTER({})", register.0),
    }
}

/// By how much a register's neighbours differ: words of data, bytes of code.
fn step(arch: Arch, register: Register) -> u32 {
    match register == arch.pc() {
        true => 1,
        false => 8,
    }
}

fn statement(arch: Arch, edit: &Edit, lines: &mut Vec<String>) {
    let register = name(arch, edit.register());
    match *edit {
        Edit::Nudge { delta, .. } => lines.push(format!(
            "{register} += near({delta}, {}, 32);",
            step(arch, edit.register())
        )),
        Edit::Set { value, .. } => set(&register, value, lines),
        Edit::Flip { bit, .. } => lines.push(format!(
            "{register} ^= 1ull << (near({}, 1, 32) & 63);",
            bit % 64
        )),
        Edit::Swap { b, .. } => {
            let other = name(arch, b);
            lines.push(format!(
                "value = {register}, {register} = {other}, {other} = value;"
            ));
        }
        Edit::Alias { source, delta, .. } => lines.push(format!(
            "{register} = {} + near({delta}, {}, 32);",
            name(arch, source),
            step(arch, edit.register())
        )),
        Edit::Sign { bits, .. } => {
            lines.push(format!("{register} ^= {bits:#x}ull << {PAC_SHIFT};"));
        }
    }
}

fn set(register: &str, value: Value, lines: &mut Vec<String>) {
    if value.class.is_computed() {
        // Classes that need no landscape resolve in an empty one, and to the same number everywhere.
        let number = value.resolve(&LandscapeTable::new()).unwrap_or_default();
        let what = match value.class {
            ValueClass::NonCanonical => " /* non-canonical */",
            ValueClass::NullPage => " /* in the first page */",
            _ => "",
        };
        let number = match number {
            0..10 => number.to_string(),
            _ => format!("{number:#x}"),
        };
        lines.push(format!("{register} = {number};{what}"));
        return;
    }
    let resolver = value.class.name().replace('-', "_");
    lines.push(format!("if (!{resolver}(t, {}, &value))", value.selector));
    lines.push("    return false;".to_owned());
    /// Offsets this large lead out of what the selector picked: their neighbours are as good.
    const FAR: u16 = 64;
    lines.push(match value.offset {
        offset if offset.unsigned_abs() >= FAR && !value.class.is_code() => {
            format!("{register} = value + near({offset}, 8, 64);")
        }
        0 => format!("{register} = value;"),
        offset @ 1.. => format!("{register} = value + {offset};"),
        offset => format!("{register} = value - {};", offset.unsigned_abs()),
    });
}
