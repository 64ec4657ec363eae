# SPDX-License-Identifier: Apache-2.0
"""Prints a file's bytes as the numbers of an array in C."""
import sys

with open(sys.argv[1], 'rb') as file:
    while line := file.read(20):
        print(''.join(f'{byte},' for byte in line))
