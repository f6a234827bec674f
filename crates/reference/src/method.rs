//! What a walk needs of a `Method`.

use walkfuzz_context::Address;
use walkfuzz_vmstructs::{Memory, MissingEntry, Tables};

/// `JVM_ACC_NATIVE`, as class files have it.
const NATIVE: u16 = 0x100;

/// Where methods' fields are.
#[derive(Clone, Debug)]
pub(crate) struct MethodLayout {
    const_method: u64,
    access_flags: u64,
    constants: u64,
    code_size: u64,
    /// Bytecodes stand behind the header (constMethod.hpp, `code_base`).
    const_method_size: u64,
    id_number: u64,
    pool_holder: u64,
    ids: u64,
}

/// A method that makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Method {
    pub(crate) is_native: bool,
    const_method: Address,
}

impl MethodLayout {
    pub(crate) fn resolve(tables: &Tables) -> Result<Self, MissingEntry> {
        let offset = |type_name: &str, field: &str| Ok(tables.require(type_name, field)?.offset);
        Ok(Self {
            const_method: offset("Method", "_constMethod")?,
            access_flags: offset("Method", "_access_flags")?,
            constants: offset("ConstMethod", "_constants")?,
            code_size: offset("ConstMethod", "_code_size")?,
            const_method_size: tables.require_size("ConstMethod")?,
            id_number: offset("ConstMethod", "_method_idnum")?,
            pool_holder: offset("ConstantPool", "_pool_holder")?,
            ids: offset("InstanceKlass", "_methods_jmethod_ids")?,
        })
    }

    /// The `jmethodID` of the method at `at`, if it has one: its class has an array of them by the method's number, and their count stands
    /// first (instanceKlass.cpp, `jmethod_id_or_null`).
    #[inline]
    pub(crate) fn id<M: Memory + ?Sized>(&self, memory: &M, at: Address) -> Option<u64> {
        let pointer = |object, offset| memory.read_pointer(of(object, offset)?).ok();
        let const_method = pointer(at, self.const_method)?;
        let number = memory.read_u16(of(const_method, self.id_number)?).ok()?;
        let constants = pointer(const_method, self.constants)?;
        let holder = pointer(constants, self.pool_holder)?;
        let ids = pointer(holder, self.ids)?;
        let count = memory.read_u64(of(ids, 0)?).ok()?;
        let number = u64::from(number);
        let id = (number < count).then_some(of(ids, 8 * (1 + number))?)?;
        memory.read_u64(id).ok().filter(|id| *id != 0)
    }

    /// The method at `at`; `None` if it cannot be one.
    #[inline]
    pub(crate) fn read<M: Memory + ?Sized>(&self, memory: &M, at: Address) -> Option<Method> {
        let const_method = memory.read_pointer(of(at, self.const_method)?).ok()?;
        let flags = memory.read_u16(of(at, self.access_flags)?).ok()?;
        let constants = memory
            .read_pointer(of(const_method, self.constants)?)
            .ok()?;
        (constants.0 != 0 && constants.0.is_multiple_of(8)).then_some(Method {
            is_native: flags & NATIVE != 0,
            const_method,
        })
    }

    /// The bytecode index of `bcp` in the method; `None` outside its bytecodes.
    #[inline]
    pub(crate) fn bci<M: Memory + ?Sized>(
        &self,
        memory: &M,
        method: &Method,
        bcp: u64,
    ) -> Option<i32> {
        let size = of(method.const_method, self.code_size)?;
        let size = u64::from(memory.read_u16(size).ok()?);
        let code = method.const_method.0.checked_add(self.const_method_size)?;
        let bci = bcp.checked_sub(code)?;
        (bci < size).then_some(bci as i32)
    }
}

/// A field of an aligned object that is not null.
#[inline]
fn of(object: Address, offset: u64) -> Option<Address> {
    let aligned = object.0 != 0 && object.0.is_multiple_of(8);
    aligned.then_some(Address(object.0.checked_add(offset)?))
}
