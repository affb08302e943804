"""Logs in to an iSCSI target as attackers do.

chap.py HOST TARGET ACTION [WORD...] prints one line: the status of the login (0000 for one that
goes on), or what the action says. TASUKI_TLS=CERTIFICATE,KEY,CA in its environment: by TLS.
"""

import hashlib
import os
import socket
import ssl
import struct
import sys
import time

HOST, TARGET = sys.argv[1:3]
INITIATOR = "iqn.2026-01.example:attacker"
SHA256 = "7"


def connect():
    plain = socket.create_connection((HOST, 3260), 10)
    files = os.environ.get("TASUKI_TLS")
    if files is None:
        return plain
    certificate, key, authority = files.split(",")
    context = ssl.create_default_context(cafile=authority)
    context.load_cert_chain(certificate, key)
    return context.wrap_socket(plain, server_hostname=HOST)


class Login:
    """A connection that logs in."""

    def __init__(self, initiator=INITIATOR, isid=None):
        self.socket = connect()
        self.isid = isid or b"\x80" + os.urandom(5)
        self.initiator = initiator
        self.stat_sn = 0
        self.names = True

    def ask(self, pairs, csg=0, nsg=None):
        """Sends pairs; gives the status and the pairs of the answer."""
        if self.names:
            self.names = False
            pairs = [("InitiatorName", self.initiator), ("TargetName", TARGET)] + pairs
        text = b"".join(f"{key}={value}\0".encode() for key, value in pairs)
        flags = csg << 2 | (0x80 | nsg if nsg is not None else 0)
        head = struct.pack(">BBBB", 0x43, flags, 0, 0) + len(text).to_bytes(4, "big")
        head += self.isid + bytes(2) + struct.pack(">IHHII", 1, 0, 0, 1, self.stat_sn) + bytes(16)
        self.socket.sendall(head + text + bytes(-len(text) % 4))
        head = self.exactly(48)
        assert head[0] == 0x23, head.hex()
        length = int.from_bytes(head[5:8], "big")
        text = self.exactly(length + -length % 4)[:length]
        self.stat_sn = int.from_bytes(head[24:28], "big") + 1
        pairs = [pair.split("=", 1) for pair in text.decode().split("\0") if pair]
        return head[36:38].hex(), dict(pairs)

    def exactly(self, length):
        data = b""
        while len(data) < length:
            part = self.socket.recv(length - len(data))
            if not part:
                raise ConnectionError("the target has closed the connection")
            data += part
        return data

    def challenge(self, algorithm=SHA256):
        """Goes on to the challenge: the identifier and the challenge."""
        status, pairs = self.ask([("AuthMethod", "CHAP")])
        assert (status, pairs.get("AuthMethod")) == ("0000", "CHAP"), (status, pairs)
        status, pairs = self.ask([("CHAP_A", algorithm)])
        assert status == "0000", status
        return int(pairs["CHAP_I"]), bytes.fromhex(pairs["CHAP_C"][2:])

    def prove(self, name, response, more=()):
        return self.ask([("CHAP_N", name), ("CHAP_R", "0x" + response.hex()), *more], nsg=1)


def answer(identifier, challenge, secret):
    return hashlib.sha256(bytes([identifier]) + secret.encode() + challenge).digest()


def proof(name, secret, initiator=INITIATOR, isid=None):
    """A login with a name and a secret, up to the operational stage."""
    login = Login(initiator, isid)
    identifier, challenge = login.challenge()
    return login, login.prove(name, answer(identifier, challenge, secret))


def login(name, secret):
    return proof(name, secret)[1][0]


def keys(name, secret):
    """The keys of the answer to a proof, wrong or right."""
    status, pairs = proof(name, secret)[1]
    return f"{status} {sorted(pairs)}"


def replay(name, secret):
    """What proved a user once, again on another connection."""
    first = Login()
    recorded = answer(*first.challenge(), secret)
    assert first.prove(name, recorded)[0] == "0000"
    second = Login()
    second.challenge()
    return second.prove(name, recorded)[0]


def reflect(name, secret):
    """A user who wants the target to answer the target's own challenge."""
    login = Login()
    identifier, challenge = login.challenge()
    own = [("CHAP_I", str(identifier)), ("CHAP_C", "0x" + challenge.hex())]
    return login.prove(name, answer(identifier, challenge, secret), own)[0]


def across(name, secret):
    """A user who lets the target answer the challenge of another connection, to be somebody else."""
    victim = Login()
    identifier, challenge = victim.challenge()
    helper = Login()
    question = [("CHAP_I", str(identifier)), ("CHAP_C", "0x" + challenge.hex())]
    status, pairs = helper.prove(name, answer(*helper.challenge(), secret), question)
    assert status == "0000", status
    return victim.prove("bob", bytes.fromhex(pairs["CHAP_R"][2:]))[0]


def again():
    """A second proof after a wrong one, on the same connection."""
    login = Login()
    identifier, challenge = login.challenge()
    first = login.prove("alice", bytes(32))[0]
    try:
        return f"{first} {login.prove('alice', answer(identifier, challenge, 'x'))[0]}"
    except OSError:
        return f"{first} closed"


