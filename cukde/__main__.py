"""``python -m cukde`` is the ``cukde`` command."""

import sys

from cukde._cli import main

sys.exit(main())
