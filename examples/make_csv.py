#!/usr/bin/env python3
"""Writes a CSV file of untidy sales records, the same for the same rows and seed.

usage: make_csv.py OUTPUT [ROWS [SEED]]
"""
import os
import random
import sys

REGIONS = ["north", "South ", " EAST", "west", "Nord", "süd", "", "N/A"]
NAMES = ["ann lee", "  Bob O'Brien", "CHEN WEI", "d. müller ", "Eve \"E\" Fox", "李雷", "zoë  ray"]


def record(rng, n):
    amount = rng.randrange(1, 10_000_000)
    money = rng.choice([
        f"{amount / 100:.2f}", f"{amount // 100},{amount % 100:02d}", f" {amount / 100:.2f} EUR", "", "unknown",
    ])
    day = (rng.randrange(2020, 2027), rng.randrange(1, 13), rng.randrange(1, 29))
    date = rng.choice(["%04d-%02d-%02d" % day, "%02d.%02d.%04d" % day[::-1], "%04d/%02d/%02d" % day])
    name = rng.choice(NAMES).replace('"', '""')
    return f'{n},"{name}",{rng.choice(REGIONS)},{date},"{money}"\n'


def write(path, rows, seed):
    """Makes path in one step: under its name there is a whole file or none."""
    rng = random.Random(seed)
    part = f"{path}.{os.getpid()}.part"
    with open(part, "w", encoding="utf-8", newline="") as f:
        f.write("id,name,region,date,amount\n")
        for n in range(1, rows + 1):
            f.write(record(rng, n))
        f.flush()
        os.fsync(f.fileno())
    os.replace(part, path)


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    write(sys.argv[1], int((sys.argv[2:] or [100_000])[0]), int((sys.argv[3:] or [1])[0]))
