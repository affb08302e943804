"""Fetches a URL again and again by new connections until a file is there; each answer must be the same.

fetch_until.py URL SHA-256 ENOUGH
"""

import hashlib
import os
import sys
import urllib.request

url, digest, enough = sys.argv[1:]
count = 0
while count == 0 or not os.path.exists(enough):
    with urllib.request.urlopen(url, timeout=60) as answer:
        assert hashlib.sha256(answer.read()).hexdigest() == digest, f"after {count} requests"
    count += 1
    if count == 1:
        print("begun", flush=True)
print("fetched", count)
