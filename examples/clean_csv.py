#!/usr/bin/env python3
"""Task type clean_csv: cleans a CSV file and adds it up by region.

payload (every key may be left out):
  {"input": "sales.csv",   the file; without it one is made by make_csv.py
   "output": "clean.csv",  where the clean records go (data/clean_csv/<task>.csv)
   "rows": 100000, "seed": 1}

The checkpoint holds byte positions in both files and the sums up to there. A
resume cuts the output back to its position, so that no record is lost or
doubled, and the output is byte for byte that of an undisturbed run. Running the
task again overwrites its output: that makes it harmless to repeat.
"""
import csv
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_csv  # noqa: E402  (beside this file)

EACH = 1000  # records between two checkpoints
REGIONS = {"north": "north", "nord": "north", "south": "south", "süd": "south", "east": "east", "west": "west"}


class Nightshift:
    """The socket on descriptor 3: one line out, one line back."""

    def __init__(self):
        self.line = open(3, "r+b", buffering=0)

    def checkpoint(self, state, progress):
        self.line.write(json.dumps({"checkpoint": state, "progress": progress}).encode() + b"\n")
        answer = json.loads(self.line.readline())
        if "stop" in answer:
            sys.exit(0)  # after a stop the exit status does not matter
        if not answer.get("ok"):
            sys.exit(f"checkpoint refused: {answer}")


def clean(row):
    """Gives the record in one form, or None for one that cannot be used."""
    if len(row) != 5:
        return None
    number, name, region, date, amount = (field.strip() for field in row)
    region = REGIONS.get(region.lower())
    money = re.fullmatch(r"(\d+)[.,](\d\d)( EUR)?", amount)
    day = re.fullmatch(r"(\d{4})[-/](\d\d)[-/](\d\d)", date)
    if not day:
        day = re.fullmatch(r"(\d\d)\.(\d\d)\.(\d{4})", date)
        parts = day and day.groups()[::-1]
    else:
        parts = day.groups()
    if not (region and money and parts):
        return None
    cents = int(money[1]) * 100 + int(money[2])
    return [number, " ".join(name.split()).title(), region, "-".join(parts), cents]


def quoted(record):
    return ",".join('"' + str(f).replace('"', '""') + '"' if isinstance(f, str) and not f.isdigit() else str(f) for f in record)


def paths(payload):
    folder = os.path.join("data", "clean_csv")
    source = payload.get("input")
    if source is None:
        rows, seed = int(payload.get("rows", 100_000)), int(payload.get("seed", 1))
        source = os.path.join(folder, f"sales-{rows}-{seed}.csv")
        os.makedirs(folder, exist_ok=True)
        if not os.path.exists(source):
            make_csv.write(source, rows, seed)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", os.environ["NIGHTSHIFT_TASK_ID"])
    target = payload.get("output", os.path.join(folder, name + ".csv"))
    if os.path.dirname(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
    return source, target


def main():
    payload = json.load(sys.stdin)
    if not isinstance(payload, dict):
        print("the payload is not an object", file=sys.stderr)
        sys.exit(65)
    night = Nightshift()
    source, target = paths(payload)
    if not os.path.isfile(source):
        print(f"no such input: {source}", file=sys.stderr)
        sys.exit(65)
    at = {"in": 0, "out": 0, "read": 0, "kept": 0, "cents": {}}
    if os.path.exists(os.path.join(os.environ["NIGHTSHIFT_TASK_DIR"], "checkpoint.json")):
        with open(os.path.join(os.environ["NIGHTSHIFT_TASK_DIR"], "checkpoint.json"), encoding="utf-8") as f:
            at = json.load(f)
        print(f"goes on at byte {at['in']}, record {at['read']}", file=sys.stderr)
    size = os.path.getsize(source)
    with open(source, "rb") as records, open(target, "r+b" if at["out"] else "wb") as out:
        out.truncate(at["out"])
        out.seek(at["out"])
        records.seek(at["in"])
        if at["in"] == 0:
            at["in"] += len(records.readline())  # the header
            at["out"] += out.write(b"id,name,region,date,cents\n")
        for line in records:
            at["in"] += len(line)
            at["read"] += 1
            record = clean(next(csv.reader([line.decode("utf-8", "replace")])))
            if record:
                at["kept"] += 1
                at["cents"][record[2]] = at["cents"].get(record[2], 0) + record[4]
                at["out"] += out.write((quoted(record) + "\n").encode())
            if at["read"] % EACH == 0:
                out.flush()
                os.fsync(out.fileno())  # what the checkpoint names must be on disk before it
                night.checkpoint(at, f"{at['read']} records, {100 * at['in'] // max(size, 1)} %")
        out.flush()
        os.fsync(out.fileno())
    print(json.dumps({"output": target, "read": at["read"], "kept": at["kept"], "cents": dict(sorted(at["cents"].items()))}))


if __name__ == "__main__":
    main()
