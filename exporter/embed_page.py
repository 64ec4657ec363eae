# SPDX-License-Identifier: Apache-2.0
"""Prints the page as an array in C, and the policy that allows its own script and style alone."""
import base64
import hashlib
import re
import sys

with open(sys.argv[1], 'rb') as file:
    page = file.read()
policy = ["default-src 'none'", "connect-src 'self'", "base-uri 'none'", "form-action 'none'",
          "frame-ancestors 'none'"]
for tag in (b'script', b'style'):
    text, = re.findall(rb'<%s>(.*?)</%s>' % (tag, tag), page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(text).digest()).decode()
    policy.append(f"{tag.decode()}-src 'sha256-{digest}'")
print(f'#define EXPORTER_PAGE_POLICY "{"; ".join(policy)}"')
print('static unsigned char exporter_page[] = {')
for at in range(0, len(page), 20):
    print(''.join(f'{byte},' for byte in page[at:at + 20]))
print('};')
