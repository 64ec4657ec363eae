# SPDX-License-Identifier: Apache-2.0
"""Makes the certificate of a server at 127.0.0.1, which is its own authority."""
import subprocess


def make_certificate(directory):
    """server.crt and server.key, of a kind that Java reads, too."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=server",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{directory}/server.key",
                    "-out", f"{directory}/server.crt"], check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
