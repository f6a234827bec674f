//! The machine that this program runs on, and how to start a program of the same kind.
//!
//! Contract: not for handlers. Under qemu-user everything that a program asks about itself is answered as if the other processor were
//! there, `/proc/self` included; the kernel's own view of the thread (`/proc/thread-self`) still names the emulator.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use walkfuzz_context::Arch;

use crate::facts::MachineFacts;

/// What the kernel executes for this thread.
const EXECUTED: &str = "/proc/thread-self/exe";

/// What is known about this machine.
#[must_use]
pub fn machine() -> MachineFacts {
    MachineFacts {
        arch: Arch::NATIVE.name().to_owned(),
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
            .unwrap_or_default()
            .trim()
            .to_owned(),
        cpus: std::thread::available_parallelism().map_or(0, |cpus| cpus.get() as u32),
        emulated: emulator().is_some(),
    }
}

/// The program that emulates this one's processor, if one does.
#[must_use]
pub fn emulator() -> Option<&'static Path> {
    static EMULATOR: OnceLock<Option<PathBuf>> = OnceLock::new();
    EMULATOR
        .get_or_init(|| {
            let executed = architecture(Path::new(EXECUTED))?;
            (executed != ELF_MACHINE).then(|| fs::read_link(EXECUTED).ok())?
        })
        .as_deref()
}

/// A command that starts `program`; where this program is emulated and `program` is built for the same processor, through the same
/// emulator: the kernel knows nothing of it, unless somebody registered it as the interpreter of such files (binfmt_misc).
#[must_use]
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let program = program.as_ref();
    match emulator() {
        Some(emulator) if architecture(Path::new(program)) == Some(ELF_MACHINE) => {
            let mut command = Command::new(emulator);
            command.arg(program);
            command
        }
        _ => Command::new(program),
    }
}

/// The words that a call of cargo needs to build for this program's architecture; none where cargo does so anyway.
#[must_use]
pub fn cargo_target() -> Vec<String> {
    match emulator() {
        None => Vec::new(),
        Some(_) => vec![
            "--target".to_owned(),
            format!("{}-unknown-linux-gnu", Arch::NATIVE.name()),
        ],
    }
}

/// What a file is built for, if that is another machine than this program's.
#[must_use]
pub fn foreign(path: &Path) -> Option<String> {
    let machine = architecture(path).filter(|machine| *machine != ELF_MACHINE)?;
    let known = Arch::ALL
        .into_iter()
        .find(|arch| elf_machine(*arch) == machine);
    Some(known.map_or_else(
        || format!("ELF machine {machine}"),
        |arch| arch.name().to_owned(),
    ))
}

/// `e_machine` of programs that are built as this one is.
const ELF_MACHINE: u16 = elf_machine(Arch::NATIVE);

const fn elf_machine(arch: Arch) -> u16 {
    match arch {
        Arch::X86_64 => 62,
        Arch::Aarch64 => 183,
    }
}

/// What an ELF file says it is built for.
fn architecture(path: &Path) -> Option<u16> {
    let mut header = [0_u8; 20];
    File::open(path).ok()?.read_exact(&mut header).ok()?;
    let machine = header.last_chunk()?;
    header
        .starts_with(b"\x7fELF")
        .then(|| u16::from_le_bytes(*machine))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_say_what_they_are_built_for() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(architecture(&own), Some(ELF_MACHINE));
        assert_eq!(architecture(Path::new("/dev/null")), None);
        assert_eq!(architecture(Path::new("/nowhere")), None);
        assert_eq!(foreign(&own), None);
    }

    #[test]
    fn what_is_built_for_another_machine_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("agent.so");
        let mut bytes = fs::read(std::env::current_exe().unwrap()).unwrap();
        let (other, name) = match Arch::NATIVE {
            Arch::X86_64 => (Arch::Aarch64, "aarch64"),
            Arch::Aarch64 => (Arch::X86_64, "x86_64"),
        };
        for (machine, name) in [(elf_machine(other), name), (243, "ELF machine 243")] {
            bytes[18..20].copy_from_slice(&machine.to_le_bytes());
            fs::write(&file, &bytes[..64]).unwrap();
            assert_eq!(foreign(&file).as_deref(), Some(name));
        }
        fs::write(&file, "no library").unwrap();
        assert_eq!(foreign(&file), None);
    }

    #[test]
    fn an_emulated_program_starts_its_like_through_the_emulator() {
        let own = std::env::current_exe().unwrap();
        let started = command(&own);
        match emulator() {
            None => assert_eq!(started.get_program(), own),
            Some(emulator) => {
                assert_eq!(started.get_program(), emulator);
                assert_eq!(started.get_args().collect::<Vec<_>>(), [&own]);
            }
        }
        assert_eq!(machine().emulated, emulator().is_some());
        let listed = command(&own).arg("--list").output().unwrap();
        assert!(listed.status.success(), "{listed:?}");
        // What it is not built for is started as it is.
        assert_eq!(command("/bin/sh.missing").get_program(), "/bin/sh.missing");
    }
}
