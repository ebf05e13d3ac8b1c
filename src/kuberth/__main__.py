"""`python -m kuberth`: the same as the `kuberth` command."""

from kuberth.cli import main

main()
