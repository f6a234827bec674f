//! The symbols of the libjvm in this process: its `.symtab` plus where it was loaded.

use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_void};
use std::path::Path;

use object::{Object, ObjectSymbol};

pub(crate) struct Symbols {
    base: u64,
    offsets: HashMap<String, u64>,
}

impl Symbols {
    pub(crate) fn read(libjvm: &Path) -> Self {
        let bytes = std::fs::read(libjvm).expect("reading libjvm");
        let file = object::File::parse(&*bytes).expect("parsing libjvm");
        let mut offsets = HashMap::new();
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            if let (Ok(name), true) = (symbol.name(), symbol.is_definition()) {
                offsets.insert(name.to_owned(), symbol.address());
            }
        }
        Self {
            base: base_of(libjvm).expect("libjvm among the loaded libraries"),
            offsets,
        }
    }

    pub(crate) fn address(&self, name: &str) -> Option<u64> {
        self.offsets.get(name).map(|offset| self.base + offset)
    }

    /// Only what a stripped libjvm would still have.
    pub(crate) fn exported(&self, name: &str) -> Option<u64> {
        let exported =
            name.starts_with("gHotSpot") || name.starts_with("JNI_") || name.starts_with("JVM_");
        exported.then(|| self.address(name)).flatten()
    }
}

fn base_of(library: &Path) -> Option<u64> {
    struct Search<'a> {
        library: &'a Path,
        base: Option<u64>,
    }
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: dl_iterate_phdr gives a valid info, whose name is a C string, and our own `data`.
        let (info, search) = unsafe { (&*info, &mut *data.cast::<Search<'_>>()) };
        // SAFETY: as above.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) };
        if name
            .to_str()
            .is_ok_and(|name| Path::new(name) == search.library)
        {
            search.base = Some(info.dlpi_addr);
            return 1;
        }
        0
    }
    let mut search = Search {
        library,
        base: None,
    };
    // SAFETY: `visit` gets the pointer to `search`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.base
}
