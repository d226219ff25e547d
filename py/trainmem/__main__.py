"""`python -m trainmem` is the command line."""

import sys

from trainmem.cli import main

sys.exit(main())
