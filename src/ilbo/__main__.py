"""`python -m ilbo`: the `ilbo` command where it is not on the path."""

import sys

from ilbo.cli.main import main

sys.exit(main())
