//! What the guard must know of the JVM in this process.

use walkfuzz_context::Address;
use walkfuzz_guard::{
    GuardError, JvmHandler, SafeFetchSite, read_word, set_jvm_handler, set_poison_page,
    set_safefetch,
};
use walkfuzz_symbols::{Module, safefetch_sites};

/// What [`tell_guard`] found.
#[derive(Clone, Debug, Default)]
pub struct Protection {
    /// The JVM's SafeFetch loads.
    pub safefetch: Vec<SafeFetchSite>,
    /// The page that HotSpot touches when a check fails (`g_assert_poison`, debug.hpp): a fault there is a failed guarantee.
    pub assert_poison: Option<u64>,
}

/// Tells the guard where the running JVM's SafeFetch loads are and which page it poisons. The guard must have been installed.
///
/// # Errors
/// There are more loads than the guard has room for.
pub fn tell_guard(libjvm: &Module) -> Result<Protection, GuardError> {
    let Some(table) = libjvm.table() else {
        return Ok(Protection::default());
    };
    let sites = safefetch_sites(table, libjvm.base, |at| read_word(Address(at)).ok());
    let safefetch: Vec<SafeFetchSite> = sites
        .iter()
        .map(|site| SafeFetchSite {
            fault_pc: site.fault_pc,
            continuation_pc: site.continuation_pc,
        })
        .collect();
    set_safefetch(&safefetch)?;
    let assert_poison = libjvm
        .address_of("g_assert_poison")
        .and_then(|address| read_word(Address(address)).ok())
        .filter(|page| *page != 0);
    set_poison_page(assert_poison);
    Ok(Protection {
        safefetch,
        assert_poison,
    })
}

/// Lets the guard ask the JVM's own handler at SafeFetch instructions.
///
/// # Safety
/// `handler` is the running libjvm's `JVM_handle_linux_signal`.
pub unsafe fn ask_jvm_at_safefetch(handler: *const std::ffi::c_void) {
    // SAFETY: the caller vouches for the symbol, whose signature is (int, siginfo_t*, void*, int) -> int in 11 to 25.
    unsafe {
        set_jvm_handler(Some(std::mem::transmute::<
            *const std::ffi::c_void,
            JvmHandler,
        >(handler)));
    }
}
