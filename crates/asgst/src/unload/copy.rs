//! Copies of what classes and methods are called.

use std::collections::HashMap;

use jvmti_bindings::sys::jni::jclass;
use walkfuzz_context::Address;
use walkfuzz_jvm::Jvmti;
use walkfuzz_reference::CheckedMemory;
use walkfuzz_vmstructs::Memory as _;

use crate::abi::iterator::{Class, Method};
use crate::methods::{
    Description, Symbol, describe, describe_class, jclass_to_class, jmethod_id_to_method,
};

/// A symbol's bytes; empty for none.
type Text = Box<[u8]>;

struct MethodCopy {
    method: Method,
    texts: [Text; 3],
    modifiers: i32,
    number: i32,
}

/// One class.
pub(super) struct ClassCopy {
    pub(super) class: Class,
    name: Text,
    generic: Text,
    modifiers: i32,
    methods: Vec<MethodCopy>,
}

fn text(symbol: Option<Symbol>) -> Text {
    let Some(symbol) = symbol else {
        return Text::default();
    };
    let mut bytes = vec![0; usize::from(symbol.length)];
    match CheckedMemory.read(symbol.body, &mut bytes) {
        Ok(()) => bytes.into_boxed_slice(),
        Err(_) => Text::default(),
    }
}

fn symbol(text: &Text) -> Option<Symbol> {
    (!text.is_empty()).then_some(Symbol {
        body: Address(text.as_ptr() as u64),
        length: text.len() as u16,
    })
}

impl ClassCopy {
    /// Of a class that is alive; `None` where it cannot be read.
    pub(super) fn of(jvmti: Jvmti, mirror: jclass) -> Option<Self> {
        let class = jclass_to_class(mirror);
        let (name, generic, modifiers) = describe_class(class)?;
        let mut methods = Vec::new();
        // SAFETY: the caller's reference.
        unsafe {
            jvmti.make_ids(mirror, &mut |ids| {
                methods.extend(ids.iter().filter_map(|id| {
                    let method = jmethod_id_to_method(*id);
                    let found = describe(method)?;
                    Some(MethodCopy {
                        method,
                        texts: [found.name, found.signature, found.generic].map(text),
                        modifiers: found.modifiers,
                        number: found.number,
                    })
                }));
            });
        }
        Some(Self {
            class,
            name: text(Some(name)),
            generic: text(generic),
            modifiers,
            methods,
        })
    }

    /// Its methods.
    pub(super) fn handles(&self) -> impl Iterator<Item = Method> {
        self.methods.iter().map(|method| method.method)
    }

    /// What a method of its is called.
    pub(super) fn method(&self, method: Method) -> Option<Description> {
        let copy = self.methods.iter().find(|copy| copy.method == method)?;
        let [name, signature, generic] = &copy.texts;
        Some(Description {
            class: self.class,
            name: symbol(name),
            signature: symbol(signature),
            generic: symbol(generic),
            modifiers: copy.modifiers,
            number: copy.number,
        })
    }

    /// What it is called, if it is that class.
    pub(super) fn class_if(&self, class: Class) -> Option<(Symbol, Option<Symbol>, i32)> {
        let is_it = class == self.class;
        is_it.then_some((symbol(&self.name)?, symbol(&self.generic), self.modifiers))
    }
}

/// All copies, by their tags.
pub(super) struct Copies {
    by_tag: Option<HashMap<i64, Box<ClassCopy>>>,
    last: i64,
}

impl Copies {
    pub(super) const fn new() -> Self {
        Self {
            by_tag: None,
            last: 0,
        }
    }

    /// Keeps a copy and gives its tag.
    pub(super) fn add(&mut self, copy: ClassCopy) -> i64 {
        self.last += 1;
        let copies = self.by_tag.get_or_insert_default();
        copies.insert(self.last, Box::new(copy));
        self.last
    }

    /// Gives a copy back.
    pub(super) fn take(&mut self, tag: i64) -> Option<Box<ClassCopy>> {
        self.by_tag.as_mut()?.remove(&tag)
    }
}
