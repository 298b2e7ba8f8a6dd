"""`python -m waybook` is the command line."""

from waybook.cli.app import main

if __name__ == "__main__":
    main()
