//! What a JVM offers beyond the JVMTI specification.
//!
//! Contract: as [`Jvmti`]'s.

use std::ptr;

use jvmti_bindings::sys::jvmti::{jvmtiExtensionFunction, jvmtiExtensionFunctionInfo};

use crate::JvmError;
use crate::jvmti::Jvmti;

/// A function that JVMTI's `GetExtensionFunctions` shows.
#[derive(Clone, Debug)]
pub struct ExtensionFunction {
    /// Its id: a Java package's name with the function's behind it.
    pub id: String,
    /// What it takes beside the environment.
    pub parameters: usize,
    /// Where it is; it stays there as long as the JVM.
    pub function: jvmtiExtensionFunction,
}

impl ExtensionFunction {
    /// The last word of its id.
    #[must_use]
    pub fn name(&self) -> &str {
        self.id.rsplit('.').next().unwrap_or_default()
    }
}

impl Jvmti {
    /// Every extension function.
    ///
    /// # Errors
    /// JVMTI refuses.
    pub fn extension_functions(self) -> Result<Vec<ExtensionFunction>, JvmError> {
        let (mut count, mut infos) = (0, ptr::null_mut::<jvmtiExtensionFunctionInfo>());
        self.call("GetExtensionFunctions", |f| {
            f.GetExtensionFunctions
                // SAFETY: a live environment.
                .map(|f| unsafe { f(self.raw(), &mut count, &mut infos) })
        })?;
        let mut functions = Vec::new();
        for index in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: JVMTI returned `count` of them, and wants each of their parts given back.
            unsafe {
                let info = &*infos.add(index);
                let parameters = usize::try_from(info.param_count).unwrap_or(0);
                for parameter in 0..parameters {
                    self.deallocate((*info.params.add(parameter)).name.cast());
                }
                self.deallocate(info.params.cast());
                self.deallocate(info.errors.cast());
                self.deallocate(info.short_description.cast());
                let id = self.text(info.id);
                functions.extend(info.func.map(|function| ExtensionFunction {
                    id,
                    parameters,
                    function,
                }));
            }
        }
        // SAFETY: JVMTI allocated the array.
        unsafe { self.deallocate(infos.cast()) };
        Ok(functions)
    }

    /// The extension function of that name, if this JVM offers it.
    ///
    /// # Errors
    /// JVMTI refuses.
    pub fn extension_function(self, name: &str) -> Result<Option<ExtensionFunction>, JvmError> {
        let mut functions = self.extension_functions()?.into_iter();
        Ok(functions.find(|function| function.name() == name))
    }
}
