//! Modules of this process.

use walkfuzz_context::{Address, Pc};
use walkfuzz_symbols::Modules;

#[test]
fn this_function_is_symbolised() {
    let modules = Modules::of_this_process().unwrap();
    let pc = Pc(this_function_is_symbolised as *const () as u64);
    let found = modules.symbolise(pc);
    assert_eq!(
        found.short.as_deref(),
        Some("live::modules::this_function_is_symbolised")
    );
    assert_eq!(found.offset, 0);
    assert!(found.module_offset > 0);
    assert_eq!(modules.symbolise(Pc(pc.0 + 3)).offset, 3);
    assert_eq!(modules.symbolise(pc), found, "from the cache");
    assert!(
        found
            .to_string()
            .contains("this_function_is_symbolised+0x0 (live-")
    );
}

#[test]
fn the_c_library_and_the_vdso_are_modules() {
    let modules = Modules::of_this_process().unwrap();
    let libc = modules.by_name("libc.so.6").unwrap();
    assert!(libc.contains(libc.base));
    let table = libc.table().unwrap();
    let getpid = table
        .named("getpid")
        .or_else(|| table.named("__getpid"))
        .unwrap();
    let found = modules.symbolise(Pc(libc.bias() + getpid.offset));
    assert!(found.function.unwrap().contains("getpid"));
    assert_eq!(found.module.as_deref(), Some("libc.so.6"));
    assert_eq!(found.module_offset, getpid.offset);
    assert_eq!(found.build_id.map(|id| id.len()), Some(40));

    let Some(vdso) = modules.by_name("[vdso]") else {
        // Older emulators have none.
        assert!(walkfuzz_record::machine::emulator().is_some());
        println!("skip: this emulator gives programs no vdso");
        return;
    };
    let table = vdso.table().unwrap();
    let clock = table
        .iter()
        .find(|s| s.mangled.contains("clock_gettime"))
        .unwrap();
    let found = modules.symbolise(Pc(vdso.bias() + clock.offset));
    assert!(found.function.unwrap().contains("clock_gettime"));
}

#[test]
fn what_lies_in_no_module_is_said_to() {
    let modules = Modules::of_this_process().unwrap();
    let found = modules.symbolise(Pc(0x10));
    assert_eq!(
        (found.module.as_ref(), found.function.as_ref()),
        (None, None)
    );
    assert_eq!(found.site(), "unknown");
    assert_eq!(found.to_string(), "0x10");
    assert!(modules.find(Address(u64::MAX)).is_none());
}

#[test]
fn refreshing_keeps_the_tables() {
    let mut modules = Modules::of_this_process().unwrap();
    let before: *const _ = modules.by_name("libc.so.6").unwrap().table().unwrap();
    modules.refresh().unwrap();
    let after: *const _ = modules.by_name("libc.so.6").unwrap().table().unwrap();
    assert!(std::ptr::eq(before, after));
}

#[test]
fn maps_lines_of_all_sorts() {
    let modules = Modules::parse(
        "55d0c0000000-55d0c0001000 r--p 00000000 08:01 10    /usr/bin/my java\n\
         55d0c0001000-55d0c0002000 r-xp 00001000 08:01 10    /usr/bin/my java\n\
         55d0c0003000-55d0c0004000 rw-p 00000000 00:00 0     [heap]\n\
         7f0000000000-7f0000001000 r--s 00000000 08:01 11    /usr/lib/locale/C.utf8\n\
         7f0000100000-7f0000101000 r-xp 00000000 08:01 12    /tmp/libold.so (deleted)\n\
         7f0000101000-7f0000102000 rwxp 00000000 00:00 0 \n\
         7f0000200000-7f0000201000 r-xp 00000000 08:01 12    /tmp/libtwice.so\n\
         7f0000300000-7f0000301000 r-xp 00000000 08:01 12    /tmp/libtwice.so\n\
         garbage\n\
         zzz-yyy r-xp 0 0 0 /tmp/x\n\
         7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0     [vdso]\n",
    );
    let names: Vec<_> = modules
        .iter()
        .map(|m| (m.name(), m.base.0, m.ranges.len()))
        .collect();
    assert_eq!(
        names,
        [
            ("my java", 0x55d0_c000_0000, 2),
            ("libold.so", 0x7f00_0010_0000, 1),
            ("libtwice.so", 0x7f00_0020_0000, 1),
            ("libtwice.so", 0x7f00_0030_0000, 1),
            ("[vdso]", 0x7ffc_0000_0000, 1),
        ]
    );
    assert!(modules.by_name("libold.so").unwrap().deleted);
    assert!(modules.by_name("libold.so").unwrap().table().is_none());
    assert_eq!(
        modules.symbolise(Pc(0x7f00_0010_0010)).site(),
        "libold.so+0x10"
    );
}
