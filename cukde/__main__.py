"""``python -m cukde`` is the ``cukde`` command."""

import sys

from cukde.cli.main import main

sys.exit(main())
