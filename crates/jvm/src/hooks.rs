//! What the JVM says and does while it starts.
//!
//! HotSpot prints the reason of a refusal and, in many cases, ends the process. JNI's hooks `vfprintf`, `abort` and `exit` let the
//! start be an error of ours instead. Once the JVM runs, output goes where it always went, and abort and exit are the JVM's business.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// True while `JNI_CreateJavaVM` runs: output is kept, and an abort ends the start alone.
static STARTING: AtomicBool = AtomicBool::new(false);
static OUTPUT: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static ABORTED: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

unsafe extern "C" {
    /// The C library's function. A `va_list` argument is passed as a pointer in both ABIs that we support: the System V ABI's type is
    /// an array, and AAPCS64 passes composites above 16 bytes by reference.
    fn vsnprintf(
        buffer: *mut c_char,
        size: usize,
        format: *const c_char,
        arguments: *mut c_void,
    ) -> c_int;
}

/// Begins to keep the JVM's output; `aborted` is called if the JVM wants to end the process.
pub(crate) fn begin(aborted: impl FnOnce() + Send + 'static) {
    *lock(&ABORTED) = Some(Box::new(aborted));
    STARTING.store(true, Ordering::SeqCst);
}

/// Ends the start and returns what the JVM said meanwhile.
pub(crate) fn end() -> String {
    STARTING.store(false, Ordering::SeqCst);
    *lock(&ABORTED) = None;
    let text = std::mem::take(&mut *lock(&OUTPUT));
    String::from_utf8_lossy(&text).trim().to_owned()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// JNI's `vfprintf` hook.
///
/// # Safety
/// Called by the JVM with what C's vfprintf takes.
pub(crate) unsafe extern "C" fn vfprintf(
    file: *mut libc::FILE,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    let mut text = [0u8; 4096];
    // SAFETY: format and arguments belong together (the JVM's duty), and the buffer has the length that is passed.
    let length = unsafe { vsnprintf(text.as_mut_ptr().cast(), text.len(), format, arguments) };
    let Ok(kept) = usize::try_from(length) else {
        return length;
    };
    let kept = &text[..kept.min(text.len() - 1)];
    if STARTING.load(Ordering::SeqCst) {
        lock(&OUTPUT).extend_from_slice(kept);
    } else {
        // SAFETY: the JVM passes an open stream, and `kept` is that long.
        unsafe { libc::fwrite(kept.as_ptr().cast(), 1, kept.len(), file) };
    }
    length
}

/// JNI's `abort` hook.
pub(crate) extern "C" fn abort() {
    end_start();
}

/// JNI's `exit` hook.
pub(crate) extern "C" fn exit(_code: c_int) {
    end_start();
}

/// While the JVM starts: reports the end and never returns, since the JVM would end the process. Afterwards: does nothing.
fn end_start() {
    if !STARTING.load(Ordering::SeqCst) {
        return;
    }
    let aborted = lock(&ABORTED).take();
    if let Some(aborted) = aborted {
        aborted();
    }
    loop {
        std::thread::park();
    }
}
