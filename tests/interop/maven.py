"""Programs in Java against a library at one version, which Maven gets where it can."""

import os
import pathlib
import subprocess

from sides import Skip, need

SECONDS = 150
CLASSPATH_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"


def ask(setting, pom, output, *more):
    try:
        subprocess.run(["mvn", "-B", "-q", *more, "-f", pom, f"-D{setting}",
                        f"-Dmdep.outputFile={output}", CLASSPATH_GOAL], timeout=SECONDS,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        return output.read_text()
    except (subprocess.SubprocessError, OSError):
        return None


def find_classes(setting, pom, output):
    """Where the classes are, or None: Maven cannot get them."""
    known = output.read_text() if output.exists() else ""
    if known and all(os.path.exists(path) for path in known.split(os.pathsep)):
        return known
    return ask(setting, pom, output, "-o") or ask(setting, pom, output)


def java_command(what, version, pom, directory):
    """Compiles the Peer.java beside the POM; `what` names the library, in the POM's property
    too. Keeps in `directory` what Maven takes long to say."""
    need("java", "javac", "mvn")
    name = f"{what.lower()}-{version}"
    classpath = find_classes(f"{what.lower()}.version={version}", pom,
                             pathlib.Path(directory, f"classpath-{name}"))
    if not classpath:
        raise Skip(f"Maven cannot get {what} {version}")
    classes = os.path.join(directory, f"classes-{name}")
    source = pathlib.Path(pom).parent / "Peer.java"
    subprocess.run(["javac", "-encoding", "UTF-8", "-cp", classpath, "-d", classes, str(source)],
                   check=True)
    return ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-Xmx128m",
            "-Dslf4j.internal.verbosity=ERROR", "-cp", os.pathsep.join([classes, classpath]),
            "Peer"]
