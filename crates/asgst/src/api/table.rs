//! How a table of functions is declared.

/// A function that a library does not export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the library does not export {0}")]
pub struct MissingFunction(pub &'static str);

/// Declares a table: fields, their names in libraries, their types.
macro_rules! function_table {
    (
        $(#[$doc:meta])*
        $table:ident {
            $($(#[$field_doc:meta])* $field:ident = $symbol:literal: ($($argument:ty),*) $(-> $answer:ty)?;)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $table {
            $($(#[$field_doc])* pub $field: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)*
        }

        impl $table {
            /// What its functions are called, without a prefix.
            pub const NAMES: &'static [&'static str] = &[$($symbol),*];

            /// The functions of a library; `lookup` is asked for the names of [`NAMES`](Self::NAMES).
            ///
            /// # Errors
            /// One is not there.
            ///
            /// # Safety
            /// What is found under these names has these types.
            pub unsafe fn of_library(
                lookup: &$crate::api::Lookup<'_>,
            ) -> Result<Self, $crate::api::MissingFunction> {
                Ok(Self {
                    $($field: {
                        let found = lookup($symbol).filter(|found| !found.is_null());
                        let found = found.ok_or($crate::api::MissingFunction($symbol))?;
                        // SAFETY: the caller's promise.
                        unsafe {
                            std::mem::transmute::<
                                *const std::ffi::c_void,
                                unsafe extern "C" fn($($argument),*) $(-> $answer)?,
                            >(found)
                        }
                    },)*
                })
            }
        }
    };
}

pub(crate) use function_table;
