"""pytest with nbmake, started four seconds sooner, as `nbkit.authoring.quick` explains.

Called by its path, with pytest's arguments, so that the kernel's package is the checkout's own.
"""

import sys

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

if __name__ == "__main__":
    import pytest

    sys.exit(pytest.console_main())
