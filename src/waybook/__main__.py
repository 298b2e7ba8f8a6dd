"""Entry point of `python -m waybook`: the command line."""

from waybook.cli.app import main

if __name__ == "__main__":
    main()
