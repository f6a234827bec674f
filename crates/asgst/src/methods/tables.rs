//! Where methods, classes and their names are.
//!
//! Contract: [`MethodTables::resolve`] is not for handlers; everything else is signal-safe and reads by the guard's checked load. A method or class may be gone
//! at any moment: what makes no sense is `None`.

use walkfuzz_context::Address;
use walkfuzz_reference::{CheckedMemory, Encoding};
use walkfuzz_vmstructs::{HotSpot, Memory as _, MissingEntry};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MethodTables {
    const_method: u64,
    method_flags: u64,
    constants: u64,
    const_method_size: u64,
    header: u64,
    flags: u64,
    code_size: u64,
    name_index: u64,
    signature_index: u64,
    id_number: u64,
    has_lines: u16,
    has_generic_signature: u16,
    /// Flags of what stands behind a generic signature's index, a word each.
    annotations: [u16; 4],
    pool_entries: u64,
    pool_length: u64,
    holder: u64,
    class_name: u64,
    class_flags: u64,
    layout_helper: u64,
    class_constants: u64,
    /// In the class; since 15 in its constants.
    class_generic: (bool, u64),
    symbol_length: u64,
    symbol_body: u64,
    /// From a mirror to its class; a static that the JVM sets at its start.
    mirror_class: u64,
    pub(super) encoding: Encoding,
}

/// A method that could be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MethodAt {
    pub(super) const_method: Address,
    constants: Address,
    pub(super) class: Address,
    pub(super) flags: u16,
    const_flags: u16,
}

/// A string of the JVM's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol {
    pub(crate) body: Address,
    pub(crate) length: u16,
}

impl MethodTables {
    /// Looks everything up.
    pub(crate) fn resolve(hotspot: &HotSpot) -> Result<Self, MissingEntry> {
        let tables = hotspot.tables();
        let offset = |type_name: &str, field: &str| Ok(tables.require(type_name, field)?.offset);
        let any = |names: &[(&str, &str)]| Ok(tables.require_any(names)?.offset);
        let flag = |name: &str| {
            let old = tables.constant(&format!("ConstMethod::_{name}"));
            let value = old.or_else(|| tables.constant(&format!("ConstMethodFlags::_misc_{name}")));
            value.map(|value| value as u16).ok_or_else(|| MissingEntry {
                type_name: "ConstMethod".into(),
                field: name.into(),
                jdk: tables.jdk().into(),
            })
        };
        let class_generic = match tables.field("InstanceKlass", "_generic_signature_index") {
            Some(field) => (true, field.offset),
            None => (false, offset("ConstantPool", "_generic_signature_index")?),
        };
        let mirror = tables.require("java_lang_Class", "_klass_offset")?.address;
        let mirror = CheckedMemory.read_i32(mirror).unwrap_or_default();
        Ok(Self {
            const_method: offset("Method", "_constMethod")?,
            method_flags: offset("Method", "_access_flags")?,
            constants: offset("ConstMethod", "_constants")?,
            const_method_size: offset("ConstMethod", "_constMethod_size")?,
            header: tables.require_size("ConstMethod")?,
            flags: any(&[("ConstMethod", "_flags"), ("ConstMethod", "_flags._flags")])?,
            code_size: offset("ConstMethod", "_code_size")?,
            name_index: offset("ConstMethod", "_name_index")?,
            signature_index: offset("ConstMethod", "_signature_index")?,
            id_number: offset("ConstMethod", "_method_idnum")?,
            has_lines: flag("has_linenumber_table")?,
            has_generic_signature: flag("has_generic_signature")?,
            annotations: [
                flag("has_method_annotations")?,
                flag("has_parameter_annotations")?,
                flag("has_type_annotations")?,
                flag("has_default_annotations")?,
            ],
            pool_entries: tables.require_size("ConstantPool")?,
            pool_length: offset("ConstantPool", "_length")?,
            holder: offset("ConstantPool", "_pool_holder")?,
            class_name: offset("Klass", "_name")?,
            class_flags: offset("Klass", "_access_flags")?,
            layout_helper: offset("Klass", "_layout_helper")?,
            class_constants: offset("InstanceKlass", "_constants")?,
            class_generic,
            symbol_length: offset("Symbol", "_length")?,
            symbol_body: any(&[("Symbol", "_body[0]"), ("Symbol", "_body")])?,
            mirror_class: u64::from(mirror.cast_unsigned()),
            encoding: Encoding::of(hotspot.version().feature),
        })
    }

