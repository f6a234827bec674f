//! The section SYSTEM: operating system, processor, memory.

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct System {
    /// The distribution.
    pub os: Option<String>,
    /// The kernel.
    pub uname: Option<String>,
    /// The C library.
    pub libc: Option<String>,
    /// `CPU:`: counts and features.
    pub cpu: Option<String>,
    /// The processor's name.
    pub model: Option<String>,
    /// `Memory:`: page size and sizes.
    pub memory: Option<String>,
    /// `container_type:`.
    pub container: Option<String>,
    /// `KVM virtualization detected`.
    pub virtualization: Option<String>,
    /// `vm_info:`: who built the VM, when, with what.
    pub vm_info: Option<String>,
}

impl System {
    /// Takes in a line of the section. Before 17 no blank follows some of the keys.
    pub(super) fn line(&mut self, line: &str) {
        let line = line.strip_prefix("OS:").unwrap_or(line);
        for (key, place) in [
            ("PRETTY_NAME=", &mut self.os),
            ("uname:", &mut self.uname),
            ("libc:", &mut self.libc),
            ("CPU:", &mut self.cpu),
            ("model name", &mut self.model),
            ("Memory:", &mut self.memory),
            ("container_type:", &mut self.container),
            ("vm_info:", &mut self.vm_info),
        ] {
            if let Some(rest) = line.strip_prefix(key) {
                let value = rest.trim_matches(['"', ':', ' ', '\t']);
                place.get_or_insert_with(|| value.to_owned());
            }
        }
        if line.ends_with(" virtualization detected") {
            self.virtualization.get_or_insert_with(|| line.to_owned());
        }
    }
}
