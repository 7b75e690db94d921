"""`python -m oomph` is the `oomph` command."""

from oomph.cli.main import main

if __name__ == "__main__":
    main()
