//! A value that frozen copies and the process they come from both see.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A `T` in memory that stays shared over fork.
#[derive(Debug)]
pub struct Shared<T> {
    at: *mut T,
    owns: PhantomData<T>,
}

// SAFETY: a Shared is a unique handle to its mapping within one process, like a Box.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T: Copy> Shared<T> {
    /// Maps one `T` that begins as `value`.
    ///
    /// # Errors
    /// The kernel's, when no memory can be mapped.
    pub fn new(value: T) -> std::io::Result<Self> {
        // SAFETY: a fresh anonymous mapping of at least the value's size; page alignment satisfies any `T`.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<T>().max(1),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: just mapped, large and aligned enough.
        unsafe { at.cast::<T>().write(value) };
        Ok(Self {
            at: at.cast(),
            owns: PhantomData,
        })
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: mapped, aligned and written in `new`.
        unsafe { &*self.at }
    }
}

impl<T> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; &mut self makes the access unique within this process.
        unsafe { &mut *self.at }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this size.
        unsafe { libc::munmap(self.at.cast(), size_of::<T>().max(1)) };
    }
}
