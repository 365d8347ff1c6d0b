"""`python -m corpo_rl`, the same as `corpo-rl`."""

from corpo_rl.cli.main import main

main()
