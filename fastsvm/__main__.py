"""`python -m fastsvm` is the command line."""

import sys

from fastsvm.cli import main

sys.exit(main())
