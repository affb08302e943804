"""Types lines into a shell on a terminal of its own, each when the shell asks for it.

    type.py FILE PROMPT COMMAND...

A line `#key C TEXT` is no line for the shell: once the line before it has printed TEXT, Ctrl-C is
typed. That line before it has `# key` at its end. The exit code is the shell's.
"""

import os
import pty
import sys

KEY = b"#key "
file, prompt, *command = sys.argv[1:]
prompt = prompt.encode()
child, terminal = pty.fork()
if child == 0:
    os.execvp(command[0], command)
said = b""


def wait_for(text):
    """Waits until the text comes, and drops all to its end."""
    global said
    while text not in said:
        try:
            more = os.read(terminal, 65536)
        except OSError:
            sys.exit(f"the shell ended before {text}")
        os.write(1, more.replace(b"\r", b""))
        said += more
    said = said.split(text, 1)[1]


def write(data):
    while data:
        data = data[os.write(terminal, data):]


wait_for(prompt)
for line in open(file, "rb"):
    line = line.strip()
    if line.startswith(KEY):
        _, key, text = line.split(None, 2)
        wait_for(text)
        write(bytes([ord(key) & 31]))
    elif line and not line.startswith(b"#"):
        write(line + b"\r")
    else:
        continue
    if not line.startswith(b"exit") and not line.endswith(b"# key"):
        wait_for(prompt)
try:
    while more := os.read(terminal, 65536):
        os.write(1, more.replace(b"\r", b""))
except OSError:
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
