//! What the JVM was told: arguments, flags, environment, signal handlers.

/// `VM Arguments:`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmArguments {
    /// The JVM's options, one string as the log has it: an option with blanks cannot be told from two.
    pub options: Option<String>,
    /// The main class or jar with its arguments.
    pub command: Option<String>,
    /// The class path.
    pub class_path: Option<String>,
    /// `SUN_STANDARD`, `generic`.
    pub launcher: Option<String>,
}

impl VmArguments {
    pub(super) fn line(&mut self, line: &str) {
        for (key, place) in [
            ("jvm_args:", &mut self.options),
            ("java_command:", &mut self.command),
            ("java_class_path (initial):", &mut self.class_path),
            ("Launcher Type:", &mut self.launcher),
        ] {
            if let Some(rest) = line.strip_prefix(key) {
                place.get_or_insert_with(|| rest.trim().to_owned());
            }
        }
    }
}

/// One of `[Global flags]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// `command line`, `ergonomic`, `environment`, ...
    pub origin: String,
}

impl Flag {
    /// `     bool UseG1GC    = true    {product} {ergonomic}`.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (left, right) = line.split_once('=')?;
        let mut words = left.split_whitespace();
        let (_kind, name) = (words.next()?, words.next()?);
        // `:=` marks flags that are not at their default, in some releases.
        let rest_of_left = words.next();
        if rest_of_left.is_some_and(|word| word != ":") {
            return None;
        }
        let end = right.find('{').unwrap_or(right.len());
        let origin = right
            .rsplit_once('{')
            .and_then(|(_, origin)| origin.split('}').next());
        Some(Self {
            name: name.trim_end_matches(':').to_owned(),
            value: right[..end].trim().to_owned(),
            origin: origin.unwrap_or("").to_owned(),
        })
    }
}

/// One of `Signal Handlers:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerLine {
    /// `SIGSEGV`.
    pub signal: String,
    /// `crash_handler in libjvm.so`, `[libjvm.so+0xf42ee0]`, `SIG_DFL`.
    pub handler: String,
}

impl HandlerLine {
    /// `   SIGSEGV: crash_handler in libjvm.so, mask=..., flags=...`; 11: `SIGSEGV: [libjvm.so+0xf42ee0], sa_mask[0]=...`.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (signal, rest) = line.trim_start().split_once(": ")?;
        if !signal.starts_with("SIG") {
            return None;
        }
        Some(Self {
            signal: signal.to_owned(),
            handler: rest.split(',').next()?.trim().to_owned(),
        })
    }
}

/// The collectors by the words of the line `Java VM:` and by their flag.
const COLLECTORS: [(&str, &str, &str); 7] = [
    ("serial gc", "UseSerialGC", "serial"),
    ("parallel gc", "UseParallelGC", "parallel"),
    ("g1 gc", "UseG1GC", "g1"),
    ("shenandoah gc", "UseShenandoahGC", "shenandoah"),
    ("z gc", "UseZGC", "z"),
    ("epsilon gc", "UseEpsilonGC", "epsilon"),
    ("concurrent mark sweep gc", "UseConcMarkSweepGC", "cms"),
];

/// The collector's name, as `walkfuzz` calls collectors, from the line `Java VM:`.
pub(super) fn collector_of_vm(vm: &str) -> Option<&'static str> {
    let mut words = vm.split([',', '(', ')']).map(str::trim);
    words.find_map(|word| {
        let found = COLLECTORS.iter().find(|(name, ..)| *name == word);
        found.map(|(.., name)| *name)
    })
}

/// The same from a flag.
pub(super) fn collector_of_flag(flag: &str) -> Option<&'static str> {
    let found = COLLECTORS.iter().find(|(_, name, _)| *name == flag);
    found.map(|(.., name)| *name)
}
