//! Which of a stranger's JVM options to take over.
//!
//! A crash log is somebody's file, and options can run commands (`OnError`), load code (`-agentpath`) or write files. So only
//! forms that can do none of this pass: switches, and flags whose value is a number; of those, not what concerns sizes of
//! the heap, files, diagnostics or the choice of the collector, which stands on its own.

/// Longer lists are cut: nobody sets so many flags by hand.
const MOST: usize = 64;

/// Flags that do not change what a walker meets, or that must not come from a stranger, by how their names begin.
const LEFT_OUT: [&str; 30] = [
    "On",
    "Error",
    "HeapDump",
    "Print",
    "Log",
    "Trace",
    "Crash",
    "Exit",
    "CreateCoredump",
    "UsePerfData",
    "PerfData",
    "Flags",
    "VMOptions",
    "NativeMemory",
    "Unlock",
    "Suppress",
    "ShowMessage",
    "Abort",
    "MaxHeap",
    "InitialHeap",
    "MinHeap",
    "MaxRAM",
    "InitialRAM",
    "MinRAM",
    "SoftMaxHeap",
    "AlwaysPreTouch",
    "TieredStopAtLevel",
    "StartFlightRecording",
    "FlightRecorder",
    "IgnoreUnrecognized",
];

/// The options worth taking over, in their order. The caller unlocks diagnostic and experimental ones.
#[must_use]
pub fn worth_taking(options: &str) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for option in options.split_whitespace() {
        if kept.len() == MOST {
            break;
        }
        let keep = match option.strip_prefix("-XX:") {
            Some(flag) => is_harmless(flag),
            // Thread stacks: guard zones and depth depend on them.
            None => option.strip_prefix("-Xss").is_some_and(is_size),
        };
        if keep && !kept.iter().any(|known| known == option) {
            kept.push(option.to_owned());
        }
    }
    kept
}

fn is_harmless(flag: &str) -> bool {
    let name = match flag.strip_prefix(['+', '-']) {
        Some(name) => name,
        None => match flag.split_once('=') {
            Some((name, value)) if is_size(value) => name,
            _ => return false,
        },
    };
    let is_name =
        !name.is_empty() && name.len() < 80 && name.bytes().all(|b| b.is_ascii_alphanumeric());
    let collector = name.starts_with("Use") && name.ends_with("GC") || name == "TieredCompilation";
    is_name && !collector && !LEFT_OUT.iter().any(|left_out| name.starts_with(left_out))
}

/// A number, perhaps with a unit.
fn is_size(value: &str) -> bool {
    let digits = value
        .strip_suffix(['k', 'K', 'm', 'M', 'g', 'G'])
        .unwrap_or(value);
    !digits.is_empty() && digits.len() < 20 && digits.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::worth_taking;

    #[test]
    fn what_may_do_harm_stays_behind() {
        let options = "-Xmx64m -Xss512k -XX:+UseG1GC -XX:-UseCompressedOops -XX:OnError=rm -XX:+UseZGC \
            -XX:ReservedCodeCacheSize=48m -XX:ErrorFile=/x -XX:MaxJavaStackTraceDepth=4 -agentpath:/x.so -Dx=y \
            -XX:+PreserveFramePointer -XX:MaxHeapSize=3 -XX:Flags=.hotspotrc -XX:-TieredCompilation -XX:+A;b -XX:+ \
            -XX:CompileCommand=print -Xss -XX:-UseCompressedOops -javaagent:x.jar @file";
        assert_eq!(
            worth_taking(options),
            [
                "-Xss512k",
                "-XX:-UseCompressedOops",
                "-XX:ReservedCodeCacheSize=48m",
                "-XX:MaxJavaStackTraceDepth=4",
                "-XX:+PreserveFramePointer",
            ]
        );
    }
}
