"""Entry point that mystmd calls (see template.yml); the work is done in the package renderer."""

import sys

from renderer.main import main

sys.exit(main(sys.argv[1:]))
