"""COUNT threads that GET the same URL at once; prints the distinct SHA-256 of the files that they got."""

import hashlib
import sys
import threading
import urllib.request

url, count = sys.argv[1], int(sys.argv[2])
together = threading.Barrier(count)
digests = []


def fetch():
    together.wait()
    with urllib.request.urlopen(url, timeout=100) as answer:
        digests.append(hashlib.sha256(answer.read()).hexdigest())


threads = [threading.Thread(target=fetch) for _ in range(count)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(digests), *sorted(set(digests)), flush=True)
