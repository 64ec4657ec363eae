# SPDX-License-Identifier: Apache-2.0
"""Programs in Java against a library at one version, which Maven gets where it can."""

import os
import pathlib
import subprocess

from registry import fetch
from sides import need

SECONDS = 150
CONNECT_MS = 10000
CLASSPATH_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"


def question(setting, pom, output, *more):
    return ["mvn", "-B", "-q", *more, f"-Daether.connector.connectTimeout={CONNECT_MS}", "-f", pom,
            f"-D{setting}", f"-Dmdep.outputFile={output}", CLASSPATH_GOAL]


def find_classes(setting, pom, output):
    """Where the classes are."""
    known = output.read_text() if output.exists() else ""
    if known and all(os.path.exists(path) for path in known.split(os.pathsep)):
        return known

    def is_in_the_local_repository():
        try:
            subprocess.run(question(setting, pom, output, "-o"), timeout=SECONDS, check=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            return True
        except (subprocess.SubprocessError, OSError):
            return False

    fetch("Maven's repository", [question(setting, pom, output)], SECONDS,
          is_in_the_local_repository)
    return output.read_text()


def java_command(what, version, pom, directory):
    """Compiles the Peer.java beside the POM; `what` names the library, in the POM's property
    too. Keeps in `directory` what Maven takes long to say."""
    need("java", "javac", "mvn")
    name = f"{what.lower()}-{version}"
    classpath = find_classes(f"{what.lower()}.version={version}", pom,
                             pathlib.Path(directory, f"classpath-{name}"))
    classes = os.path.join(directory, f"classes-{name}")
    source = pathlib.Path(pom).parent / "Peer.java"
    subprocess.run(["javac", "-encoding", "UTF-8", "-cp", classpath, "-d", classes, str(source)],
                   check=True)
    return ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-Xmx128m",
            "-Dslf4j.internal.verbosity=ERROR", "-cp", os.pathsep.join([classes, classpath]),
            "Peer"]
