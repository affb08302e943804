"""idle_init.py PROGRAM [WORD]...: is process 1, runs a program three times, and then lists zombies.

It waits for its own children only, as process 1 of many containers does.
"""

import os
import subprocess
import sys

assert os.getpid() == 1
for _ in range(3):
    subprocess.run(sys.argv[1:], check=True)
zombies = []
for name in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open(f"/proc/{name}/stat") as file:
            head, _, rest = file.read().rpartition(") ")
    except FileNotFoundError:
        continue
    if rest.startswith("Z"):
        zombies.append(head.partition("(")[2])
print("zombies:", zombies)
