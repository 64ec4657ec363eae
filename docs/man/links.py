# SPDX-License-Identifier: Apache-2.0
"""Manual pages of single functions: each refers to the library's page.

usage: links.py HEADER              lists the pages that the header's functions need
       links.py --write DIRECTORY PAGE...
"""

import pathlib
import re
import sys

if sys.argv[1] == "--write":
    for page in sys.argv[3:]:
        pathlib.Path(sys.argv[2], page).write_text(".so man3/libholdfast.3\n", encoding="ascii")
else:
    header = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    declared = re.findall(r"^HF_API [^;(]*?(\w+)\(", header, re.MULTILINE)
    print("\n".join(f"{name}.3" for name in dict.fromkeys(declared)))
