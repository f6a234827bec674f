//! `walkfuzz step`: untouched contexts at every instruction. What it finds is natural by construction.

use crate::child::{conclude, environment, jvm_options, make_run, myself, run as run_child};
use crate::cli::StepArgs;
use crate::failure::Failure;

pub(crate) fn run(args: &StepArgs) -> Result<(), Failure> {
    if !walkfuzz_engine::can_step() {
        return Err(Failure::environment(
            "this processor cannot step itself; `step` needs x86_64",
        ));
    }
    let options = jvm_options(&args.subject)?;
    let folder = make_run("step", &args.subject, &options, None)?;
    eprintln!(
        "walkfuzz: {} walks of JDK {}; run folder {}",
        args.walks,
        options.jdk,
        folder.path().display()
    );
    let mut command = myself()?;
    command.args(["in-jvm", "step", &args.walks.to_string()]);
    command.envs(environment(&args.subject, &options));
    command
        .env("WALKFUZZ_RUN", folder.path())
        .env("WALKFUZZ_ENGINE", "step");
    let ended = run_child(command, args.subject.json)?;
    conclude(&folder, &args.subject, ended)
}
