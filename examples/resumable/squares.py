#!/usr/bin/env python3
"""The same in Python: descriptor 3 unbuffered and binary, state as JSON."""
import json
import os
import sys

night = open(3, "r+b", buffering=0)
task_dir = os.environ["NIGHTSHIFT_TASK_DIR"]
at = {"n": 0, "bytes": 0}
if os.path.exists(f"{task_dir}/checkpoint.json"):
    at = json.load(open(f"{task_dir}/checkpoint.json"))
out = open(os.environ.get("OUT", f"{task_dir}/squares"), "ab")
out.truncate(at["bytes"])
while at["n"] < 1000:
    at["n"] += 1
    at["bytes"] += out.write(b"%d\n" % at["n"] ** 2)
    if at["n"] % 100 == 0:
        out.flush()
        os.fsync(out.fileno())
        night.write(json.dumps({"checkpoint": at, "progress": f"{at['n']}/1000"}).encode() + b"\n")
        if "stop" in json.loads(night.readline()):
            sys.exit(0)
print(at["n"], "squares")
