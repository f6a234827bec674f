"""What the scripts share that bring pinned jars through mvn, as the user has configured it."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"


class Missing(Exception):
    """Something is not on this machine, or cannot be brought."""


class Different(Exception):
    """What came is not what was pinned."""


def cache() -> pathlib.Path:
    if os.environ.get("WALKFUZZ_CACHE"):
        base = pathlib.Path(os.environ["WALKFUZZ_CACHE"])
    else:
        base = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "walkfuzz"
    return base.absolute()


def sha256(path: pathlib.Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if sys.version_info >= (3, 11) else hashlib.sha256(file.read()).hexdigest()


def maven(goals: list[str], folder: pathlib.Path) -> None:
    if not shutil.which("mvn"):
        raise Missing("mvn is missing; bring it with: apt-get install maven")
    # Its own words go to stderr: stdout is the scripts' answer.
    if subprocess.run(["mvn", "-q", "-B", "-Dstyle.color=never", *goals], cwd=folder, stdout=sys.stderr).returncode != 0:
        raise Missing("mvn could not bring what is needed; is there a network, does ~/.m2/settings.xml name a repository that has it?")


def tool(coordinates: str, digest: str) -> pathlib.Path:
    """The jar of group:artifact:version with that sha256, kept in the cache's tools."""
    _, artifact, version = coordinates.split(":")
    jar = cache() / "tools" / f"{artifact}-{version}.jar"
    if jar.exists() and sha256(jar) == digest:
        return jar
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
        maven([f"{PLUGIN}:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}"], pathlib.Path(folder))
        fetched = pathlib.Path(folder) / jar.name
        if not fetched.exists():
            raise Missing(f"mvn brought no {jar.name}")
        if (found := sha256(fetched)) != digest:
            raise Different(f"{jar.name} has sha256 {found}, expected {digest}")
        fetched.replace(jar)
    return jar
