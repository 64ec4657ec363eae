# SPDX-License-Identifier: Apache-2.0
"""Builds the extension against the installed library, which pkg-config finds."""

import subprocess
import sys

from setuptools import Extension, setup

MISSING = """holdfast: the C library was not found: pkg-config knows no "holdfast".
Install it first ("make install" in its source, or the package libholdfast-dev), and set
PKG_CONFIG_PATH if it is in a prefix of your own."""


def flags(*options):
    try:
        return subprocess.run(["pkg-config", *options, "holdfast"], check=True, text=True,
                              capture_output=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        sys.exit(MISSING)


setup(
    ext_modules=[Extension(
        "holdfast._holdfast",
        [f"src/{name}.c" for name in ("answer", "client", "guard", "hold", "loss", "module",
                                      "queue", "store")],
        depends=["src/binding.h"],
        define_macros=[("_GNU_SOURCE", "1")],
        extra_compile_args=["-std=c17", "-fvisibility=hidden", *flags("--cflags")],
        extra_link_args=["-pthread", *flags("--libs")],
        py_limited_api=True,
    )],
    options={"bdist_wheel": {"py_limited_api": "cp39"}},
)
