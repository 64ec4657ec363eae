#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manifest for Kubernetes is checked against its schemas, which a package of PyPI has.

usage: test_kubernetes.py MANIFEST PEERS_DIRECTORY
"""

import pathlib
import subprocess
import sys

from registry import fetch
from sides import PATIENCE, run, scratch

VALIDATOR = "kubernetes-validate==1.34.1"
# The oldest and the newest version that it has the schemas of.
VERSIONS = ("1.25", "1.34")
INSTALL_PATIENCE = 300
MANIFEST = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")


def validator(place=pathlib.Path(sys.argv[2]).resolve()):
    """Its program, installed when it is first asked for."""
    interpreter, mark = place / "venv/bin/python3", place / f"{VALIDATOR}.done"
    if not mark.exists():
        place.mkdir(parents=True, exist_ok=True)
        fetch("PyPI", [[sys.executable, "-m", "venv", str(place / "venv")],
                       [str(interpreter), "-m", "pip", "install", "-q", "--no-compile", "--retries",
                        "0", "--timeout", "15", VALIDATOR]], INSTALL_PATIENCE)
        mark.touch()
    return place / "venv/bin/kubernetes-validate"


def judge(text):
    """The validator's exit code, 0 for a manifest that is right, and what it says."""
    versions = [word for version in VERSIONS for word in ("-k", version)]
    with scratch() as folder:
        path = pathlib.Path(folder) / "manifest.yaml"
        path.write_text(text, encoding="utf-8")
        done = subprocess.run([validator(), "--strict", *versions, path], timeout=2 * PATIENCE,
                              capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def manifest_follows_the_schemas():
    """A kind that the validator has no schema of is only a warning to it."""
    code, said = judge(MANIFEST)
    passed = [line.partition("passed for ")[2] for line in said.splitlines()]
    wanted = [f"resource {thing} against version {version}" for version in VERSIONS
              for thing in ("cronjob/nightly", "deployment/worker")]
    assert (code, passed) == (0, wanted), said


def manifest_with_a_mistake_is_refused():
    for right, wrong in (("concurrencyPolicy:", "concurencyPolicy:"), ("args:", "arguments:"),
                         ("backoffLimit: 0", "backoffLimit: none"), ("replicas: 3", "replicas: x")):
        assert MANIFEST.count(f" {right}") == 1, right
        code, said = judge(MANIFEST.replace(f" {right}", f" {wrong}"))
        assert code == 1 and said.count("ERROR ") == len(VERSIONS), (wrong, said)


sys.exit(run([(test.__name__, test) for test in (manifest_follows_the_schemas,
                                                 manifest_with_a_mistake_is_refused)],
             lambda test: test()))