def skip():
    """No security stage at all."""
    return Login().ask([], csg=1, nsg=3)[0]


def skip_proof():
    """Out of the security stage without a response."""
    login = Login()
    login.challenge()
    status, pairs = login.ask([], nsg=3)
    return f"{status} {sorted(pairs)}"


def nothing():
    """No method but None."""
    return Login().ask([("AuthMethod", "None")], nsg=1)[0]


def algorithm(number):
    """A CHAP algorithm alone."""
    login = Login()
    login.ask([("AuthMethod", "CHAP")])
    return login.ask([("CHAP_A", number)])[0]


def challenges(count):
    """How many of so many challenges are different, and how long the shortest is."""
    found = [Login().challenge()[1] for _ in range(int(count))]
    return f"{len(set(found))} {min(map(len, found))}"


def session(name, secret):
    """A session, for as long as the program lives."""
    login = proof(name, secret)[0]
    assert login.ask([], csg=1, nsg=3)[0] == "0000"
    print("isid", login.isid.hex(), flush=True)
    time.sleep(600)


def manage(function, lun):
    """The response to a function of task management in a session without proof."""
    login = Login()
    assert login.ask([], csg=1, nsg=3)[0] == "0000"
    head = struct.pack(">BBH", 0x42, 0x80 | int(function), 0) + bytes(4)
    head += struct.pack(">BB", 0, int(lun)) + bytes(6)
    head += struct.pack(">6I", 7, 0xFFFFFFFF, 1, login.stat_sn, 0, 0) + bytes(8)
    login.socket.sendall(head)
    answer = login.exactly(48)
    assert answer[0] == 0x22, answer.hex()
    return answer[2]


def guess(name, secret, initiator, isid):
    """A user who names somebody else's session."""
    login, (status, _) = proof(name, secret, initiator, bytes.fromhex(isid))
    assert status == "0000", status
    return login.ask([], csg=1, nsg=3)[0]


def stay():
    """A session without a proof by CHAP, for as long as the program lives."""
    login = Login()
    assert login.ask([], csg=1, nsg=3)[0] == "0000"
    print("isid", login.isid.hex(), flush=True)
    time.sleep(600)


def join(isid):
    """A session that may be somebody else's, without a proof by CHAP."""
    return Login(isid=bytes.fromhex(isid)).ask([], csg=1, nsg=3)[0]


def hold(count):
    """Logins that stop before their proof, for as long as the program lives."""
    held = [Login() for _ in range(int(count))]
    for login in held:
        try:
            login.challenge()
        except OSError:
            pass
    print("held", flush=True)
    time.sleep(600)


def wrong(count):
    """So many wrong proofs, one after the other."""
    return " ".join(sorted({login("alice", f"guess number {n}") for n in range(int(count))}))


def command(login, number, cdb, out=b"", room=0):
    """A SCSI command of a session: its status and its data."""
    flags = 0x81 | (0x20 if out else 0) | (0x40 if room else 0)
    head = struct.pack(">BBHI", 0x01, flags, 0, len(out)) + bytes(8)
    head += struct.pack(">4I", number, len(out) or room, number, login.stat_sn)
    login.socket.sendall(head + cdb.ljust(16, b"\0") + out)
    data = b""
    while True:
        head = login.exactly(48)
        length = int.from_bytes(head[5:8], "big")
        data += login.exactly(length + -length % 4)[:length]
        if head[0] == 0x21 or head[0] == 0x25 and head[1] & 1:
            login.stat_sn = int.from_bytes(head[24:28], "big") + 1
            return head[3], data


def asked(cdb, out=b"", room=0):
    """The data of a command of a new session, whose first ones end with unit attentions."""
    login = Login()
    assert login.ask([], csg=1, nsg=3)[0] == "0000"
    for number in range(1, 9):
        status, data = command(login, number, cdb, out, room)
        if status == 0:
            return data
    raise ConnectionError(f"status {status}")


def register(key):
    """Registers a key that outlives the target: PERSISTENT RESERVE OUT with APTPL."""
    asked(bytes.fromhex("5f060000000000001800"), bytes(8) + bytes.fromhex(key) + bytes(4) + b"\1" + bytes(3))
    return "registered"


def registered():
    """All registered keys: PERSISTENT RESERVE IN."""
    data = asked(bytes.fromhex("5e000000000000010000"), room=256)
    keys = data[8 : 8 + int.from_bytes(data[4:8], "big")]
    return " ".join(keys[at : at + 8].hex() for at in range(0, len(keys), 8))


ACTIONS = [login, keys, replay, reflect, across, again, skip, skip_proof, nothing, algorithm]
ACTIONS = {action.__name__: action for action in ACTIONS + [challenges, session, manage, guess, stay, join, hold, wrong]}
ACTIONS |= {action.__name__: action for action in [register, registered]}
print(ACTIONS[sys.argv[3]](*sys.argv[4:]), flush=True)