    /// The method at `at`, if it can be one.
    pub(crate) fn method(&self, at: Address) -> Option<MethodAt> {
        let const_method = pointer(at, self.const_method)?;
        let constants = pointer(const_method, self.constants)?;
        let class = pointer(constants, self.holder)?;
        let method = MethodAt {
            const_method,
            constants,
            class,
            flags: half(at, self.method_flags)?,
            const_flags: half(const_method, self.flags)?,
        };
        // Whatever has a name, and whose class has one, is one.
        self.name(&method)?;
        self.class_name(class)?;
        Some(method)
    }

    /// Its name.
    pub(crate) fn name(&self, method: &MethodAt) -> Option<Symbol> {
        self.constant(
            method.constants,
            half(method.const_method, self.name_index)?,
        )
    }

    /// Its descriptor.
    pub(crate) fn signature(&self, method: &MethodAt) -> Option<Symbol> {
        self.constant(
            method.constants,
            half(method.const_method, self.signature_index)?,
        )
    }

    /// Its generic signature, if it has one: the index is the last thing of the method but for its annotations (constMethod.cpp, `last_u2_element`).
    pub(crate) fn generic_signature(&self, method: &MethodAt) -> Option<Symbol> {
        if method.const_flags & self.has_generic_signature == 0 {
            return None;
        }
        let words = CheckedMemory.read_i32(of(method.const_method, self.const_method_size)?);
        let behind = self
            .annotations
            .iter()
            .filter(|flag| method.const_flags & **flag != 0)
            .count() as u64;
        let words = u64::try_from(words.ok()?).ok()?.checked_sub(behind)?;
        let index = half(method.const_method, (words * 8).checked_sub(2)?)?;
        self.constant(method.constants, index)
    }

    /// Its number in its class.
    pub(crate) fn id_number(&self, method: &MethodAt) -> Option<u16> {
        half(method.const_method, self.id_number)
    }

    /// Its bytecodes' length, and where its compressed line numbers begin if it has any: behind them.
    pub(super) fn lines(&self, method: &MethodAt) -> Option<(Address, u16)> {
        let size = half(method.const_method, self.code_size)?;
        let lines = of(method.const_method, self.header + u64::from(size))?;
        (method.const_flags & self.has_lines != 0).then_some((lines, size))
    }

    /// A class's name.
    pub(crate) fn class_name(&self, class: Address) -> Option<Symbol> {
        self.symbol(pointer(class, self.class_name)?)
    }

    /// A class's generic signature; arrays have none.
    pub(crate) fn class_generic_signature(&self, class: Address) -> Option<Symbol> {
        let layout = CheckedMemory
            .read_i32(of(class, self.layout_helper)?)
            .ok()?;
        if layout < 0 {
            return None;
        }
        let constants = pointer(class, self.class_constants)?;
        let (in_class, offset) = self.class_generic;
        let index = half(if in_class { class } else { constants }, offset)?;
        (index != 0).then(|| self.constant(constants, index))?
    }

    /// A class's access flags.
    pub(crate) fn class_flags(&self, class: Address) -> Option<u16> {
        half(class, self.class_flags)
    }

    /// The class of a mirror.
    pub(crate) fn class_of_mirror(&self, mirror: Address) -> Option<Address> {
        let class = pointer(mirror, self.mirror_class)?;
        self.class_name(class).map(|_| class)
    }

    /// An entry of the constants that is a symbol. They stand behind the header, a word each (constantPool.hpp, `ConstantPool::base`).
    fn constant(&self, constants: Address, index: u16) -> Option<Symbol> {
        let length = CheckedMemory
            .read_i32(of(constants, self.pool_length)?)
            .ok()?;
        if i32::from(index) >= length {
            return None;
        }
        self.symbol(pointer(
            constants,
            self.pool_entries + 8 * u64::from(index),
        )?)
    }

    fn symbol(&self, at: Address) -> Option<Symbol> {
        let length = half(at, self.symbol_length)?;
        let body = of(at, self.symbol_body)?;
        (length != 0).then_some(Symbol { body, length })
    }
}

/// A field of an aligned object that is not null.
fn of(object: Address, offset: u64) -> Option<Address> {
    let aligned = object.0 != 0 && object.0.is_multiple_of(8);
    aligned.then_some(Address(object.0.checked_add(offset)?))
}

fn pointer(object: Address, offset: u64) -> Option<Address> {
    CheckedMemory.read_pointer(of(object, offset)?).ok()
}

fn half(object: Address, offset: u64) -> Option<u16> {
    CheckedMemory.read_u16(of(object, offset)?).ok()
}
