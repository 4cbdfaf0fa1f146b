"""The code that a sandbox is given: a bare interpreter reads it from the pipe of orders."""

import marshal
from functools import cache
from pathlib import Path

BOOT = (
    "import marshal,os,sys\nf=int(sys.argv[1])\nn=int.from_bytes(os.read(f,4),'big')\nd=b''\n"
    "while len(d)<n:d+=os.read(f,n-len(d))\n"
    "exec(marshal.loads(d),{'__name__':'__main__','__builtins__':__builtins__})"
)


@cache
def code(name: str) -> bytes:
    """Return a file of this folder, compiled and marshalled."""
    path = Path(__file__).with_name(name)
    return marshal.dumps(compile(path.read_text(), f"<{path.stem}>", "exec", dont_inherit=True))
