"""`python -m hlo2onnx`."""

import sys

from hlo2onnx.cli import main

sys.exit(main())
