//! What kind of code a pc lies in, and where inside that code.

/// The kind of code that an address lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum BlobKind {
    /// An interpreter codelet.
    Interpreter,
    /// Compiled Java code (C1 or C2).
    Nmethod,
    /// A native wrapper (an nmethod of a native method).
    NativeWrapper,
    /// An interpreter-to-compiled or compiled-to-interpreted adapter.
    Adapter,
    /// A vtable or itable stub.
    VtableStub,
    /// A runtime stub, safepoint, deoptimisation, exception or uncommon-trap blob.
    RuntimeStub,
    /// StubRoutines: call stub, arraycopy, crypto, string intrinsics, SafeFetch before 18.
    StubRoutine,
    /// A method-handle adapter or another buffer blob.
    Buffer,
    /// In the code cache, but in no live blob.
    FreeCode,
    /// libjvm's text.
    Libjvm,
    /// Anything else.
    Outside,
}

impl BlobKind {
    /// Every kind, in declaration order (the discriminants are 0..).
    pub const ALL: [BlobKind; 11] = [
        BlobKind::Interpreter,
        BlobKind::Nmethod,
        BlobKind::NativeWrapper,
        BlobKind::Adapter,
        BlobKind::VtableStub,
        BlobKind::RuntimeStub,
        BlobKind::StubRoutine,
        BlobKind::Buffer,
        BlobKind::FreeCode,
        BlobKind::Libjvm,
        BlobKind::Outside,
    ];

    /// A short stable name, used in reports and in the text form of perturbations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            BlobKind::Interpreter => "interpreter",
            BlobKind::Nmethod => "nmethod",
            BlobKind::NativeWrapper => "native-wrapper",
            BlobKind::Adapter => "adapter",
            BlobKind::VtableStub => "vtable-stub",
            BlobKind::RuntimeStub => "runtime-stub",
            BlobKind::StubRoutine => "stub-routine",
            BlobKind::Buffer => "buffer",
            BlobKind::FreeCode => "free-code",
            BlobKind::Libjvm => "libjvm",
            BlobKind::Outside => "outside",
        }
    }
}
