//! Anonymises, trims and compresses crash logs for `corpus/hs_err`: `keep_crash_logs RAW_FOLDER CORPUS_FOLDER`.
//!
//! What `scripts/crash-jdks` left in RAW_FOLDER becomes `NAME.log.zst`. docs/crash-logs.md has the rules; a test of the corpus
//! checks that nothing of the machine is left.

use std::borrow::Cow;
use std::error::Error;
use std::path::Path;
use std::{env, fs};

/// Most lines of these kinds that stay, each counted from its section's heading on.
const EVENTS: usize = 5;
const REGIONS: usize = 3;
const NAMELESS_RANGES: usize = 6;
const MEMORY_LINES: usize = 4;
/// The processor's flags fill a kilobyte.
const FLAGS: usize = 120;

/// Where files may lie that are the same on every machine; of others only the name stays.
const COMMON: [&str; 10] = [
    "/opt/jdk", "/crash", "/usr/", "/lib", "/etc/", "/proc/", "/sys/", "/dev/", "/bin", "/memfd:",
];
/// Where a file name in a log ends.
const ENDS: [char; 8] = [' ', ':', ',', '"', '\'', ')', '=', ';'];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [raw, corpus] = &arguments[..] else {
        return Err("usage: keep_crash_logs RAW_FOLDER CORPUS_FOLDER".into());
    };
    fs::create_dir_all(corpus)?;
    let (mut logs, mut bytes) = (0, 0);
    for entry in fs::read_dir(raw)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        if !name.ends_with(".log") {
            continue;
        }
        let kept = keep(&String::from_utf8_lossy(&fs::read(&path)?));
        let packed = zstd::encode_all(kept.as_bytes(), 19)?;
        bytes += packed.len();
        logs += 1;
        fs::write(Path::new(corpus).join(format!("{name}.zst")), packed)?;
    }
    println!("{logs} logs, {} KB", bytes / 1024);
    Ok(())
}

/// The log as it is stored.
fn keep(log: &str) -> String {
    let mut out = String::with_capacity(log.len());
    let mut section = "";
    let mut count = 0;
    for line in log.lines() {
        let heading = [
            "Dynamic libraries:",
            "Environment Variables:",
            "/proc/meminfo:",
            "Heap Regions",
        ];
        if let Some(known) = heading.iter().find(|heading| line.starts_with(**heading)) {
            (section, count) = (known, 0);
        } else if line.ends_with(" events):") {
            (section, count) = ("events", 0);
        } else if line.is_empty() {
            section = "";
        }
        let limit = match section {
            "events" if !line.ends_with(" events):") => EVENTS,
            "/proc/meminfo:" if line.contains("kB") => MEMORY_LINES,
            "Dynamic libraries:" if !line.contains(['/', '[']) && line.contains(" 00:00 0") => {
                NAMELESS_RANGES
            }
            _ if line.starts_with('|') => REGIONS,
            _ => usize::MAX,
        };
        if limit != usize::MAX {
            count += 1;
            if count > limit {
                continue;
            }
        }
        out.push_str(&anonymous(line, section));
        out.push('\n');
    }
    out
}

/// The line without what tells the machine or its user.
fn anonymous<'a>(line: &'a str, section: &str) -> Cow<'a, str> {
    if section == "Environment Variables:" && line.contains('=') {
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        let common = matches!(name, "LANG" | "LC_ALL" | "SHELL");
        let value = match name {
            "PATH" => "/usr/bin:/bin",
            _ if common => value,
            _ => "x",
        };
        return format!("{name}={value}").into();
    }
    if line.starts_with("uname:") {
        return "uname: Linux 6.1.0 #1 SMP PREEMPT_DYNAMIC x86_64".into();
    }
    if line.starts_with("flags") && line.len() > FLAGS {
        return line.chars().take(FLAGS).collect::<String>().into();
    }
    let line = paths(line);
    if section == "Dynamic libraries:" {
        return without_inode(&line).into();
    }
    line
}

/// Files of the machine alone lose their folders.
fn paths(line: &str) -> Cow<'_, str> {
    if !line.contains('/') {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('/') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let begins = before.is_empty() || before.ends_with(|c: char| ENDS.contains(&c));
        let end = from.find(ENDS).unwrap_or(from.len());
        let (path, behind) = from.split_at(end);
        let several = path.matches('/').count() > 1 && !path.starts_with("//");
        if begins && several && !COMMON.iter().any(|common| path.starts_with(common)) {
            out.push_str("/home/user/");
            out.push_str(path.rsplit('/').next().unwrap_or(""));
        } else {
            out.push_str(path);
        }
        rest = behind;
    }
    out.push_str(rest);
    out.into()
}

/// `7f00-7f01 r-xp 00000000 fe:00 326414     /usr/lib/x.so`: device and inode are the machine's.
fn without_inode(line: &str) -> String {
    let mut fields = line.splitn(5, ' ');
    match (
        fields.next(),
        fields.next(),
        fields.next(),
        fields.next(),
        fields.next(),
    ) {
        (Some(range), Some(access), Some(offset), Some(_), Some(rest)) if range.contains('-') => {
            let path = rest
                .trim_start()
                .split_once(' ')
                .map_or("", |(_, path)| path);
            let path = path.trim();
            if path.is_empty() {
                format!("{range} {access} {offset} 00:00 0 ")
            } else {
                format!("{range} {access} {offset} 00:00 0                          {path}")
            }
        }
        _ => line.to_owned(),
    }
}
