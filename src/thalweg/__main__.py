"""`python -m thalweg`: the same as the `thalweg` command."""

import sys

from thalweg.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
