//! What a `Method*` is called.

use std::fmt;

use walkfuzz_context::Address;

use crate::hotspot::HotSpot;
use crate::memory::Memory;

/// Longer symbols are garbage, or of no use in a report.
const MAX_SYMBOL: u16 = 1024;

/// A method's name, as [`method_name`] reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodName {
    /// Its class with dots: `java.lang.String`.
    pub class: String,
    /// Its own name.
    pub name: String,
    /// Its descriptor: `(I)C`.
    pub descriptor: String,
}

impl fmt::Display for MethodName {
    /// `java.lang.String.charAt(I)C`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}{}", self.class, self.name, self.descriptor)
    }
}

/// The name of the method at `method`. `None` if it cannot be read or makes no sense: the class may have been unloaded since the address was seen.
#[must_use]
pub fn method_name(hotspot: &HotSpot, memory: &dyn Memory, method: Address) -> Option<MethodName> {
    if method.0 == 0 {
        return None;
    }
    let tables = hotspot.tables();
    let at = |base: Address, type_name: &str, field: &str| {
        let offset = tables.field(type_name, field)?.offset;
        Some(Address(base.0.wrapping_add(offset)))
    };
    let pointer =
        |base, type_name: &str, field: &str| memory.read_pointer(at(base, type_name, field)?).ok();
    let const_method = pointer(method, "Method", "_constMethod")?;
    let constants = pointer(const_method, "ConstMethod", "_constants")?;
    let holder = pointer(constants, "ConstantPool", "_pool_holder")?;
    let class = pointer(holder, "Klass", "_name")?;
    // The entries stand behind the pool's header, a word each (constantPool.hpp, `ConstantPool::base`).
    let entries = constants.0.checked_add(tables.type_size("ConstantPool")?)?;
    let symbol = |address: Address| {
        let length = memory.read_u16(at(address, "Symbol", "_length")?).ok()?;
        if length == 0 || length > MAX_SYMBOL {
            return None;
        }
        let mut bytes = vec![0; usize::from(length)];
        let body = at(address, "Symbol", "_body[0]").or_else(|| at(address, "Symbol", "_body"))?;
        memory.read(body, &mut bytes).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        (!text.chars().any(char::is_control)).then_some(text)
    };
    let constant = |field: &str| {
        let index = memory
            .read_u16(at(const_method, "ConstMethod", field)?)
            .ok()?;
        let entry = entries.checked_add(u64::from(index) * 8)?;
        symbol(memory.read_pointer(Address(entry)).ok()?)
    };
    Some(MethodName {
        class: symbol(class)?.replace('/', "."),
        name: constant("_name_index")?,
        descriptor: constant("_signature_index").filter(|text| text.starts_with('('))?,
    })
}
