"""Downloads URL into FILE: a little at a time until the file GO is there, then the rest at once."""

import os
import sys
import time
import urllib.request

url, file, go = sys.argv[1:]
with urllib.request.urlopen(url) as source, open(file, "wb") as target:
    print("begun", flush=True)
    while piece := source.read(1 << 16):
        target.write(piece)
        if not os.path.exists(go):
            time.sleep(0.05)
